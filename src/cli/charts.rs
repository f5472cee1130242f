//! What the verbs that fetch charts share: flags for credentials, the cache, the place that is
//! meant.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context as _, Result, bail};
use clap::Args;
use clap::builder::{OsStringValueParser, TypedValueParser};
use helm_engine::LogLine;
use reqwest::Url;

use crate::gitsync::StaticSecrets;
use crate::source::{
    Access, ChartPlace, Charts, ImportedRepository, RepositoryOptions, RepositoryUrl, SourceError,
    import,
};

/// Flags of helm for repositories and registries.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct ChartFlags {
    /// chart repository url where to locate the requested chart
    #[arg(long)]
    pub(crate) repo: Option<String>,

    /// specify a version constraint for the chart version to use; the newest if not set
    #[arg(long)]
    pub(crate) version: Option<String>,

    /// use development versions, too. Equivalent to version '>0.0.0-0'; ignored with --version
    #[arg(long)]
    pub(crate) devel: bool,

    #[command(flatten)]
    pub(crate) login: LoginFlags,
}

/// Flags of helm for credentials and certificates.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct LoginFlags {
    /// chart repository username where to locate the requested chart
    #[arg(long)]
    username: Option<String>,

    /// chart repository password; others may see it in the process list, so prefer --password-file
    #[arg(long, conflicts_with = "password_file", hide_env_values = true)]
    password: Option<Password>,

    /// read the password from this file
    #[arg(long, value_parser = file())]
    password_file: Option<PathBuf>,

    /// verify certificates of HTTPS-enabled servers using this CA bundle
    #[arg(long, value_parser = file())]
    ca_file: Option<PathBuf>,

    /// identify HTTPS client using this SSL certificate file
    #[arg(long, value_parser = file())]
    cert_file: Option<PathBuf>,

    /// identify HTTPS client using this SSL key file
    #[arg(long, value_parser = file())]
    key_file: Option<PathBuf>,

    /// skip tls certificate checks for the chart download
    #[arg(long)]
    insecure_skip_tls_verify: bool,

    /// pass credentials to all domains
    #[arg(long)]
    pass_credentials: bool,

    /// use insecure HTTP connections for the chart download
    #[arg(long)]
    plain_http: bool,

    /// file with repository names and URLs
    #[arg(long, env = "HELM_REPOSITORY_CONFIG", value_parser = file())]
    repository_config: Option<PathBuf>,
}

/// A password of the command line; `Debug` does not show it.
#[derive(Clone)]
struct Password(zeroize::Zeroizing<String>);

impl std::str::FromStr for Password {
    type Err = std::convert::Infallible;
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Ok(Self(zeroize::Zeroizing::new(text.to_owned())))
    }
}

impl std::fmt::Debug for Password {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("[redacted]")
    }
}

impl ChartFlags {
    /// The version that is asked for.
    pub(crate) fn wanted(&self) -> Option<&str> {
        match (self.version.as_deref(), self.devel) {
            (Some(version), _) if !version.is_empty() => Some(version),
            (_, true) => Some(">0.0.0-0"),
            _ => None,
        }
    }
}

impl LoginFlags {
    /// The credentials of the flags, or those of the imported entry for this place.
    pub(crate) fn access(&self, charts: &Charts, place: &ChartPlace) -> Result<Access> {
        let has_own = self.username.is_some()
            || given(self.ca_file.as_ref()).is_some()
            || given(self.cert_file.as_ref()).is_some()
            || given(self.key_file.as_ref()).is_some()
            || self.insecure_skip_tls_verify;
        if !has_own {
            return Ok(charts.imported_access(place));
        }
        let mut access = Access::anonymous()
            .passing_credentials(self.pass_credentials)
            .skipping_tls_verification(self.insecure_skip_tls_verify);
        if let (Some(user), Some(password)) = (&self.username, &self.password) {
            access = access.with_login(user, password.0.as_str());
        }
        if let (Some(user), Some(path)) = (&self.username, given(self.password_file.as_ref())) {
            let password = zeroize::Zeroizing::new(String::from_utf8(read(path)?)?);
            access = access.with_login(user, password.trim_end_matches(['\n', '\r']));
        }
        if let Some(path) = given(self.ca_file.as_ref()) {
            access = access.with_ca(read(path)?);
        }
        match (
            given(self.cert_file.as_ref()),
            given(self.key_file.as_ref()),
        ) {
            (Some(certificate), Some(key)) => {
                access = access.with_identity(&read(certificate)?, &read(key)?);
            }
            (None, None) => {}
            _ => bail!("--cert-file and --key-file go together: give both or none"),
        }
        Ok(access)
    }

