//! What a release is called, and what is to be deployed.

use std::collections::BTreeMap;
use std::fmt;

use goyaml::Tree;
use helm_engine::record::StoredChart;
use helm_engine::{Crd, Hook, Rendered};

/// The name and namespace of a release.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ReleaseKey {
    /// The release's name.
    pub name: String,
    /// The namespace of the release: that of its records, and of objects that name none.
    pub namespace: String,
}

impl ReleaseKey {
    /// A key.
    pub fn new(name: impl Into<String>, namespace: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            namespace: namespace.into(),
        }
    }
}

impl fmt::Display for ReleaseKey {
    /// `namespace/name`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

/// A rendered chart with what is recorded of it: what an install or an upgrade brings about.
#[derive(Clone, Debug, Default)]
pub struct Desired {
    /// The manifest, in install order, with its `# Source` lines.
    pub manifest: String,
    /// The hooks.
    pub hooks: Vec<Hook>,
    /// The notes.
    pub notes: String,
    /// The files of `crds/`, of the chart and of its enabled subcharts.
    pub crds: Vec<Crd>,
    /// What the record keeps of the chart.
    pub chart: StoredChart,
    /// The values that the user gave.
    pub config: Option<Tree>,
    /// Labels of the record, beside Helm's own.
    pub labels: BTreeMap<String, String>,
    /// Annotations of the record. The stock helm drops them when it rewrites a record: their
    /// presence says that what they tell is still so.
    pub annotations: BTreeMap<String, String>,
    /// A sentence for the record, instead of `Install complete` or `Upgrade complete`.
    pub description: Option<String>,
}

impl Desired {
    /// Takes what was rendered, with the chart if it was kept, and the user's values.
    #[must_use]
    pub fn new(rendered: Rendered, config: Tree) -> Self {
        Self {
            manifest: rendered.manifest,
            hooks: rendered.hooks,
            notes: rendered.notes,
            crds: rendered.crds,
            chart: rendered.chart.unwrap_or_default(),
            config: Some(config),
            ..Self::default()
        }
    }
}
