//! An HTTP/1.1 server on loopback that writes down what it is asked and misbehaves on demand.

mod body;
mod fault;
mod host;
mod traffic;

pub(crate) use body::{Body, BodySender, bytes_body, stream_body};
pub(crate) use fault::Front;
pub(crate) use host::Host;

pub use fault::{Fault, Victim};
pub use traffic::{Exchange, Traffic};
