//! Release records: what Helm keeps of each revision in a Secret, with its codec.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::io::{Read, Write};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use gotmpl::Str;
use goyaml::Tree;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::chart::{ChartFile, Lock, Metadata};
use crate::json;

/// The most that a record may unpack to. A Secret holds 1 MiB at most, so this is a ratio of 256.
pub const MAX_RECORD_BYTES: u64 = 256 * 1024 * 1024;

/// One revision of a release, in the form of Helm 4 (`sh.helm.release.v1`). Helm 3 reads it, and
/// what Helm 3 wrote is read here.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Release {
    /// The release's name.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// Times, status, notes.
    pub info: Info,
    /// What of the chart is kept: everything but its subcharts.
    pub chart: StoredChart,
    /// The values that the user gave.
    #[serde(with = "json::tree", skip_serializing_if = "no_entries")]
    pub config: Option<Tree>,
    /// The rendered manifest, as [`Rendered::manifest`](crate::Rendered::manifest) has it.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub manifest: String,
    /// The hooks, in kind order.
    #[serde(
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "json::null_as_default"
    )]
    pub hooks: Vec<Hook>,
    /// The revision, from 1.
    #[serde(rename = "version", skip_serializing_if = "is_zero")]
    pub revision: i64,
    /// The namespace of the release.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    /// How the objects were applied; records of Helm 3 have none, which means client-side.
    #[serde(
        skip_serializing_if = "Option::is_none",
        deserialize_with = "lenient_method"
    )]
    pub apply_method: Option<ApplyMethod>,
    /// Labels that the user gave; kept as labels of the Secret, not inside the record.
    #[serde(skip)]
    pub labels: BTreeMap<String, String>,
}

/// How a release was applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ApplyMethod {
    /// Three-way patches computed by the client.
    #[serde(rename = "csa")]
    ClientSide,
    /// Apply patches computed by the API server.
    #[serde(rename = "ssa")]
    ServerSide,
}

/// What happened to a revision, and when.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Info {
    /// When the release was first deployed.
    #[serde(with = "json::go_time", skip_serializing_if = "Option::is_none")]
    pub first_deployed: Option<Timestamp>,
    /// When this revision was deployed.
    #[serde(with = "json::go_time", skip_serializing_if = "Option::is_none")]
    pub last_deployed: Option<Timestamp>,
    /// When the release was uninstalled.
    #[serde(with = "json::go_time", skip_serializing_if = "Option::is_none")]
    pub deleted: Option<Timestamp>,
    /// A sentence for people.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub description: String,
    /// The state of this revision.
    pub status: Status,
    /// The revision that this one rolled back to; 0 if it is no rollback.
    #[serde(skip_serializing_if = "is_zero")]
    pub rollback_revision: i64,
    /// The rendered `NOTES.txt`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub notes: String,
}

/// The state of a revision.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Status {
    /// The revision that is in the cluster.
    Deployed,
    /// Uninstalled with its history kept.
    Uninstalled,
    /// Replaced by a later revision.
    Superseded,
    /// It did not succeed.
    Failed,
    /// Being uninstalled.
    Uninstalling,
    /// Being installed.
    PendingInstall,
    /// Being upgraded.
    PendingUpgrade,
    /// Being rolled back.
    PendingRollback,
    /// Not known, or a state of another version of Helm.
    #[default]
    #[serde(other)]
    Unknown,
}

impl Status {
    /// Every state.
    pub const ALL: [Self; 9] = [
        Self::Unknown,
        Self::Deployed,
        Self::Uninstalled,
        Self::Superseded,
        Self::Failed,
        Self::Uninstalling,
        Self::PendingInstall,
        Self::PendingUpgrade,
        Self::PendingRollback,
    ];

    /// The text in records and in the `status` label.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Unknown => "unknown",
            Self::Deployed => "deployed",
            Self::Uninstalled => "uninstalled",
            Self::Superseded => "superseded",
            Self::Failed => "failed",
            Self::Uninstalling => "uninstalling",
            Self::PendingInstall => "pending-install",
            Self::PendingUpgrade => "pending-upgrade",
            Self::PendingRollback => "pending-rollback",
        }
    }

    /// Whether an install, upgrade or rollback is in progress, or was left so by a crash.
    /// `uninstalling` does not count, as in Helm.
    #[must_use]
    pub fn is_pending(self) -> bool {
        matches!(
            self,
            Self::PendingInstall | Self::PendingUpgrade | Self::PendingRollback
        )
    }
}

