//! Semantic versions and ranges as Masterminds/semver 3.5 reads them: what `semver` and
//! `semverCompare` use, and what picks chart versions out of repositories.
//!
//! ```
//! use sprig::semver::{Constraints, Version};
//!
//! let wanted = Constraints::parse("^1.2, <1.9 || ~3")?;
//! assert!(wanted.check(&Version::parse("v1.4")?));
//! assert!(!wanted.check(&Version::parse("1.4.0-rc.1")?));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod constraint;
mod functions;
mod scan;
mod version;

pub use constraint::{ConstraintError, Constraints};
pub use version::{Version, VersionError};

pub(crate) use functions::register;