    /// The repositories that helm knows.
    fn imported(&self) -> Result<(Vec<ImportedRepository>, Vec<SourceError>)> {
        let known = given(self.repository_config.as_ref())
            .map(Path::to_owned)
            .or_else(default_repository_config);
        let Some(path) = known.filter(|path| path.exists()) else {
            return Ok((Vec::new(), Vec::new()));
        };
        Ok(import(&path)?)
    }

    /// Whether helm knows a repository by this alias.
    pub(crate) fn knows(&self, alias: &str) -> Result<bool> {
        let (imported, _) = self.imported()?;
        Ok(imported.iter().any(|known| known.name() == alias))
    }

    /// Opens the cache of this user, with the repositories that helm knows.
    pub(crate) fn charts(&self, registries: &[&str]) -> Result<Charts> {
        let options = RepositoryOptions {
            // One call of the command line asks once.
            interval: std::time::Duration::from_secs(60),
            ..RepositoryOptions::new(cache_directory())
        };
        let mut charts = Charts::new(options, Arc::new(StaticSecrets::default()))?;
        let (imported, failed) = self.imported()?;
        let failed = failed.iter().map(|error| LogLine::warn(error.to_string()));
        super::output::log(&failed.collect::<Vec<_>>());
        charts = charts.with_imported(imported);
        if self.plain_http {
            let hosts = registries.iter().filter_map(|url| registry_host(url));
            charts = charts.with_plain_registries(hosts.collect());
        }
        Ok(charts)
    }
}

/// What a reference on the command line means: its place, and the name of the chart in it.
pub(crate) fn place(
    charts: &Charts,
    repository: Option<&str>,
    reference: &str,
) -> Result<(ChartPlace, String)> {
    if let Some(repository) = repository {
        return Ok((charts.place(repository, reference)?, reference.to_owned()));
    }
    if let Some(rest) = reference.strip_prefix("oci://") {
        let (parent, name) = rest
            .trim_end_matches('/')
            .rsplit_once('/')
            .with_context(|| format!("{reference} names no chart: write oci://host/path/name"))?;
        let place = charts.place(&format!("oci://{parent}"), name)?;
        return Ok((place, name.to_owned()));
    }
    let Some((alias, name)) = reference.split_once('/') else {
        bail!("{reference:?} names no repository: write REPOSITORY/{reference}, or give --repo");
    };
    let place = charts.place(&format!("@{alias}"), name)?;
    Ok((place, name.to_owned()))
}

/// Runs a future to its end on this thread.
pub(crate) fn block_on<T>(future: impl Future<Output = Result<T>>) -> Result<T> {
    super::run::install_tls()?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(future)
}

/// The host of a registry's address, with its port.
fn registry_host(url: &str) -> Option<String> {
    let url = RepositoryUrl::parse_chart_repository(url).ok()?;
    let host = url.host().to_owned();
    Some(
        url.port()
            .map_or(host.clone(), |port| format!("{host}:{port}")),
    )
}

/// The URL that is an archive itself.
pub(crate) fn archive_url(reference: &str) -> Option<Url> {
    let url = Url::parse(reference).ok()?;
    matches!(url.scheme(), "http" | "https").then_some(url)
}

/// The path of a file; none may be given, as to helm.
fn file() -> impl TypedValueParser<Value = PathBuf> {
    OsStringValueParser::new().map(PathBuf::from)
}

fn given(file: Option<&PathBuf>) -> Option<&Path> {
    file.map(PathBuf::as_path)
        .filter(|path| !path.as_os_str().is_empty())
}

fn read(path: &Path) -> Result<Vec<u8>> {
    super::files::read(path, super::files::LARGEST)
        .with_context(|| format!("cannot read {}", path.display()))
}

fn home(variable: &str, below: &str) -> Option<PathBuf> {
    let set = std::env::var_os(variable).filter(|value| !value.is_empty());
    let home = std::env::var_os("HOME").map(|home| Path::new(&home).join(below));
    set.map(PathBuf::from).or(home)
}

fn cache_directory() -> PathBuf {
    let base = home("XDG_CACHE_HOME", ".cache").unwrap_or_else(std::env::temp_dir);
    base.join("helm-operator").join("charts")
}

fn default_repository_config() -> Option<PathBuf> {
    if let Some(path) = std::env::var_os("HELM_CONFIG_HOME") {
        return Some(Path::new(&path).join("repositories.yaml"));
    }
    Some(home("XDG_CONFIG_HOME", ".config")?.join("helm/repositories.yaml"))
}