impl std::fmt::Display for Status {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The parts of a chart that a record keeps.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct StoredChart {
    /// `Chart.yaml`, with the dependencies that were enabled.
    pub metadata: Metadata,
    /// `Chart.lock`.
    pub lock: Option<Lock>,
    /// The chart's own templates.
    #[serde(deserialize_with = "json::null_as_default")]
    pub templates: Vec<StoredFile>,
    /// Default values, with what was imported from subcharts.
    #[serde(with = "json::tree")]
    pub values: Option<Tree>,
    /// `values.schema.json`.
    #[serde(with = "json::bytes")]
    pub schema: Option<Str>,
    /// When the schema was last changed.
    #[serde(rename = "schemamodtime", with = "json::go_time")]
    pub schema_modified: Option<Timestamp>,
    /// The chart's other files.
    #[serde(deserialize_with = "json::null_as_default")]
    pub files: Vec<StoredFile>,
    /// When `Chart.yaml` was last changed.
    #[serde(
        rename = "modtime",
        with = "json::go_time",
        skip_serializing_if = "Option::is_none"
    )]
    pub modified: Option<Timestamp>,
}

/// A file of a stored chart.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct StoredFile {
    /// The path from the chart's root.
    pub name: String,
    /// The content.
    #[serde(with = "json::bytes")]
    pub data: Option<Str>,
    /// When it was last changed.
    #[serde(
        rename = "modtime",
        with = "json::go_time",
        skip_serializing_if = "Option::is_none"
    )]
    pub modified: Option<Timestamp>,
}

impl From<&ChartFile> for StoredFile {
    fn from(file: &ChartFile) -> Self {
        Self {
            name: file.name.clone(),
            data: Some(file.data.clone()),
            modified: file.modified,
        }
    }
}

/// A hook: a manifest that runs at some moment of a release's life and is not part of it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Hook {
    /// `metadata.name`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// The Kubernetes kind.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub kind: String,
    /// The template that it comes from, `CHART/templates/x.yaml`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub path: String,
    /// The document.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub manifest: String,
    /// When it runs, in the order of the annotation.
    #[serde(
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "json::null_as_default"
    )]
    pub events: Vec<HookEvent>,
    /// Its last run.
    pub last_run: HookExecution,
    /// The order among hooks of one event: lower runs first.
    #[serde(skip_serializing_if = "is_zero")]
    pub weight: i64,
    /// When its objects are deleted; unknown words are kept and have no effect.
    #[serde(
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "json::null_as_default"
    )]
    pub delete_policies: Vec<String>,
    /// When its log is printed; unknown words are kept and have no effect.
    #[serde(
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "json::null_as_default"
    )]
    pub output_log_policies: Vec<String>,
}

/// A moment at which hooks run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum HookEvent {
    /// After rendering, before any object of the release is created.
    PreInstall,
    /// After all objects are there (and ready, if one waits).
    PostInstall,
    /// Before the first object is deleted.
    PreDelete,
    /// After all objects are deleted.
    PostDelete,
    /// After rendering, before any object is changed.
    PreUpgrade,
    /// After all objects are changed.
    PostUpgrade,
    /// Before any object is rolled back.
    PreRollback,
    /// After all objects are rolled back.
    PostRollback,
    /// When the release is tested.
    #[serde(alias = "test-success")]
    Test,
}

impl HookEvent {
    /// The event that a word of the `helm.sh/hook` annotation names.
    #[must_use]
    pub fn parse(word: &str) -> Option<Self> {
        Some(match word {
            "pre-install" => Self::PreInstall,
            "post-install" => Self::PostInstall,
            "pre-delete" => Self::PreDelete,
            "post-delete" => Self::PostDelete,
            "pre-upgrade" => Self::PreUpgrade,
            "post-upgrade" => Self::PostUpgrade,
            "pre-rollback" => Self::PreRollback,
            "post-rollback" => Self::PostRollback,
            "test" | "test-success" => Self::Test,
            _ => return None,
        })
    }

