//! From a HelmRelease to its chart: which source it names, and the loaded chart.

use std::sync::Arc;

use helm_engine::{Chart, Limits, LoadError, load_files};

use super::context::{Context, Settings};
use super::trouble::{Stage, Trouble};
use crate::api::{ChartChoice, HelmRelease, OciSource as OciSpec, Reason, SourceUrl, ValuesSource};
use crate::source::{
    ChartArtifact, ChartFile, GitSource, HelmRepositorySource, OciSource, RepositoryUrl, SecretRef,
    SourceRef, UrlError, alias_of, is_exact,
};

/// The source that a HelmRelease names.
pub(crate) fn source_of(release: &HelmRelease, settings: &Settings) -> Result<SourceRef, Trouble> {
    let chart = &release.spec.chart;
    let choice = chart.choose().map_err(|error| {
        Trouble::new(
            Stage::Chart,
            Reason::IncompleteChartSource,
            error.to_string(),
        )
    })?;
    let secret = secret_of(release, settings)?;
    match choice {
        ChartChoice::Git {
            url,
            reference,
            path,
        } => Ok(SourceRef::Git(GitSource {
            reference: reference.map(str::to_owned),
            secret,
            skip_dep_update: chart
                .skip_dep_update
                .unwrap_or(!settings.update_dependencies),
            watch: chart_files(release),
            submodules: chart.submodules.unwrap_or_default(),
            verify: signers_of(release, settings)?,
            ..GitSource::new(parse(url.expose())?, path)
        })),
        ChartChoice::Repository { url, name, version } => {
            let url = &address_of(url, settings)?;
            let version = Some(version.to_owned());
            if url.expose().starts_with("oci://") {
                let secret = pull_secret(release).or(secret);
                let joined = format!("{}/{name}", url.expose().trim_end_matches('/'));
                return Ok(SourceRef::Oci(OciSource {
                    url: parse(&joined)?,
                    tag: None,
                    version,
                    secret,
                    verify: signers_of(release, settings)?,
                }));
            }
            Ok(SourceRef::HelmRepository(HelmRepositorySource {
                url: RepositoryUrl::parse_chart_repository(url.expose()).map_err(bad_url)?,
                name: name.to_owned(),
                version,
                secret,
                pull_secret: pull_secret(release),
                verify: signers_of(release, settings)?,
            }))
        }
        ChartChoice::Oci(oci) => Ok(SourceRef::Oci(OciSource {
            url: parse(oci.url.expose())?,
            tag: oci_tag(oci),
            version: oci_version(oci),
            secret,
            verify: signers_of(release, settings)?,
        })),
    }
}

/// The repository or registry that the chart of a HelmRelease comes from, as it is written there.
pub(crate) fn repository_of(release: &HelmRelease) -> Option<&str> {
    Some(match release.spec.chart.choose().ok()? {
        ChartChoice::Git { url, .. } | ChartChoice::Repository { url, .. } => url.expose(),
        ChartChoice::Oci(oci) => oci.url.expose(),
    })
}

/// Whether another chart can be meant tomorrow without anything telling of it: a range of versions, or a tag. Git tells
/// by its mirrors, and a version or a digest stays what it is.
pub(crate) fn can_move(release: &HelmRelease) -> bool {
    match release.spec.chart.choose() {
        Ok(ChartChoice::Repository { version, .. }) => !is_exact(version),
        Ok(ChartChoice::Oci(oci)) => {
            oci_tag(oci).is_some() || !oci_version(oci).is_some_and(|text| is_exact(&text))
        }
        Ok(ChartChoice::Git { .. }) | Err(_) => false,
    }
}

/// The tag, where no digest says it more exactly.
fn oci_tag(oci: &OciSpec) -> Option<String> {
    match filled(oci.digest.as_ref()) {
        Some(_) => None,
        None => filled(oci.tag.as_ref()),
    }
}

fn oci_version(oci: &OciSpec) -> Option<String> {
    filled(oci.digest.as_ref()).or_else(|| filled(oci.version.as_ref()))
}

fn filled(text: Option<&String>) -> Option<String> {
    text.filter(|text| !text.is_empty()).cloned()
}

