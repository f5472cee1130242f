//! The chart as it was loaded: immutable, shared between renders and threads.

mod finite;
mod lock;
mod metadata;
mod read;
mod validate;

use std::path::Path;
use std::sync::Arc;

use gotmpl::Str;
use goyaml::Tree;
use jiff::Timestamp;

pub(crate) use finite::METADATA as METADATA_SHAPE;
pub use lock::{LockTime, helm2_lock_digest, lock_digest};
pub use metadata::{Dependency, Lock, Maintainer, Metadata};
pub(crate) use read::{read_api_version, read_lock, read_metadata_onto, unknown_fields};
pub(crate) use validate::{is_print, validate};

use crate::compiled::CompiledCache;

/// A file of a chart: its path relative to the chart's root with `/` between the parts, and its
/// bytes without a leading byte order mark.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChartFile {
    /// Such as `templates/deployment.yaml`.
    pub name: String,
    /// The content; a clone shares it.
    pub data: Str,
    /// When the file was last changed, where the source knows it (a directory, an archive).
    pub modified: Option<Timestamp>,
}

impl ChartFile {
    /// A file without a time.
    pub fn new(name: impl Into<String>, data: impl Into<Str>) -> Self {
        Self {
            name: name.into(),
            data: data.into(),
            modified: None,
        }
    }
}

/// A loaded chart. `Send + Sync`: load it once, share it by `Arc`, render it often; what was
/// compiled for one render is used again by the next.
#[derive(Clone, Debug, Default)]
pub struct Chart {
    /// `Chart.yaml`, and `requirements.yaml` of an old chart.
    pub metadata: Metadata,
    /// `Chart.lock` or `requirements.lock`.
    pub lock: Option<Lock>,
    /// `values.yaml`, all documents merged; always a map. `None` if there is no such file.
    pub values: Option<Tree>,
    /// `values.schema.json` as it is.
    pub schema: Option<Str>,
    /// When the schema was last changed.
    pub schema_modified: Option<Timestamp>,
    /// Everything under `templates/`.
    pub templates: Vec<ChartFile>,
    /// Everything else: READMEs, `crds/`, what `.Files` shows.
    pub files: Vec<ChartFile>,
    /// All files as they were loaded, those of subcharts included, in order of loading: what `show`
    /// and `package` print.
    pub raw: Vec<ChartFile>,
    /// The charts under `charts/`, in the order of their names there.
    pub dependencies: Vec<Arc<Self>>,
    /// When `Chart.yaml` was last changed.
    pub modified: Option<Timestamp>,
    /// Templates that earlier renders have parsed.
    pub(crate) compiled: CompiledCache,
}

impl Chart {
    /// The name in `Chart.yaml`.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.metadata.name
    }

    /// A loaded file by its path from the chart's root, byte for byte (comments and all).
    #[must_use]
    pub fn raw_file(&self, name: &str) -> Option<&ChartFile> {
        self.raw.iter().find(|file| file.name == name)
    }

    /// Checks the metadata, as loading does: for a chart that was changed since.
    ///
    /// # Errors
    /// `validation: …`
    pub fn validate(&mut self) -> Result<(), crate::LoadError> {
        validate(&mut self.metadata).map_err(crate::LoadError::Invalid)
    }

    /// The dependencies in `Chart.yaml`, without the nulls that stand for none.
    pub fn requested(&self) -> impl Iterator<Item = &Dependency> {
        self.metadata.dependencies.iter().flatten().flatten()
    }

    /// The names of dependencies in `Chart.yaml` for which there is no chart under `charts/`.
    #[must_use]
    pub fn missing_dependencies(&self) -> Vec<&str> {
        let is_missing = |name: &&str| self.dependencies.iter().all(|chart| chart.name() != *name);
        self.requested()
            .map(|dependency| dependency.name.as_str())
            .filter(is_missing)
            .collect()
    }

    /// The manifests under `crds/` of this chart and then of its subcharts, with the path that
    /// Helm prints for them (`CHART/charts/SUB/crds/x.yaml`). Subcharts that conditions or tags
    /// switch off are left out by [`Rendered::crds`](crate::Rendered::crds), not here.
    #[must_use]
    pub fn crds(&self) -> Vec<Crd> {
        let mut found = Vec::new();
        self.collect_crds(self.name().to_owned(), &mut found);
        found
    }

    fn collect_crds(&self, path: String, found: &mut Vec<Crd>) {
        found.extend(own_crds(&self.files, &path));
        for chart in &self.dependencies {
            chart.collect_crds(format!("{path}/charts/{}", chart.name()), found);
        }
    }
}

/// A file of `crds/`: applied before anything else on install, never templated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Crd {
    /// `CHART/crds/x.yaml`, with `charts/SUB/` in between for subcharts.
    pub path: String,
    /// The file as it is; it may hold several documents.
    pub data: Str,
}

pub(crate) fn own_crds<'a>(
    files: &'a [ChartFile],
    chart_path: &'a str,
) -> impl Iterator<Item = Crd> + 'a {
    files
        .iter()
        .filter(|file| file.name.starts_with("crds/") && has_manifest_extension(&file.name))
        .map(move |file| Crd {
            path: format!("{chart_path}/{}", file.name),
            data: file.data.clone(),
        })
}

fn has_manifest_extension(name: &str) -> bool {
    Path::new(name)
        .extension()
        .and_then(|extension| extension.to_str())
        .is_some_and(|extension| {
            ["yaml", "yml", "json"]
                .iter()
                .any(|known| extension.eq_ignore_ascii_case(known))
        })
}