    /// The word in annotations and records.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::PreInstall => "pre-install",
            Self::PostInstall => "post-install",
            Self::PreDelete => "pre-delete",
            Self::PostDelete => "post-delete",
            Self::PreUpgrade => "pre-upgrade",
            Self::PostUpgrade => "post-upgrade",
            Self::PreRollback => "pre-rollback",
            Self::PostRollback => "post-rollback",
            Self::Test => "test",
        }
    }
}

/// A run of a hook.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct HookExecution {
    /// When it was started.
    #[serde(with = "json::go_time", skip_serializing_if = "Option::is_none")]
    pub started_at: Option<Timestamp>,
    /// When it ended.
    #[serde(with = "json::go_time", skip_serializing_if = "Option::is_none")]
    pub completed_at: Option<Timestamp>,
    /// How it went.
    pub phase: HookPhase,
}

/// How a run of a hook went.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum HookPhase {
    /// It never ran: an empty string in the record.
    #[default]
    #[serde(rename = "")]
    None,
    /// It is running.
    Running,
    /// It succeeded.
    Succeeded,
    /// It failed.
    Failed,
    /// Its state is not known.
    #[serde(other)]
    Unknown,
}

/// Why a record could not be read or written.
#[derive(Debug, Error)]
pub enum RecordError {
    /// The text is no base64.
    #[error("release record is not base64")]
    Base64(#[from] base64::DecodeError),
    /// The bytes are no gzip stream.
    #[error("cannot unpack release record")]
    Gzip(#[source] std::io::Error),
    /// It unpacks to more than [`MAX_RECORD_BYTES`].
    #[error("release record unpacks to more than {MAX_RECORD_BYTES} bytes")]
    TooLarge,
    /// The JSON is no release.
    #[error("cannot read release record")]
    Json(#[from] serde_json::Error),
}

impl Release {
    /// The text that goes under the key `release` of the Secret (before the API's own base64):
    /// base64 of gzip of JSON. The level of compression is a low one: readers take any, and this
    /// is on the path of every release.
    ///
    /// # Errors
    /// A value that JSON cannot hold.
    pub fn encode(&self) -> Result<String, RecordError> {
        let json = json::to_vec(self)?;
        let mut gzip = GzEncoder::new(Vec::with_capacity(json.len() / 4), Compression::new(4));
        gzip.write_all(&json).map_err(RecordError::Gzip)?;
        Ok(STANDARD.encode(gzip.finish().map_err(RecordError::Gzip)?))
    }

    /// Reads what [`encode`](Self::encode) or any Helm since version 3 wrote; records from before
    /// there was compression too.
    ///
    /// # Errors
    /// It is no record, or unpacks to more than [`MAX_RECORD_BYTES`].
    pub fn decode(text: impl AsRef<[u8]>) -> Result<Self, RecordError> {
        let packed = STANDARD.decode(text.as_ref().trim_ascii_end())?;
        Ok(serde_json::from_slice(&unpack(&packed)?)?)
    }
}

fn unpack(packed: &[u8]) -> Result<Cow<'_, [u8]>, RecordError> {
    if packed.len() <= 3 || !packed.starts_with(&[0x1f, 0x8b, 0x08]) {
        return Ok(Cow::Borrowed(packed));
    }
    let mut json = Vec::with_capacity(packed.len().saturating_mul(5));
    GzDecoder::new(packed)
        .take(MAX_RECORD_BYTES + 1)
        .read_to_end(&mut json)
        .map_err(RecordError::Gzip)?;
    if json.len() as u64 > MAX_RECORD_BYTES {
        return Err(RecordError::TooLarge);
    }
    Ok(Cow::Owned(json))
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde passes fields by reference"
)]
fn is_zero(value: &i64) -> bool {
    *value == 0
}

#[expect(clippy::ref_option, reason = "serde passes fields by reference")]
fn no_entries(config: &Option<Tree>) -> bool {
    match config {
        None | Some(Tree::Null) => true,
        Some(Tree::Map(entries)) => entries.is_empty(),
        Some(_) => false,
    }
}

fn lenient_method<'de, D: serde::Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<ApplyMethod>, D::Error> {
    let text = Option::<String>::deserialize(deserializer)?;
    Ok(match text.as_deref() {
        Some("ssa") => Some(ApplyMethod::ServerSide),
        Some("csa") => Some(ApplyMethod::ClientSide),
        _ => None,
    })
}
