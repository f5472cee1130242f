//! Charts that have to be signed: where their signatures are, and what they have to say.

use std::sync::PoisonError;

use super::access::Access;
use super::charts::{ChartPlace, Charts};
use super::fresh::Freshness;
use super::http::printable;
use super::oci::Reference;
use super::verify::{Keys, Signer};
use super::{ChartArtifact, Reason, SecretRef, SourceError};
use crate::gitsync::Outcome;

/// Archives that are remembered to be signed; one more, and all are checked anew.
const SIGNED: usize = 8192;

/// What was asked for.
pub(super) struct Asked<'a> {
    pub(super) place: &'a ChartPlace,
    pub(super) access: &'a Access,
    /// The name of the chart.
    pub(super) name: &'a str,
    /// Its version; none where a tag or a digest was asked for.
    pub(super) version: Option<&'a str>,
}

impl Charts {
    /// Checks that a chart is signed by a key of the Secret, and is the one that was asked for: else an older one, well
    /// signed, could be shown in its place.
    ///
    /// # Errors
    /// `SignatureInvalid`, and whatever the servers answer.
    pub(super) async fn check(
        &self,
        asked: &Asked<'_>,
        artifact: &ChartArtifact,
        secret: &SecretRef,
    ) -> Result<(), SourceError> {
        let keys = Keys::from_secret(&self.secret(secret).await?, secret)?;
        check_identity(asked, artifact, &keys)?;
        let signed = (artifact.digest.clone(), keys.id());
        if self.signed().contains(&signed) {
            return Ok(());
        }
        let shown = format!("{} {}", asked.name, artifact.revision);
        match asked.place {
            ChartPlace::Repository(_) => self.check_file(asked, artifact, &keys).await,
            ChartPlace::Registry(chart) => {
                self.check_registry(chart, asked.access, artifact, &keys)
                    .await
            }
        }
        .map_err(|error| error.context(format!("chart {shown}")))?;
        let mut known = self.signed();
        if known.len() >= SIGNED {
            known.clear();
        }
        known.insert(signed);
        Ok(())
    }

    fn signed(&self) -> std::sync::MutexGuard<'_, std::collections::HashSet<(String, [u8; 32])>> {
        self.signed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The provenance file of a chart: beside its archive in a repository, a layer of it in a registry.
    ///
    /// # Errors
    /// `SignatureInvalid` where there is none, and whatever the servers answer.
    pub async fn provenance(
        &self,
        place: &ChartPlace,
        access: &Access,
        name: &str,
        version: &str,
    ) -> Result<Vec<u8>, SourceError> {
        match place {
            ChartPlace::Repository(url) => {
                let any = Freshness::by_interval();
                let resolved = self
                    .repositories
                    .resolve(url, access, name, Some(version), any)
                    .await?;
                self.repositories
                    .provenance(url, access, &resolved.url)
                    .await
            }
            ChartPlace::Registry(chart) => {
                let described = self.registries.describe(chart, access, version).await?;
                let found = self
                    .registries
                    .provenance(chart, access, &described)
                    .await?;
                found.ok_or_else(|| {
                    let text = format!("{chart} {version} was pushed without a provenance file");
                    SourceError::new(Reason::SignatureInvalid, text)
                })
            }
        }
    }

    /// The provenance file beside an archive.
    ///
    /// # Errors
    /// Whatever the server answers.
    pub async fn provenance_of(
        &self,
        archive: &reqwest::Url,
        access: &Access,
    ) -> Result<Vec<u8>, SourceError> {
        self.repositories.provenance(archive, access, archive).await
    }

    async fn check_file(
        &self,
        asked: &Asked<'_>,
        artifact: &ChartArtifact,
        keys: &Keys,
    ) -> Result<(), SourceError> {
        let ChartPlace::Repository(url) = asked.place else {
            return Ok(());
        };
        if !keys.has_openpgp() {
            return Err(keys.invalid(
                "a chart of a Helm repository is signed with OpenPGP, and there is no such key",
            ));
        }
        let any = Freshness::by_interval();
        let version = Some(artifact.revision.as_str());
        let resolved = self
            .repositories
            .resolve(url, asked.access, asked.name, version, any)
            .await?;
        let found = self
            .repositories
            .provenance(url, asked.access, &resolved.url)
            .await;
        let provenance = match found {
            Err(error) if error.reason() == Reason::RepositoryNotFound => {
                let shown = printable(&resolved.url);
                return Err(keys.invalid(&format!("it is not signed: there is no {shown}.prov")));
            }
            found => found?,
        };
        let file = resolved.url.path().rsplit('/').next().unwrap_or_default();
        let names = [
            file.to_owned(),
            archive_name(asked.name, &artifact.revision),
        ];
        keys.check_provenance(&provenance, &names, &artifact.digest)
            .map(note)
    }

    async fn check_registry(
        &self,
        chart: &Reference,
        access: &Access,
        artifact: &ChartArtifact,
        keys: &Keys,
    ) -> Result<(), SourceError> {
        let described = self
            .registries
            .describe(chart, access, &artifact.revision)
            .await?;
        if !described.holds(&artifact.digest) {
            let text = format!("the tag of {chart} has moved meanwhile");
            return Err(SourceError::new(Reason::InvalidData, text));
        }
        let mut why = "it is not signed";
        if keys.has_cosign() {
            let found = self
                .registries
                .check_cosign(chart, access, &described.digest, keys)
                .await?;
            why = match found {
                Some(Outcome::Good) => return Ok(()),
                Some(Outcome::UnknownKey) => "it is signed by another key, or changed since",
                Some(Outcome::Bad) => "its signature is that of another chart",
                Some(Outcome::Unreadable) => "it has no signature that is understood",
                None => why,
            };
        }
        if keys.has_openpgp()
            && let Some(provenance) = self
                .registries
                .provenance(chart, access, &described)
                .await?
        {
            let version = artifact.chart.as_ref().map(|chart| chart.version.as_str());
            let names = [archive_name(chart.name(), version.unwrap_or_default())];
            return keys
                .check_provenance(&provenance, &names, &artifact.digest)
                .map(note);
        }
        Err(keys.invalid(&format!("{why} ({chart}@{})", described.digest)))
    }
}

fn archive_name(name: &str, version: &str) -> String {
    format!("{name}-{version}.tgz")
}

fn note(signer: Signer) {
    let Signer {
        names,
        fingerprint,
        digest,
    } = signer;
    tracing::debug!(?names, fingerprint, digest, "the chart is signed");
}

/// The chart says itself who it is.
fn check_identity(
    asked: &Asked<'_>,
    artifact: &ChartArtifact,
    keys: &Keys,
) -> Result<(), SourceError> {
    let found = artifact.chart.as_ref();
    let is_asked = found.is_some_and(|found| {
        let version = |text: &str| sprig::semver::Version::parse(text).ok();
        found.name == asked.name
            && asked.version.is_none_or(|asked| {
                found.version == asked || version(&found.version) == version(asked)
            })
    });
    if is_asked {
        return Ok(());
    }
    let (name, version) = found.map_or(("", ""), |it| (it.name.as_str(), it.version.as_str()));
    let wanted = asked.version.unwrap_or(&artifact.revision);
    Err(keys.invalid(&format!(
        "what is served as {} {wanted} is {name:?} {version:?}",
        asked.name
    )))
}
