//! What registries keep beside a chart: its manifest, its provenance and its signatures.

use reqwest::Url;
use serde::Deserialize;

use super::registry::{Descriptor, Manifest, Reference, Registries, parsed, tag_of};
use crate::gitsync::Outcome;
use crate::source::access::Access;
use crate::source::cache::{digest_of, hex_of};
use crate::source::verify::Keys;
use crate::source::{Reason, SourceError};

/// Bytes of a signature, a bundle or a provenance file.
const SIGNATURE_BYTES: u64 = 1 << 20;
/// Signatures of one chart that are looked at.
const MOST: usize = 32;
/// The layer of a provenance file, as Helm pushes it.
const PROVENANCE: &str = "application/vnd.cncf.helm.chart.provenance.v1.prov";
/// A payload of cosign.
const SIMPLE_SIGNING: &str = "application/vnd.dev.cosign.simplesigning.v1+json";
/// The annotation of such a payload that holds its signature.
const SIGNATURE: &str = "dev.cosignproject.cosign/signature";
/// A bundle of sigstore, of any version.
const BUNDLE: &str = "application/vnd.dev.sigstore.bundle";
/// What a list of manifests is asked for as.
const INDEX: &str = "application/vnd.oci.image.index.v1+json";

/// A list of the manifests that refer to another one.
#[derive(Deserialize)]
struct Referrers {
    #[serde(default)]
    manifests: Vec<Descriptor>,
}

/// A chart by its manifest.
#[derive(Debug)]
pub(in crate::source) struct Described {
    /// The digest of the manifest: what cosign signs.
    pub(in crate::source) digest: String,
    manifest: Manifest,
}

impl Described {
    /// Whether the chart is the archive of this digest.
    pub(in crate::source) fn holds(&self, archive: &str) -> bool {
        let mut layers = self.manifest.layers.iter();
        layers.any(|layer| layer.is_chart() && layer.digest == archive)
    }
}

impl Registries {
    /// The manifest behind a tag, a version or a digest.
    ///
    /// # Errors
    /// `ChartNotFound`, and everything that a server can do.
    pub(in crate::source) async fn describe(
        &self,
        chart: &Reference,
        access: &Access,
        version: &str,
    ) -> Result<Described, SourceError> {
        let (digest, manifest) = self.manifest(chart, access, &tag_of(version)).await?;
        Ok(Described { digest, manifest })
    }

    /// The provenance file that was pushed with a chart, if there is one.
    ///
    /// # Errors
    /// As [`describe`](Self::describe).
    pub(in crate::source) async fn provenance(
        &self,
        chart: &Reference,
        access: &Access,
        described: &Described,
    ) -> Result<Option<Vec<u8>>, SourceError> {
        let mut layers = described.manifest.layers.iter();
        match layers.find(|layer| layer.media_type == PROVENANCE) {
            Some(layer) => {
                let content = self.blob(chart, access, layer, SIGNATURE_BYTES).await?;
                Ok(Some(content))
            }
            None => Ok(None),
        }
    }

    /// Looks for a signature of cosign by one of the keys, in both places where it writes them. `None` if there is none
    /// at all, else the best outcome.
    ///
    /// # Errors
    /// Everything that a server can do; a place with nothing in it is no error.
    pub(in crate::source) async fn check_cosign(
        &self,
        chart: &Reference,
        access: &Access,
        manifest: &str,
        keys: &Keys,
    ) -> Result<Option<Outcome>, SourceError> {
        let Some(hex) = hex_of(manifest) else {
            return Ok(None);
        };
        let mut seen = None;
        let tag = format!("sha256-{hex}.sig");
        if let Some((_, list)) = optional(self.manifest(chart, access, &tag).await)? {
            for layer in list.layers.iter().take(MOST) {
                let signature = layer.annotations.get(SIGNATURE);
                let Some(signature) = signature.filter(|_| layer.media_type == SIMPLE_SIGNING)
                else {
                    continue;
                };
                let payload = self.blob(chart, access, layer, SIGNATURE_BYTES).await?;
                match keys.check_payload(&payload, signature, manifest) {
                    Outcome::Good => return Ok(Some(Outcome::Good)),
                    outcome => seen = Some(outcome),
                }
            }
        }
        for bundle in self.bundles(chart, access, manifest, hex).await? {
            match keys.check_bundle(&bundle, manifest) {
                Outcome::Good => return Ok(Some(Outcome::Good)),
                outcome => seen = Some(outcome),
            }
        }
        Ok(seen)
    }

    /// The bundles that refer to a manifest, by the API of the distribution specification 1.1, or by its tag for
    /// registries without it.
    async fn bundles(
        &self,
        chart: &Reference,
        access: &Access,
        manifest: &str,
        hex: &str,
    ) -> Result<Vec<Vec<u8>>, SourceError> {
        let places = [
            format!("referrers/{manifest}"),
            format!("manifests/sha256-{hex}"),
        ];
        let mut bundles = Vec::new();
        for place in places {
            let url: Url = chart.endpoint(&place);
            let Some(response) = optional(self.get(chart, access, url, INDEX).await)? else {
                continue;
            };
            let bytes = self.bytes(response, SIGNATURE_BYTES).await?;
            let list: Referrers = parsed(chart, &bytes)?;
            let is_bundle = |it: &&Descriptor| {
                it.artifact_type
                    .as_deref()
                    .is_some_and(|kind| kind.starts_with(BUNDLE))
            };
            for referrer in list.manifests.iter().filter(is_bundle).take(MOST) {
                let (_, holder) = self.manifest(chart, access, &referrer.digest).await?;
                for layer in holder.layers.iter().take(1) {
                    bundles.push(self.blob(chart, access, layer, SIGNATURE_BYTES).await?);
                }
            }
            if !bundles.is_empty() {
                break;
            }
        }
        Ok(bundles)
    }

    /// The manifest behind a tag or a digest, and its digest.
    pub(super) async fn manifest(
        &self,
        chart: &Reference,
        access: &Access,
        tag: &str,
    ) -> Result<(String, Manifest), SourceError> {
        let url = chart.endpoint(&format!("manifests/{tag}"));
        let response = self
            .get(chart, access, url, super::registry::MANIFEST)
            .await?;
        let bytes = self
            .bytes(response, super::registry::DOCUMENT_BYTES)
            .await?;
        let digest = digest_of(&bytes);
        if tag.starts_with("sha256:") && digest != tag {
            let text = format!("the manifest of {chart}@{tag} has another digest");
            return Err(SourceError::new(Reason::InvalidData, text));
        }
        Ok((digest, parsed(chart, &bytes)?))
    }
}

/// What is not there is no failure.
fn optional<T>(found: Result<T, SourceError>) -> Result<Option<T>, SourceError> {
    match found {
        Ok(found) => Ok(Some(found)),
        Err(error) if error.reason() == Reason::ChartNotFound => Ok(None),
        Err(error) => Err(error),
    }
}
