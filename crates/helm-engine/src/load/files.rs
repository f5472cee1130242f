//! From a list of files to a chart: which file is what, and the subcharts among them.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::directory::without_bom;
use super::{Limits, LoadError, Loaded, archive};
use crate::chart::{self, Chart, ChartFile};
use crate::{LogLine, values};

/// Loads a chart from its files: pairs of a path relative to the chart's root, with `/`, and the
/// bytes. The door for everything that is neither a directory nor an archive, such as a git tree.
///
/// `.helmignore` applies as it does to a directory. A path that is absolute or leads upwards is
/// refused.
///
/// # Errors
/// A limit is passed, a path leads elsewhere, or the files are no chart.
pub fn load_files<N: Into<String>, D: AsRef<[u8]>>(
    files: impl IntoIterator<Item = (N, D)>,
    limits: &Limits,
) -> Result<Loaded, LoadError> {
    let mut taken = Vec::new();
    let mut remaining = limits.total_bytes;
    for (name, data) in files {
        let (name, data) = (name.into(), data.as_ref());
        check_path(&name)?;
        if taken.len() >= limits.files {
            return Err(LoadError::TooManyFiles(limits.files));
        }
        if data.len() as u64 > limits.file_bytes {
            let limit = limits.file_bytes;
            return Err(LoadError::FileTooLarge { name, limit });
        }
        remaining = remaining
            .checked_sub(data.len() as u64)
            .ok_or(LoadError::DirectoryTooLarge(limits.total_bytes))?;
        taken.push(ChartFile::new(name, without_bom(data)));
    }
    taken.sort_by(|left, right| left.name.split('/').cmp(right.name.split('/')));
    let rules = taken
        .iter()
        .find(|file| file.name == ".helmignore")
        .map_or(&b""[..], |file| &file.data);
    let rules = super::ignore::Rules::parse(rules)?;
    taken.retain(|file| !is_ignored(&rules, &file.name));
    if let Some(chart_file) = taken.iter().find(|file| file.name == "Chart.yaml") {
        check_version(&chart_file.data)?;
    }
    assemble(taken, limits)
}

fn check_path(name: &str) -> Result<(), LoadError> {
    if name.starts_with('/') {
        return Err(LoadError::AbsolutePath);
    }
    if name.split('/').any(|part| part == "..") {
        return Err(LoadError::ParentPath);
    }
    if archive::clean(name) != name || name.contains(['\\', '\0']) {
        return Err(LoadError::IllegalName);
    }
    Ok(())
}

/// Whether the file or a directory above it is ignored.
fn is_ignored(rules: &super::ignore::Rules, name: &str) -> bool {
    let directories = name.match_indices('/').map(|(at, _)| name.split_at(at).0);
    directories
        .into_iter()
        .any(|directory| rules.ignores(directory, true))
        || rules.ignores(name, false)
}

/// Refuses chart versions that this engine does not know, before anything else is said about it.
pub(super) fn check_version(chart_file: &[u8]) -> Result<(), LoadError> {
    let version = chart::read_api_version(chart_file).map_err(|cause| LoadError::Yaml {
        file: "Chart.yaml",
        cause,
    })?;
    match version.as_str() {
        "" | "v1" | "v2" => Ok(()),
        "v3" => Err(LoadError::NextVersion),
        _ => Err(LoadError::UnsupportedVersion),
    }
}

pub(super) fn assemble(files: Vec<ChartFile>, limits: &Limits) -> Result<Loaded, LoadError> {
    let mut warnings = Vec::new();
    let chart = Assembly {
        limits,
        depth: 0,
        packed_bytes: limits.total_bytes,
        warnings: &mut warnings,
    }
    .chart(files)?;
    Ok(Loaded { chart, warnings })
}

struct Assembly<'a> {
    limits: &'a Limits,
    depth: usize,
    /// What all archives inside this chart may still unpack to, together.
    packed_bytes: u64,
    warnings: &'a mut Vec<LogLine>,
}

/// Files of subcharts, by the first part of their path under `charts/`.
type Groups = BTreeMap<String, Vec<ChartFile>>;

