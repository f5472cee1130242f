//! From a HelmRelease to its chart: which source it names, and the loaded chart.

use std::sync::Arc;

use helm_engine::{Chart, Limits, load_files};

use super::context::{Context, Settings};
use super::trouble::{Stage, Trouble};
use crate::api::{ChartChoice, HelmRelease, OciSource as OciSpec, Reason, ValuesSource};
use crate::source::{
    ChartArtifact, GitSource, HelmRepositorySource, OciSource, RepositoryUrl, SecretRef, SourceRef,
    UrlError,
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
            ..GitSource::new(parse(url.expose())?, path)
        })),
        ChartChoice::Repository { url, name, version } => {
            let secret = pull_secret(release).or(secret);
            let version = Some(version.to_owned());
            if url.expose().starts_with("oci://") {
                let joined = format!("{}/{name}", url.expose().trim_end_matches('/'));
                return Ok(SourceRef::Oci(OciSource {
                    url: parse(&joined)?,
                    version,
                    secret,
                }));
            }
            Ok(SourceRef::HelmRepository(HelmRepositorySource {
                url: RepositoryUrl::parse_chart_repository(url.expose()).map_err(bad_url)?,
                name: name.to_owned(),
                version,
                secret,
            }))
        }
        ChartChoice::Oci(oci) => Ok(SourceRef::Oci(OciSource {
            url: parse(oci.url.expose())?,
            version: oci_version(oci),
            secret,
        })),
    }
}

fn oci_version(oci: &OciSpec) -> Option<String> {
    let written = [&oci.digest, &oci.tag, &oci.version];
    written
        .into_iter()
        .flatten()
        .find(|text| !text.is_empty())
        .cloned()
}

fn secret_of(release: &HelmRelease, settings: &Settings) -> Result<Option<SecretRef>, Trouble> {
    let Some(secret) = release
        .spec
        .chart
        .secret_ref
        .as_ref()
        .filter(|s| !s.name.is_empty())
    else {
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

fn parse(url: &str) -> Result<RepositoryUrl, Trouble> {
    RepositoryUrl::parse(url).map_err(bad_url)
}

fn bad_url(error: UrlError) -> Trouble {
    let message = format!("{error}; repository aliases are not known here: write the whole URL");
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
            Trouble::new(
                Stage::Chart,
                Reason::ChartInvalid,
                format!("chart unavailable: {error}"),
            )
        })?;
        for warning in &loaded.warnings {
            tracing::warn!(chart = loaded.chart.name(), "{warning}");
        }
        let chart = Arc::new(loaded.chart);
        self.charts.put(&artifact.digest, artifact.size(), &chart);
        Ok(chart)
    }
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
            alias.message.contains("aliases are not known"),
            "{}",
            alias.message
        );
    }

    #[test]
    fn oci_charts_take_digest_before_tag_before_version() {
        let oci = |json| serde_json::from_value::<OciSpec>(json).unwrap();
        let all =
            oci(serde_json::json!({"url": "oci://r/c", "version": "1", "tag": "t", "digest": "d"}));
        assert_eq!(oci_version(&all).as_deref(), Some("d"));
        let tag =
            oci(serde_json::json!({"url": "oci://r/c", "version": "1", "tag": "t", "digest": ""}));
        assert_eq!(oci_version(&tag).as_deref(), Some("t"));
    }
}
