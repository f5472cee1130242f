//! Helm's own functions, and what the engine gives them.

mod data;
mod duration;
mod host;
mod render;

pub use host::{INCLUDE_LIMIT, Lookup, RenderHost};

/// Stands before the text of `required` and `fail` in an error, so that the engine can cut the text
/// out of the chain of errors around it, as Helm does.
pub const MESSAGE_START: &str = "HELM_ERR_START";

/// Stands after the text of `required` and `fail` in an error.
pub const MESSAGE_END: &str = "HELM_ERR_END";

pub(crate) fn register(functions: &mut gotmpl::Functions) {
    data::register(functions);
    duration::register(functions);
    render::register(functions);
}
