//! Packing a chart into a `.tgz`, as `helm package` does.

use std::io::{self, Write};

use flate2::{Compression, GzBuilder};
use jiff::Timestamp;
use tar::{Builder, EntryType, Header};

use crate::chart::{Chart, Lock, LockTime, Metadata};
use crate::json;

/// The mark that Helm leaves in the gzip header: an extra field `rr` of 40 bytes.
const EXTRA: &[u8] = b"rr(\0aHR0cHM6Ly95b3V0dS5iZS96OVV6MWljandyTQo=";

/// Writes a chart as an archive: `Chart.yaml`, lock, values, schema, templates, files, and then its
/// subcharts, each below its parent's `charts/`.
///
/// `time` is given to every file; without one each keeps its own, or that of now.
///
/// # Errors
/// The writer fails, or the schema is no JSON.
pub fn package(chart: &Chart, time: Option<Timestamp>, out: impl Write) -> io::Result<()> {
    let gzip = GzBuilder::new()
        .comment("Helm")
        .extra(EXTRA)
        .write(out, Compression::default());
    let mut packer = Packer {
        archive: Builder::new(gzip),
        time,
    };
    packer.chart(chart, "")?;
    packer.archive.into_inner()?.finish()?.flush()
}

/// `Chart.yaml` as Helm writes it: known fields only, keys in order.
#[must_use]
pub fn metadata_yaml(metadata: &Metadata) -> Vec<u8> {
    yaml(metadata)
}

/// `Chart.lock` as Helm writes it.
#[must_use]
pub fn lock_yaml(lock: &Lock) -> Vec<u8> {
    yaml(lock)
}

fn yaml(value: &impl serde::Serialize) -> Vec<u8> {
    json::to_vec(value)
        .ok()
        .and_then(|json| goyaml::read_json(&json).ok())
        .and_then(|tree| goyaml::to_yaml_tree(&tree).ok())
        .unwrap_or_default()
}

struct Packer<W: Write> {
    archive: Builder<W>,
    time: Option<Timestamp>,
}

impl<W: Write> Packer<W> {
    fn chart(&mut self, chart: &Chart, prefix: &str) -> io::Result<()> {
        let base = format!("{prefix}{}", chart.name());
        let is_old = chart.metadata.api_version == "v1";
        let mut metadata = chart.metadata.clone();
        if is_old {
            // Those of an old chart are in its requirements.yaml.
            metadata.dependencies = None;
        }
        self.file(&base, "Chart.yaml", &yaml(&metadata), chart.modified)?;
        if chart.metadata.api_version == "v2"
            && let Some(lock) = &chart.lock
        {
            let time = lock.generated.map(LockTime::timestamp);
            self.file(&base, "Chart.lock", &lock_yaml(lock), time)?;
        }
        if let Some(values) = chart.raw_file("values.yaml") {
            self.file(&base, "values.yaml", &values.data, values.modified)?;
        }
        if let Some(schema) = &chart.schema {
            if goyaml::read_json(schema).is_err() {
                return Err(io::Error::other("invalid JSON in values.schema.json"));
            }
            let modified = chart.schema_modified;
            self.file(&base, "values.schema.json", schema, modified)?;
        }
        for file in chart.templates.iter().chain(&chart.files) {
            self.file(&base, &file.name, &file.data, file.modified)?;
        }
        let prefix = format!("{base}/charts/");
        chart
            .dependencies
            .iter()
            .try_for_each(|subchart| self.chart(subchart, &prefix))
    }

    fn file(
        &mut self,
        base: &str,
        name: &str,
        data: &[u8],
        modified: Option<Timestamp>,
    ) -> io::Result<()> {
        let time = self.time.or(modified).unwrap_or_else(Timestamp::now);
        let mut header = Header::new_gnu();
        header.set_mode(0o644);
        header.set_size(data.len() as u64);
        header.set_mtime(u64::try_from(rounded(time)).unwrap_or(0));
        header.set_entry_type(EntryType::Regular);
        self.archive
            .append_data(&mut header, format!("{base}/{name}"), data)
    }
}
/// Whole seconds, as Go's archives have them: the nearest, and of two the later one.
fn rounded(time: Timestamp) -> i64 {
    time.as_second() + i64::from(time.subsec_nanosecond() >= 500_000_000)
}