fn secret_of(release: &HelmRelease, settings: &Settings) -> Result<Option<SecretRef>, Trouble> {
    named_secret(release, release.spec.chart.secret_ref.as_ref(), settings)
}

/// The keys that the commit, or the chart, must be signed by.
fn signers_of(release: &HelmRelease, settings: &Settings) -> Result<Option<SecretRef>, Trouble> {
    let Some(verify) = &release.spec.chart.verify else {
        return Ok(None);
    };
    let secret = named_secret(release, Some(&verify.secret_ref), settings)?;
    // An empty name must not mean that nothing is checked.
    secret.map(Some).ok_or_else(|| {
        Trouble::new(
            Stage::Chart,
            Reason::SourceInvalid,
            "spec.chart.verify names no Secret: give secretRef.name",
        )
    })
}

fn named_secret(
    release: &HelmRelease,
    secret: Option<&crate::api::SecretRef>,
    settings: &Settings,
) -> Result<Option<SecretRef>, Trouble> {
    let Some(secret) = secret.filter(|s| !s.name.is_empty()) else {
        return Ok(None);
    };
    let own = release.own_namespace();
    let namespace = secret
        .namespace
        .as_deref()
        .filter(|ns| !ns.is_empty())
        .unwrap_or(own);
    if settings.own_namespace_only && namespace != own {
        return Err(Trouble::new(
            Stage::Chart,
            Reason::CrossNamespaceDenied,
            format!(
                "Secret {namespace}/{} is in another namespace, which --no-cross-namespace-refs forbids",
                secret.name
            ),
        ));
    }
    Ok(Some(SecretRef {
        namespace: namespace.to_owned(),
        name: secret.name.clone(),
    }))
}

/// `chartPullSecret`: credentials of a Helm repository or a registry.
fn pull_secret(release: &HelmRelease) -> Option<SecretRef> {
    let secret = release.spec.chart.chart_pull_secret.as_ref()?;
    (!secret.name.is_empty()).then(|| SecretRef {
        namespace: release.own_namespace().to_owned(),
        name: secret.name.clone(),
    })
}

/// The address of a repository: `@name` and `alias:name` are those of an imported one.
fn address_of(url: &SourceUrl, settings: &Settings) -> Result<SourceUrl, Trouble> {
    let Some(alias) = alias_of(url.expose()) else {
        return Ok(url.clone());
    };
    let found = settings.aliases.get(alias).cloned();
    found.ok_or_else(|| {
        let known: Vec<&str> = settings
            .aliases
            .keys()
            .map(String::as_str)
            .take(20)
            .collect();
        let hint = match known.is_empty() {
            true => "none is, see --helm-repository-import".to_owned(),
            false => format!("there are {}", known.join(", ")),
        };
        let message =
            format!("no repository is imported as {alias:?} ({hint}): import it, or write its URL");
        Trouble::new(Stage::Chart, Reason::SourceInvalid, message)
    })
}

fn parse(url: &str) -> Result<RepositoryUrl, Trouble> {
    RepositoryUrl::parse(url).map_err(bad_url)
}

fn bad_url(error: UrlError) -> Trouble {
    // Helm's words; plugins are what people mean by such addresses.
    let message = format!(
        "{error}: could not find protocol handler; plugins are not known here: write the whole URL, or @NAME for an imported repository"
    );
    Trouble::new(Stage::Chart, Reason::SourceInvalid, message)
}

/// Files of the chart that values come from.
fn chart_files(release: &HelmRelease) -> Vec<String> {
    let entries = release.spec.values_from.iter().flatten();
    entries
        .filter_map(|entry| match entry.source() {
            Some(ValuesSource::ChartFile(file)) => Some(file.path.clone()),
            _ => None,
        })
        .collect()
}

