//! Keys that sign charts: of GnuPG for provenance files, of cosign for registries.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use aws_lc_rs::encoding::{AsDer as _, PublicKeyX509Der};
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{ECDSA_P256_SHA256_ASN1_SIGNING, EcdsaKeyPair, KeyPair as _};
use base64::Engine as _;

use crate::registry::{Registry, digest};
use crate::scratch::ScratchDir;
use crate::tools::{ToolSet, Tools};

/// A key of GnuPG in a home of its own.
#[derive(Debug)]
pub struct GpgKey {
    scratch: ScratchDir,
    tools: Tools,
}

/// A chart that is packed and signed by the stock helm.
#[derive(Clone, Debug)]
pub struct SignedChart {
    /// The archive.
    pub archive: Vec<u8>,
    /// Its provenance file.
    pub provenance: Vec<u8>,
    /// Where both lie, the second with `.prov` behind the name.
    pub path: PathBuf,
}

impl Drop for GpgKey {
    /// Ends the agent that GnuPG has started for this home.
    fn drop(&mut self) {
        let mut command = Command::new("gpgconf");
        command.env("GNUPGHOME", self.home());
        // It also ends by itself when its home is gone.
        let _ = crate::run(command.args(["--kill", "gpg-agent"]));
    }
}

impl GpgKey {
    /// Makes a key for `name`, of an algorithm as GnuPG calls it (`rsa2048`, `ed25519`).
    ///
    /// # Errors
    /// When `gpg` is missing or refuses.
    pub fn generate(name: &str, algorithm: &str) -> Result<Self> {
        let key = Self {
            scratch: ScratchDir::new("gpg")?,
            tools: Tools::locate(ToolSet::Base)?,
        };
        fs::create_dir(key.home())?;
        #[cfg(unix)]
        fs::set_permissions(
            key.home(),
            std::os::unix::fs::PermissionsExt::from_mode(0o700),
        )?;
        key.gpg(&["--quick-generate-key", name, algorithm, "sign", "never"])?;
        Ok(key)
    }

    /// The public key, armored.
    ///
    /// # Errors
    /// When `gpg` fails.
    pub fn armored(&self) -> Result<String> {
        self.export("public.asc", &["--armor", "--export"])
            .and_then(|path| Ok(fs::read_to_string(path)?))
    }

    /// A file with the public key, as `gpg --export` writes it.
    ///
    /// # Errors
    /// When `gpg` fails.
    pub fn ring(&self) -> Result<PathBuf> {
        self.export("pubring.gpg", &["--export"])
    }

    /// The container in which GnuPG keeps public keys.
    #[must_use]
    pub fn keybox(&self) -> PathBuf {
        self.home().join("pubring.kbx")
    }

    /// Packs and signs a chart of one ConfigMap with the stock helm.
    ///
    /// # Errors
    /// When helm fails.
    pub fn sign_chart(&self, name: &str, version: &str) -> Result<SignedChart> {
        let secret = self.export("secring.gpg", &["--export-secret-keys"])?;
        let chart = self.scratch.join("chart").join(name);
        fs::create_dir_all(chart.join("templates"))?;
        let metadata = format!("apiVersion: v2\nname: {name}\nversion: {version}\n");
        fs::write(chart.join("Chart.yaml"), metadata)?;
        let template = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {{ .Release.Name }}-{{ .Chart.Name }}\ndata:\n  version: {{ .Chart.Version }}\n";
        fs::write(chart.join("templates/config.yaml"), template)?;
        let packed = self.scratch.join("packed");
        let mut command = self.tools.command("helm")?;
        command.env("HOME", self.scratch.join("helm"));
        // A part of the name of the key that is in all of them.
        command.args(["package", "--sign", "--key", "@", "--keyring"]);
        command
            .arg(secret)
            .arg("--destination")
            .arg(&packed)
            .arg(chart);
        crate::run(&mut command)?;
        let path = packed.join(format!("{name}-{version}.tgz"));
        Ok(SignedChart {
            archive: fs::read(&path)?,
            provenance: fs::read(packed.join(format!("{name}-{version}.tgz.prov")))?,
            path,
        })
    }

    fn home(&self) -> PathBuf {
        self.scratch.join("home")
    }

    fn export(&self, file: &str, arguments: &[&str]) -> Result<PathBuf> {
        let path = self.scratch.join(file);
        let output = path.to_str().context("a path that is no UTF-8")?;
        self.gpg(&[&["--yes", "--output", output][..], arguments].concat())?;
        Ok(path)
    }

    fn gpg(&self, arguments: &[&str]) -> Result<()> {
        let mut command = Command::new("gpg");
        command.env("GNUPGHOME", self.home()).args([
            "--batch",
            "--quiet",
            "--pinentry-mode",
            "loopback",
            "--passphrase",
            "",
        ]);
        crate::run(command.args(arguments)).map(drop)
    }
}

/// A key pair as cosign makes them: ECDSA over P-256.
pub struct CosignKey(EcdsaKeyPair);

impl std::fmt::Debug for CosignKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("CosignKey")
    }
}

