//! The Sprig function library and Helm's own template functions.

mod arguments;
mod crypto;
mod defaults;
mod depth;
mod dicts;
mod encoding;
mod environment;
pub mod helm;
mod json;
mod lists;
mod math;
mod network;
mod paths;
mod random;
mod reflection;
pub mod regexp;
pub mod semver;
mod strings;
mod text;
mod time;
mod toml;
mod unicode;
mod url;
mod variables;

pub use environment::{Clock, Environment, KeyGenerator, LocalZone, Network, Random, SystemSource};

use gotmpl::Functions;

/// What Go's `time.ParseDuration` makes of a text: nanoseconds.
///
/// # Errors
/// Go's text: `time: invalid duration "x"`.
pub fn parse_duration(text: &str) -> Result<i64, String> {
    time::parse_duration(text.as_bytes())
}

pub use variables::Variables;

/// [`functions`] with `env` and `expandenv`, for templates that are a person's own: Helm's
/// `--name-template`.
#[must_use]
pub fn functions_with_variables(environment: &Environment, variables: &Variables) -> Functions {
    let mut functions = functions(environment);
    self::variables::register(&mut functions, variables);
    functions
}

/// All functions that Helm 4.3.1 gives to templates: Sprig 3.3.0 without `env` and `expandenv`, and
/// Helm's own. Put a [`helm::RenderHost`] into the execution for those that need the render.
#[must_use]
pub fn functions(environment: &Environment) -> Functions {
    let mut functions = Functions::new();
    strings::register(&mut functions);
    lists::register(&mut functions);
    dicts::register(&mut functions);
    defaults::register(&mut functions);
    math::register(&mut functions);
    reflection::register(&mut functions);
    semver::register(&mut functions);
    encoding::register(&mut functions);
    paths::register(&mut functions);
    toml::register(&mut functions, environment);
    url::register(&mut functions);
    random::register(&mut functions, environment);
    network::register(&mut functions, environment);
    crypto::register(&mut functions, environment);
    regexp::register(&mut functions);
    time::register(&mut functions, environment);
    helm::register(&mut functions);
    functions
}
