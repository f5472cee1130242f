//! The optional validating webhook: a HelmRelease that cannot work is refused before it is stored.
//!
//! The daemon needs none of it. Without the webhook, or when it cannot be reached, the same faults are found by the
//! next sync and told in the status.

mod certificate;
mod keeper;
mod review;
mod tls;

pub use certificate::{CertificateError, Issued};
pub use keeper::{CertificateKeeper, CertificateSource, SelfMade};
pub use review::{Reviewer, review_routes};
pub use tls::{Identity, TlsListener, serve_webhook};
