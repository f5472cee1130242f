//! Is a hook from someone who knows the secret?

use std::{io::Read, path::PathBuf};

use aws_lc_rs::{constant_time, hmac};
use axum::http::HeaderMap;
use zeroize::Zeroizing;

use super::{Provider, Refusal};

/// Most bytes of a file of secrets.
const MAX_FILE: u64 = 64 << 10;
/// The file for all providers in a directory of secrets.
const FOR_ALL: &str = "secret";

/// Secrets of one provider; more than one while they are rotated.
pub(super) type Keys = Vec<Zeroizing<String>>;

/// Where secrets are.
#[derive(Debug)]
pub(super) struct Secrets(Option<PathBuf>);

impl Secrets {
    pub(super) fn new(path: Option<PathBuf>) -> Self {
        Self(path)
    }

    /// The secrets of `provider`, as they are now.
    pub(super) async fn read(&self, provider: Provider) -> Result<Keys, Refusal> {
        let path = self.0.clone().ok_or(Refusal::Off)?;
        let keys = tokio::task::spawn_blocking(move || read_keys(path, provider)).await;
        match keys {
            Ok(Ok(keys)) if !keys.is_empty() => Ok(keys),
            _ => Err(Refusal::Off),
        }
    }
}

fn read_keys(path: PathBuf, provider: Provider) -> std::io::Result<Keys> {
    let mut file = path.clone();
    if path.is_dir() {
        file = path.join(provider.name());
        if !file.exists() {
            file = path.join(FOR_ALL);
        }
    }
    let mut text = Zeroizing::new(String::new());
    std::fs::File::open(file)?
        .take(MAX_FILE)
        .read_to_string(&mut text)?;
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    Ok(lines.map(|line| Zeroizing::new(line.to_owned())).collect())
}

/// What a hook brings to show that it knows the secret.
pub(super) enum Proof {
    /// HMAC-SHA-256 of the body.
    Signature(Vec<u8>),
    /// The secret itself.
    Token(Zeroizing<String>),
}

/// The proof in the headers of a hook.
pub(super) fn proof(provider: Provider, headers: &HeaderMap) -> Result<Proof, Refusal> {
    let header = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    let signature = |names: &[&str]| {
        let text = names
            .iter()
            .find_map(|name| header(name))
            .ok_or(Refusal::Unsigned)?;
        parse_signature(text)
            .map(Proof::Signature)
            .ok_or(Refusal::Unsigned)
    };
    match provider {
        Provider::GitHub => signature(&["x-hub-signature-256"]),
        Provider::Gitea => signature(&[
            "x-gitea-signature",
            "x-forgejo-signature",
            "x-gogs-signature",
            "x-hub-signature-256",
        ]),
        Provider::Bitbucket => signature(&["x-hub-signature"]),
        Provider::Generic => signature(&["x-signature", "x-hub-signature-256"]),
        Provider::GitLab => header("x-gitlab-token")
            .map(|token| Proof::Token(Zeroizing::new(token.to_owned())))
            .ok_or(Refusal::Unsigned),
    }
}

/// `sha256=<hex>` or the hex alone. Other algorithms are refused: SHA-1 was sent besides for old receivers.
fn parse_signature(text: &str) -> Option<Vec<u8>> {
    let hex = match text.split_once('=') {
        Some(("sha256", hex)) => hex,
        Some(_) => return None,
        None => text,
    };
    if hex.len() != 64 {
        return None;
    }
    let digits: Option<Vec<u32>> = hex.chars().map(|c| c.to_digit(16)).collect();
    digits?
        .chunks(2)
        .map(|pair| u8::try_from(pair.first()? << 4 | pair.get(1)?).ok())
        .collect()
}

impl Proof {
    /// True when it is of one of `keys` and, for a signature, of `body`. Takes the same time for every wrong one.
    pub(super) fn matches(&self, keys: &Keys, body: &[u8]) -> bool {
        keys.iter().any(|key| match self {
            Self::Signature(tag) => {
                let key = hmac::Key::new(hmac::HMAC_SHA256, key.as_bytes());
                hmac::verify(&key, body, tag).is_ok()
            }
            Self::Token(token) => {
                constant_time::verify_slices_are_equal(token.as_bytes(), key.as_bytes()).is_ok()
            }
        })
    }
}
