//! Provenance files: the name and the digest of an archive, clear-signed with OpenPGP (`helm package --sign`).

use goyaml::Tree;

use crate::gitsync::{Keyring, Outcome};
use crate::source::cache::digest_of;
use crate::source::{Reason, SourceError};

/// Who signed an archive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Signer {
    /// The user ids of the key.
    pub names: Vec<String>,
    /// The fingerprint of the primary key, in upper-case hex.
    pub fingerprint: String,
    /// The digest of the archive that was signed.
    pub digest: String,
}

/// Checks a provenance file with the keys of a ring (armored, binary, or a `pubring.kbx`) over an archive called
/// `name`, as `helm verify`.
///
/// # Errors
/// `SignatureInvalid`.
pub fn verify_provenance(
    ring: &[u8],
    provenance: &[u8],
    name: &str,
    archive: &[u8],
) -> Result<Signer, SourceError> {
    let names = [name.to_owned()];
    check(
        &Keyring::read(ring),
        provenance,
        &names,
        &digest_of(archive),
    )
    .map_err(|why| SourceError::new(Reason::SignatureInvalid, why))
}

/// Checks the signature, and that the text names this digest for a file of one of these names.
pub(super) fn check(
    ring: &Keyring,
    provenance: &[u8],
    names: &[String],
    digest: &str,
) -> Result<Signer, String> {
    let message = std::str::from_utf8(provenance).map_err(|_| "the provenance file is no text")?;
    let signed = ring.open(message).map_err(refusal)?;
    let sums = signed.text.split_once("\n...\n");
    let (_, sums) = sums.ok_or("the provenance file names no files")?;
    let tree = goyaml::read(sums.as_bytes())
        .map_err(|error| format!("the provenance file is not readable: {error}"))?;
    let sum = |name: &String| {
        let found = tree.get("files")?.get(name).and_then(Tree::as_str)?;
        Some(found.to_text().into_owned())
    };
    let mut sums = names.iter().filter_map(|name| Some((name, sum(name)?)));
    let Some((name, found)) = sums.next() else {
        let name = names.first().map(String::as_str).unwrap_or_default();
        return Err(format!(
            "provenance does not contain a SHA for a file named {name:?}"
        ));
    };
    if found != digest {
        return Err(format!(
            "sha256 sum does not match for {name}: {found:?} != {digest:?}"
        ));
    }
    Ok(Signer {
        names: signed.names,
        fingerprint: signed.fingerprint,
        digest: found,
    })
}

fn refusal(outcome: Outcome) -> String {
    let why = match outcome {
        Outcome::UnknownKey => "is signed by another key",
        Outcome::Bad => "has a signature that does not fit its content",
        Outcome::Good | Outcome::Unreadable => "has no signature that is understood",
    };
    format!("the provenance file {why}")
}
