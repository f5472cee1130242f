//! Flags of helm's that change nothing for a command that asks neither a cluster nor a repository.
//!
//! Scripts that called helm give them; values that helm refuses are refused here too.

use std::convert::Infallible;
use std::str::FromStr;

use clap::Args;

/// A value that is read and dropped, such as a password.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ignored;

impl FromStr for Ignored {
    type Err = Infallible;
    fn from_str(_: &str) -> Result<Self, Infallible> {
        Ok(Self)
    }
}

/// How helm talks to a cluster.
#[derive(Args, Clone, Debug)]
pub(crate) struct ClientFlags {
    #[arg(long, hide = true, value_parser = integer)]
    burst_limit: Option<Ignored>,
    #[arg(long, hide = true, value_parser = float)]
    qps: Option<Ignored>,
    #[arg(long, hide = true, alias = "colour")]
    color: Option<Ignored>,
    #[arg(long, hide = true)]
    content_cache: Option<Ignored>,
    #[arg(long, hide = true)]
    kube_apiserver: Option<Ignored>,
    #[arg(long, hide = true)]
    kube_as_group: Vec<Ignored>,
    #[arg(long, hide = true)]
    kube_as_user: Option<Ignored>,
    #[arg(long, hide = true)]
    kube_ca_file: Option<Ignored>,
    #[arg(long, hide = true)]
    kube_context: Option<Ignored>,
    #[arg(long, hide = true)]
    kube_insecure_skip_tls_verify: bool,
    #[arg(long, hide = true)]
    kube_tls_server_name: Option<Ignored>,
    #[arg(long, hide = true)]
    kube_token: Option<Ignored>,
    #[arg(long, hide = true)]
    kubeconfig: Option<Ignored>,
    #[arg(long, hide = true)]
    registry_config: Option<Ignored>,
    #[arg(long, hide = true)]
    repository_cache: Option<Ignored>,
}

/// What helm does to a cluster.
#[derive(Args, Clone, Debug)]
pub(crate) struct ActionFlags {
    #[arg(long, hide = true)]
    skip_crds: bool,
    #[arg(long, hide = true)]
    create_namespace: bool,
    #[arg(long, hide = true)]
    replace: bool,
    #[arg(long, hide = true)]
    force_conflicts: bool,
    #[arg(long, hide = true, alias = "force")]
    force_replace: bool,
    #[arg(long, hide = true)]
    server_side: bool,
    #[arg(long, hide = true, alias = "atomic")]
    rollback_on_failure: bool,
    #[arg(long, hide = true)]
    disable_openapi_validation: bool,
    #[arg(long, hide = true)]
    wait_for_jobs: bool,
    #[arg(long, hide = true)]
    take_ownership: bool,
    #[arg(long, hide = true, num_args = 0..=1, require_equals = true, value_parser = waiting)]
    wait: Option<Option<Ignored>>,
    #[arg(long, hide = true, value_parser = duration)]
    timeout: Option<Ignored>,
    #[arg(long, hide = true)]
    description: Option<Ignored>,
    #[arg(short, long, hide = true, value_parser = labels)]
    labels: Vec<Ignored>,
    #[arg(long, hide = true, value_parser = post_renderer)]
    post_renderer: Option<Ignored>,
    #[arg(long, hide = true)]
    post_renderer_args: Vec<Ignored>,
}

fn integer(text: &str) -> Result<Ignored, String> {
    let parsed: Result<i64, _> = text.parse();
    let fault = |_| format!("strconv.ParseInt: parsing {text:?}: invalid syntax");
    parsed.map(|_| Ignored).map_err(fault)
}

fn float(text: &str) -> Result<Ignored, String> {
    let parsed: Result<f32, _> = text.parse();
    let fault = |_| format!("strconv.ParseFloat: parsing {text:?}: invalid syntax");
    parsed.map(|_| Ignored).map_err(fault)
}

fn duration(text: &str) -> Result<Ignored, String> {
    sprig::parse_duration(text).map(|_| Ignored)
}

fn waiting(text: &str) -> Result<Ignored, String> {
    match text {
        "watcher" | "hookOnly" | "legacy" | "true" | "false" => Ok(Ignored),
        _ => Err(format!(
            "invalid wait input {text:?}. Valid inputs are watcher, hookOnly, and legacy"
        )),
    }
}

fn labels(text: &str) -> Result<Ignored, String> {
    let bad = text
        .split(',')
        .find(|pair| !pair.is_empty() && !pair.contains('='));
    match bad {
        Some(pair) => Err(format!("{pair} must be formatted as key=value")),
        None => Ok(Ignored),
    }
}

/// Post-renderers are plugins of helm, which are not run: none is installed here.
fn post_renderer(name: &str) -> Result<Ignored, String> {
    match name {
        "" => Ok(Ignored),
        _ => Err(format!(
            "plugin: {{Name:{name} Type:postrenderer/v1}} not found"
        )),
    }
}