impl Context {
    /// The chart of an artifact, loaded at most once as long as it is remembered.
    pub(crate) async fn chart(&self, artifact: &ChartArtifact) -> Result<Arc<Chart>, Trouble> {
        if let Some(chart) = self.charts.get(&artifact.digest) {
            return Ok(chart);
        }
        let files = Arc::clone(&artifact.files);
        let load = move || {
            let files = files
                .iter()
                .map(|(path, data)| (path.clone(), data.as_slice()));
            load_files(files, &Limits::default())
        };
        let loaded = match tokio::task::spawn_blocking(load).await {
            Ok(loaded) => loaded,
            Err(panic) => std::panic::resume_unwind(panic.into_panic()),
        };
        let loaded = loaded.map_err(|error| {
            let mut text = format!("chart unavailable: {error}");
            if matches!(error, LoadError::Missing)
                && let Some(hint) = charts_below(&artifact.files)
            {
                text.push_str(&hint);
            }
            Trouble::new(Stage::Chart, Reason::ChartInvalid, text)
        })?;
        for warning in &loaded.warnings {
            tracing::warn!(chart = loaded.chart.name(), "{warning}");
        }
        let chart = Arc::new(loaded.chart);
        self.charts.put(&artifact.digest, artifact.size(), &chart);
        Ok(chart)
    }
}

