//! OCI registries: tags, manifests and chart layers (the distribution specification 1.1).

mod challenge;
mod registry;
mod signatures;

pub use registry::Reference;
pub(super) use registry::Registries;
