//! A chart that is fetched from a repository, a registry or an address on the web.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context as _, Result, bail};

use super::charts::{ChartFlags, archive_url, place};
use super::files;
use crate::source::{ChartPlace, Freshness, Signer, SourceError, verify_provenance};

/// Whether the provenance file of a chart is fetched too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Signature {
    Unasked,
    /// It is taken if there is one.
    IfThere,
    /// There has to be one.
    Needed,
}

/// An archive by its file name, and its provenance if it was asked for.
pub(super) struct Fetched {
    pub(super) name: String,
    pub(super) content: Arc<Vec<u8>>,
    pub(super) provenance: Option<Vec<u8>>,
}

impl Fetched {
    /// Who signed it, by the keys of this file or of GnuPG.
    ///
    /// # Errors
    /// The keys cannot be read, nobody of them signed, or something else was signed.
    pub(super) fn verify(&self, keyring: Option<&Path>) -> Result<Signer> {
        let path = keyring.map_or_else(default_keyring, Path::to_owned);
        let ring = files::read(&path, files::LARGEST)
            .with_context(|| format!("cannot read the keys of {}", path.display()))?;
        let provenance = self.provenance.as_deref().unwrap_or_default();
        Ok(verify_provenance(
            &ring,
            provenance,
            &self.name,
            &self.content,
        )?)
    }
}

/// Fetches the chart that a reference means: the URL of an archive, `oci://…`, `ALIAS/NAME`, or a name with `--repo`.
pub(super) async fn fetch(
    flags: &ChartFlags,
    reference: &str,
    signature: Signature,
) -> Result<Fetched> {
    let repository = flags.repo.as_deref().filter(|url| !url.is_empty());
    let registries = [repository.unwrap_or_default(), reference];
    let charts = flags.login.charts(&registries)?;
    if let Some(url) = archive_url(reference).filter(|_| repository.is_none()) {
        let place = ChartPlace::Repository(url.clone());
        let access = flags.login.access(&charts, &place)?;
        let content = Arc::new(charts.download(&url, &access).await?);
        let provenance = match signature {
            Signature::Unasked => None,
            wanted => found(wanted, charts.provenance_of(&url, &access).await)?,
        };
        let name = url.path().rsplit('/').next().unwrap_or_default().to_owned();
        return Ok(Fetched {
            name,
            content,
            provenance,
        });
    }
    let (reference, pinned) = pinned(reference);
    let wanted = match (pinned, flags.wanted()) {
        (Some(pinned), Some(wanted)) if pinned != wanted => {
            bail!("chart reference and version mismatch: {wanted} is not {pinned}")
        }
        (pinned, wanted) => pinned.or(wanted.map(str::to_owned)),
    };
    let (place, name) = place(&charts, repository, reference)?;
    let access = flags.login.access(&charts, &place)?;
    let (version, content) = charts
        .archive(
            &place,
            &access,
            &name,
            wanted.as_deref(),
            Freshness::by_interval(),
        )
        .await?;
    let provenance = match signature {
        Signature::Unasked => None,
        wanted => found(
            wanted,
            charts.provenance(&place, &access, &name, &version).await,
        )?,
    };
    Ok(Fetched {
        name: format!("{name}-{version}.tgz"),
        content,
        provenance,
    })
}

/// Splits the tag or the digest off a reference of a registry; a tag has `_` for the `+` of a version.
fn pinned(reference: &str) -> (&str, Option<String>) {
    if !reference.starts_with("oci://") {
        return (reference, None);
    }
    if let Some((chart, digest)) = reference.split_once('@') {
        return (chart, Some(digest.to_owned()));
    }
    match reference.rsplit_once(':') {
        Some((chart, tag)) if !tag.contains('/') => (chart, Some(tag.replace('_', "+"))),
        _ => (reference, None),
    }
}

fn found(wanted: Signature, file: Result<Vec<u8>, SourceError>) -> Result<Option<Vec<u8>>> {
    match file {
        Ok(provenance) => Ok(Some(provenance)),
        Err(error) if wanted == Signature::Needed => {
            Err(error).context("failed to fetch provenance")
        }
        Err(error) => {
            super::output::note(&format!("WARNING: Verification not found: {error}"));
            Ok(None)
        }
    }
}

/// Where GnuPG kept the public keys, and helm looks for them.
fn default_keyring() -> PathBuf {
    let home = std::env::var_os("GNUPGHOME").map(PathBuf::from);
    let home = home.or_else(|| Some(Path::new(&std::env::var_os("HOME")?).join(".gnupg")));
    home.unwrap_or_default().join("pubring.gpg")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_and_digests_of_registries_are_told_from_ports() {
        for (reference, chart, version) in [
            ("oci://h/a/x", "oci://h/a/x", None),
            ("oci://h:5000/x", "oci://h:5000/x", None),
            (
                "oci://h:5000/x:1.0.0_b.1",
                "oci://h:5000/x",
                Some("1.0.0+b.1"),
            ),
            ("oci://h/x@sha256:ab", "oci://h/x", Some("sha256:ab")),
            ("stable/x:1", "stable/x:1", None),
        ] {
            let expected = (chart, version.map(str::to_owned));
            assert_eq!(pinned(reference), expected, "{reference}");
        }
    }
}