/// What to do when a directory is no chart but holds some, the usual mistake of `spec.chart.path`. `files` is sorted.
fn charts_below(files: &[ChartFile]) -> Option<String> {
    const MOST: usize = 5;
    let mut found: Vec<&str> = Vec::new();
    for (path, _) in files {
        let Some(directory) = path.strip_suffix("/Chart.yaml") else {
            continue;
        };
        // Not the subcharts of one that is listed.
        let is_below = |chart: &&str| {
            directory
                .strip_prefix(*chart)
                .is_some_and(|rest| rest.starts_with('/'))
        };
        if found.last().is_some_and(is_below) {
            continue;
        }
        found.push(directory);
        if found.len() > MOST {
            break;
        }
    }
    let more = if found.len() > MOST { ", …" } else { "" };
    found.truncate(MOST);
    (!found.is_empty()).then(|| {
        let list = found.join(", ");
        format!(": spec.chart.path has to name one of the charts below it: {list}{more}")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(own_namespace_only: bool) -> Settings {
        Settings {
            own_namespace_only,
            ..super::super::test_settings()
        }
    }

    fn release(chart: serde_json::Value) -> HelmRelease {
        let spec = serde_json::json!({"chart": chart,
            "valuesFrom": [{"chartFileRef": {"path": "env/prod.yaml"}}]});
        let mut release = HelmRelease::new("web", serde_json::from_value(spec).unwrap());
        release.metadata.namespace = Some("demo".into());
        release
    }

    #[test]
    fn git_charts_keep_ref_path_secret_and_the_files_of_values() {
        let release = release(serde_json::json!({"git": "https://git.example.com/a.git",
            "ref": "v1", "path": "charts/a", "secretRef": {"name": "key"}, "skipDepUpdate": true}));
        let Ok(SourceRef::Git(git)) = source_of(&release, &settings(false)) else {
            panic!("no git source")
        };
        assert_eq!(
            (git.reference.as_deref(), git.path.as_str()),
            (Some("v1"), "charts/a")
        );
        assert_eq!(git.secret.unwrap().to_string(), "demo/key");
        assert!(git.skip_dep_update);
        assert_eq!(git.watch, ["env/prod.yaml"]);
    }

    #[test]
    fn secrets_of_other_namespaces_can_be_forbidden() {
        let release = release(serde_json::json!({"git": "https://git.example.com/a.git",
            "path": ".", "secretRef": {"name": "key", "namespace": "other"}}));
        assert!(source_of(&release, &settings(false)).is_ok());
        let denied = source_of(&release, &settings(true)).unwrap_err();
        assert_eq!(denied.reason, "CrossNamespaceDenied");
    }

    #[test]
    fn what_is_no_source_says_what_is_missing() {
        let incomplete = source_of(&release(serde_json::json!({})), &settings(false)).unwrap_err();
        assert_eq!(incomplete.reason, "IncompleteChartSource");
        let alias =
            release(serde_json::json!({"repository": "stable", "name": "a", "version": "1"}));
        let alias = source_of(&alias, &settings(false)).unwrap_err();
        assert!(
            alias.message.contains("write the whole URL"),
            "{}",
            alias.message
        );
    }

    #[test]
    fn aliases_mean_the_imported_repository() {
        let aliases = [
            ("team", "https://charts.example.com/team"),
            ("registry", "oci://registry.example.com/charts"),
        ];
        let aliases = aliases.map(|(name, url)| (name.to_owned(), SourceUrl::new(url)));
        let settings = Settings {
            aliases: Arc::new(aliases.into()),
            ..settings(false)
        };
        let source = |repository: &str| {
            let chart =
                serde_json::json!({"repository": repository, "name": "a", "version": "1.0.0"});
            source_of(&release(chart), &settings)
        };
        for repository in ["@team", "alias:team"] {
            let Ok(SourceRef::HelmRepository(found)) = source(repository) else {
                panic!("{repository}")
            };
            assert_eq!(found.url.to_string(), "https://charts.example.com/team");
        }
        let Ok(SourceRef::Oci(found)) = source("@registry") else {
            panic!("no registry")
        };
        assert_eq!(found.url.to_string(), "oci://registry.example.com/charts/a");
        let unknown = source("@tean").unwrap_err();
        assert!(
            unknown.message.contains("there are registry, team"),
            "{}",
            unknown.message
        );
    }

    #[test]
    fn oci_charts_take_digest_before_tag_before_version() {
        let oci = |json| serde_json::from_value::<OciSpec>(json).unwrap();
        let read = |json| {
            let spec = oci(json);
            (oci_tag(&spec), oci_version(&spec))
        };
        let text = |text: &str| Some(text.to_owned());
        let all =
            serde_json::json!({"url": "oci://r/c", "version": "1", "tag": "t", "digest": "d"});
        assert_eq!(read(all), (None, text("d")));
        let tag = serde_json::json!({"url": "oci://r/c", "version": "1", "tag": "t", "digest": ""});
        assert_eq!(read(tag), (text("t"), text("1")));
        let version = serde_json::json!({"url": "oci://r/c", "version": "1"});
        assert_eq!(read(version), (None, text("1")));
    }

    #[test]
    fn ranges_and_tags_can_move_and_nothing_else() {
        let moves = |chart| can_move(&release(chart));
        let range = |version| {
            moves(serde_json::json!({"repository": "https://r", "name": "a", "version": version}))
        };
        assert!(range("1.x") && range("^1.2.3") && range("1.2"));
        assert!(!range("1.2.3") && !range("v1.2.3-rc.1+b"));
        let oci = |key: &str, value: &str| {
            moves(serde_json::json!({"oci": {"url": "oci://r/c", key: value}}))
        };
        assert!(oci("version", "") && oci("version", "*") && oci("tag", "1.2.3"));
        assert!(!oci("version", "1.2.3") && !oci("digest", "sha256:00"));
        assert!(!moves(
            serde_json::json!({"git": "https://g/a.git", "path": "."})
        ));
    }

    #[test]
    fn a_directory_of_charts_is_told_which_ones_it_holds() {
        let below = |paths: &[&str]| {
            let files: Vec<ChartFile> = paths
                .iter()
                .map(|path| ((*path).to_owned(), Vec::new()))
                .collect();
            charts_below(&files)
        };
        let hint = ": spec.chart.path has to name one of the charts below it: ";
        for (paths, expected) in [
            (vec!["README.md", "a/values.yaml", "aChart.yaml"], None),
            (
                vec![
                    "charts/a/Chart.yaml",
                    "charts/a/charts/sub/Chart.yaml",
                    "charts/ab/Chart.yaml",
                ],
                Some("charts/a, charts/ab"),
            ),
            (
                vec![
                    "1/Chart.yaml",
                    "2/Chart.yaml",
                    "3/Chart.yaml",
                    "4/Chart.yaml",
                    "5/Chart.yaml",
                    "6/Chart.yaml",
                    "7/Chart.yaml",
                ],
                Some("1, 2, 3, 4, 5, …"),
            ),
        ] {
            let expected = expected.map(|list| format!("{hint}{list}"));
            assert_eq!(below(&paths), expected, "{paths:?}");
        }
    }
}
