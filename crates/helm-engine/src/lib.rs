//! Helm charts: loading, values, dependencies, schema, rendering, release records.
//!
//! The reference is Helm 4.3.1: the same chart with the same values renders to the same bytes, and
//! what goes wrong is said in the same words.
//!
//! ```text
//! load_directory, load_archive, load_files ──▶ Chart ─┐
//! values::ValuesOptions, values::read_values ─▶ Tree ─┴─render──▶ Rendered ──▶ record::Release
//! ```

mod capabilities;
mod chart;
mod coalesce;
mod compiled;
mod context;
mod dependencies;
mod error;
mod json;
pub mod jsonpath;
pub mod lint;
mod load;
mod log;
mod manifest;
mod node;
mod package;
pub mod record;
mod render;
mod schema;
mod text;
pub mod values;
mod version;

pub use capabilities::{Capabilities, HelmVersion, KubeVersion, KubeVersionError};
pub use chart::{
    Chart, ChartFile, Crd, Dependency, Lock, LockTime, Maintainer, Metadata, helm2_lock_digest,
    lock_digest,
};
pub use coalesce::TypeMismatch;
pub use error::RenderError;
pub use load::{
    Limits, LoadError, Loaded, go_io_error, load, load_archive, load_chart_files, load_directory,
    load_files, load_of_any_version, path_matches, read_archive,
};
pub use log::{LogLevel, LogLine};
pub use manifest::{
    INSTALL_ORDER, Manifest, ManifestError, UNINSTALL_ORDER, compare_kinds, sort_manifests,
    split_manifests,
};
pub use package::{lock_yaml, metadata_yaml, package};
pub use record::{Hook, HookEvent, HookExecution, HookPhase, Release, Status};
pub use render::{
    RenderOptions, Rendered, coalesce_tables, coalesce_values, name_from_template, render,
    render_telling, render_templates, validate_values,
};
pub use sprig::helm::Lookup;
pub use sprig::{Environment, SystemSource};
pub use version::check_version;