impl CosignKey {
    /// Makes a pair.
    ///
    /// # Errors
    /// When there is no randomness.
    pub fn generate() -> Result<Self> {
        let pair = EcdsaKeyPair::generate(&ECDSA_P256_SHA256_ASN1_SIGNING);
        pair.map(Self).ok().context("no key pair can be made")
    }

    /// What `cosign.pub` holds.
    ///
    /// # Errors
    /// None in practice.
    pub fn public(&self) -> Result<String> {
        let info: Option<PublicKeyX509Der<'_>> = self.0.public_key().as_der().ok();
        let body = encode(info.context("a key without a form")?.as_ref());
        Ok(format!(
            "-----BEGIN PUBLIC KEY-----\n{body}\n-----END PUBLIC KEY-----\n"
        ))
    }

    /// The signature of a message, in base64.
    ///
    /// # Errors
    /// When there is no randomness.
    pub fn sign(&self, message: &[u8]) -> Result<String> {
        let signature = self.0.sign(&SystemRandom::new(), message).ok();
        Ok(encode(signature.context("nothing can be signed")?.as_ref()))
    }

    /// Signs the manifest of this digest in `team/<name>`, in the way of cosign 2: a payload behind a tag.
    ///
    /// # Errors
    /// When the registry refuses.
    pub fn sign_manifest(&self, registry: &Registry, name: &str, manifest: &str) -> Result<()> {
        let payload = format!(
            r#"{{"critical":{{"identity":{{"docker-reference":"team/{name}"}},"image":{{"docker-manifest-digest":"{manifest}"}},"type":"cosign container image signature"}},"optional":null}}"#
        );
        let signature = self.sign(payload.as_bytes())?;
        let layer = registry.put_blob(name, payload.as_bytes())?;
        let size = payload.len();
        let document = manifest_of(
            registry,
            name,
            &format!(
                r#"{{"mediaType":"application/vnd.dev.cosign.simplesigning.v1+json","digest":"{layer}","size":{size},"annotations":{{"dev.cosignproject.cosign/signature":"{signature}"}}}}"#
            ),
        )?;
        let tag = manifest.replace(':', "-") + ".sig";
        registry.put_manifest(name, &tag, document)
    }

    /// Signs the manifest of this digest in `team/<name>`, in the way of cosign 3: a bundle that refers to it, listed
    /// behind the tag for registries that do not list referrers themselves.
    ///
    /// # Errors
    /// When the registry refuses.
    pub fn sign_with_bundle(&self, registry: &Registry, name: &str, manifest: &str) -> Result<()> {
        let kind = "application/vnd.in-toto+json";
        let hex = manifest.trim_start_matches("sha256:");
        let statement = format!(
            r#"{{"_type":"https://in-toto.io/Statement/v1","predicateType":"https://sigstore.dev/cosign/sign/v1","subject":[{{"digest":{{"sha256":"{hex}"}}}}]}}"#
        );
        let length = statement.len();
        let signature =
            self.sign(format!("DSSEv1 {} {kind} {length} {statement}", kind.len()).as_bytes())?;
        let payload = encode(statement.as_bytes());
        let bundle = format!(
            r#"{{"mediaType":"application/vnd.dev.sigstore.bundle.v0.3+json","dsseEnvelope":{{"payload":"{payload}","payloadType":"{kind}","signatures":[{{"sig":"{signature}"}}]}}}}"#
        );
        let layer = registry.put_blob(name, bundle.as_bytes())?;
        let size = bundle.len();
        let media = "application/vnd.dev.sigstore.bundle.v0.3+json";
        let holder = manifest_of(
            registry,
            name,
            &format!(r#"{{"mediaType":"{media}","digest":"{layer}","size":{size}}}"#),
        )?;
        let (holder_digest, holder_size) = (digest(holder.as_bytes()), holder.len());
        registry.put_manifest(name, &holder_digest, holder)?;
        let list = format!(
            r#"{{"schemaVersion":2,"mediaType":"application/vnd.oci.image.index.v1+json","manifests":[{{"mediaType":"application/vnd.oci.image.manifest.v1+json","digest":"{holder_digest}","size":{holder_size},"artifactType":"{media}"}}]}}"#
        );
        registry.put_index(name, &manifest.replace(':', "-"), list)
    }
}

/// A manifest with an empty configuration and one layer.
fn manifest_of(registry: &Registry, name: &str, layer: &str) -> Result<String> {
    let config = registry.put_blob(name, b"{}")?;
    Ok(format!(
        r#"{{"schemaVersion":2,"mediaType":"application/vnd.oci.image.manifest.v1+json","config":{{"mediaType":"application/vnd.oci.image.config.v1+json","digest":"{config}","size":2}},"layers":[{layer}]}}"#
    ))
}

fn encode(bytes: &[u8]) -> String {
    base64::engine::general_purpose::STANDARD.encode(bytes)
}

/// Pushes a chart that lies in a file, with its provenance if that lies beside it.
///
/// # Errors
/// When the stock helm fails.
pub fn push_file(registry: &Registry, path: &Path) -> Result<()> {
    let file = path.to_str().context("a path that is no UTF-8")?;
    registry.helm(&["push", file, &format!("oci://{}/team", registry.host())])
}