impl Assembly<'_> {
    fn chart(&mut self, files: Vec<ChartFile>) -> Result<Chart, LoadError> {
        if self.depth > self.limits.depth {
            return Err(LoadError::TooDeep(self.limits.depth));
        }
        let mut chart = Chart::default();
        let mut has_metadata = self.chart_files(&mut chart, &files)?;
        let mut groups = Groups::new();
        for file in &files {
            has_metadata |= self.classify(&mut chart, file, &mut groups)?;
        }
        chart.raw = files;
        if !has_metadata {
            return Err(LoadError::Missing);
        }
        chart::validate(&mut chart.metadata).map_err(LoadError::Invalid)?;
        for (name, files) in groups {
            self.subchart(&mut chart, &name, files)?;
        }
        Ok(chart)
    }

    /// `Chart.yaml` first, wherever it stands in the list.
    fn chart_files(&self, chart: &mut Chart, files: &[ChartFile]) -> Result<bool, LoadError> {
        let mut found = false;
        for file in files.iter().filter(|file| file.name == "Chart.yaml") {
            read_onto(chart, file, "Chart.yaml")?;
            if chart.metadata.api_version.is_empty() {
                "v1".clone_into(&mut chart.metadata.api_version);
            }
            chart.modified = file.modified;
            found = true;
        }
        Ok(found)
    }

    /// Puts a file where it belongs; says whether it held metadata.
    fn classify(
        &mut self,
        chart: &mut Chart,
        file: &ChartFile,
        groups: &mut Groups,
    ) -> Result<bool, LoadError> {
        match file.name.as_str() {
            "Chart.yaml" => {}
            "Chart.lock" => chart.lock = read_lock(file, "Chart.lock")?,
            "values.yaml" => chart.values = Some(read_values(file)?),
            "values.schema.json" => {
                chart.schema = Some(file.data.clone());
                chart.schema_modified = file.modified;
            }
            "requirements.yaml" => {
                self.requirements(chart, file)?;
                return Ok(true);
            }
            "requirements.lock" => {
                self.requirements_lock(chart, file)?;
                return Ok(true);
            }
            name if name.starts_with("templates/") => chart.templates.push(file.clone()),
            name => match name.strip_prefix("charts/") {
                Some(inner) if extension(inner) != Some("prov") => {
                    group(groups, inner, file);
                }
                _ => chart.files.push(file.clone()),
            },
        }
        Ok(false)
    }

    fn requirements(&mut self, chart: &mut Chart, file: &ChartFile) -> Result<(), LoadError> {
        if chart.metadata.api_version != "v1" {
            self.warn(
                "Warning: Dependencies are handled in Chart.yaml since apiVersion \"v2\". \
                 We recommend migrating dependencies to Chart.yaml.",
            );
        }
        read_onto(chart, file, "requirements.yaml")?;
        if chart.metadata.api_version == "v1" {
            chart.files.push(file.clone());
        }
        Ok(())
    }

    fn requirements_lock(&mut self, chart: &mut Chart, file: &ChartFile) -> Result<(), LoadError> {
        chart.lock = read_lock(file, "requirements.lock")?;
        if chart.metadata.api_version == "v1" {
            chart.files.push(file.clone());
        } else {
            self.warn(
                "Warning: Dependency locking is handled in Chart.lock since apiVersion \"v2\". \
                 We recommend migrating to Chart.lock.",
            );
        }
        Ok(())
    }

    fn warn(&mut self, text: &str) {
        self.warnings.push(LogLine::info(text));
    }

    fn subchart(
        &mut self,
        chart: &mut Chart,
        name: &str,
        files: Vec<ChartFile>,
    ) -> Result<(), LoadError> {
        if name.starts_with(['_', '.']) {
            return Ok(());
        }
        self.depth += 1;
        let loaded = if extension(name) == Some("tgz") {
            self.packed_subchart(chart, name, &files)
        } else {
            self.chart(below(files))
        };
        self.depth -= 1;
        match loaded {
            Ok(subchart) => chart.dependencies.push(Arc::new(subchart)),
            Err(fault @ LoadError::SubchartPath { .. }) => return Err(fault),
            Err(cause) => {
                return Err(LoadError::Subchart {
                    name: name.to_owned(),
                    parent: chart.name().to_owned(),
                    cause: Box::new(cause),
                });
            }
        }
        Ok(())
    }

    fn packed_subchart(
        &mut self,
        parent: &Chart,
        name: &str,
        files: &[ChartFile],
    ) -> Result<Chart, LoadError> {
        let Some(file) = files.first() else {
            return Err(LoadError::Empty);
        };
        if file.name != name {
            return Err(LoadError::SubchartPath {
                parent: parent.name().to_owned(),
                name: name.to_owned(),
                found: file.name.clone(),
            });
        }
        let files = archive::unpack(&*file.data, self.limits, &mut self.packed_bytes)?;
        self.chart(files)
    }
}

/// Files of a subchart's directory, relative to it; what lies beside it is no part of it.
fn below(files: Vec<ChartFile>) -> Vec<ChartFile> {
    files
        .into_iter()
        .filter_map(|file| {
            let (_, name) = file.name.split_once('/')?;
            Some(ChartFile {
                name: name.to_owned(),
                ..file
            })
        })
        .collect()
}

fn group(groups: &mut Groups, inner: &str, file: &ChartFile) {
    let name = inner.split('/').next().unwrap_or(inner);
    groups.entry(name.to_owned()).or_default().push(ChartFile {
        name: inner.to_owned(),
        ..file.clone()
    });
}

fn read_onto(chart: &mut Chart, file: &ChartFile, name: &'static str) -> Result<(), LoadError> {
    chart::read_metadata_onto(&mut chart.metadata, &file.data)
        .map_err(|cause| LoadError::Yaml { file: name, cause })
}

fn read_lock(file: &ChartFile, name: &'static str) -> Result<Option<chart::Lock>, LoadError> {
    chart::read_lock(&file.data).map_err(|cause| LoadError::Yaml { file: name, cause })
}

fn read_values(file: &ChartFile) -> Result<goyaml::Tree, LoadError> {
    values::read_values(&file.data).map_err(|cause| LoadError::Yaml {
        file: "values.yaml",
        cause,
    })
}

fn extension(name: &str) -> Option<&str> {
    let base = name.rsplit('/').next().unwrap_or(name);
    base.rsplit_once('.').map(|(_, extension)| extension)
}
