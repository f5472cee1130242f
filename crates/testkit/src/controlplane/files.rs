//! The files that the servers read: certificates, tokens, kubeconfigs, the audit policy.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use anyhow::{Context, Result};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::json;

use crate::pki::{Authority, signing_key};
use crate::scratch::ScratchDir;

/// Every request at the `Metadata` level, once it is answered. Watches too: they are answered when they end.
const AUDIT_POLICY: &str = r#"{"apiVersion":"audit.k8s.io/v1","kind":"Policy",
"omitStages":["RequestReceived","ResponseStarted"],"rules":[{"level":"Metadata"}]}"#;

#[derive(Debug)]
pub(super) struct Files {
    directory: PathBuf,
    pub(super) url: String,
    pub(super) authority: Authority,
    pub(super) token: String,
    next: AtomicU32,
}

impl Files {
    pub(super) fn write(scratch: &ScratchDir, port: u16) -> Result<Self> {
        let files = Self {
            directory: scratch.path().to_owned(),
            url: format!("https://127.0.0.1:{port}"),
            authority: Authority::new("control plane")?,
            token: token()?,
            next: AtomicU32::new(1),
        };
        files.write_secrets()?;
        files.put("audit-policy.json", AUDIT_POLICY)?;
        fs::create_dir(files.home()).context("making a home")?;
        files.put(
            "kubeconfig",
            &files.kubeconfig_text(&files.url, &files.token),
        )?;
        Ok(files)
    }

    fn write_secrets(&self) -> Result<()> {
        let names = [
            "127.0.0.1",
            "localhost",
            "kubernetes",
            "kubernetes.default.svc",
            "10.96.0.1",
        ];
        let server = self.authority.server(&names)?;
        let (private, public) = signing_key()?;
        self.put("ca.crt", &self.authority.pem())?;
        self.put("server.crt", &server.certificate)?;
        self.put("server.key", &server.key)?;
        self.put("service-account.key", &private)?;
        self.put("service-account.pub", &public)?;
        self.put(
            "tokens.csv",
            &format!("{},admin,admin,\"system:masters\"\n", self.token),
        )
    }

    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.directory.join(name)
    }

    /// `--flag=directory/name`
    pub(super) fn flag(&self, flag: &str, name: &str) -> String {
        format!("--{flag}={}", self.path(name).display())
    }

    pub(super) fn home(&self) -> PathBuf {
        self.path("home")
    }

    pub(super) fn kubeconfig(&self) -> PathBuf {
        self.path("kubeconfig")
    }

    pub(super) fn audit_log(&self) -> PathBuf {
        self.path("audit.log")
    }

    pub(super) fn kubeconfig_for(&self, url: &str, token: &str) -> Result<PathBuf> {
        let name = format!("kubeconfig-{}", self.next.fetch_add(1, Ordering::Relaxed));
        self.put(&name, &self.kubeconfig_text(url, token))?;
        Ok(self.path(&name))
    }

    /// A kubeconfig in JSON, which every reader of kubeconfigs takes.
    fn kubeconfig_text(&self, url: &str, token: &str) -> String {
        let authority = STANDARD.encode(self.authority.pem());
        let cluster = json!({ "server": url, "certificate-authority-data": authority });
        let config = json!({
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "test",
            "clusters": [{ "name": "test", "cluster": cluster }],
            "users": [{ "name": "test", "user": { "token": token } }],
            "contexts": [{ "name": "test", "context": { "cluster": "test", "user": "test" } }],
        });
        config.to_string()
    }

    fn put(&self, name: &str, text: &str) -> Result<()> {
        put(&self.path(name), text)
    }
}

fn put(path: &Path, text: &str) -> Result<()> {
    fs::write(path, text).with_context(|| format!("writing {}", path.display()))
}

/// 32 hexadecimal digits from the system's randomness.
fn token() -> Result<String> {
    let mut bytes = [0_u8; 16];
    let mut source = fs::File::open("/dev/urandom").context("making a token")?;
    std::io::Read::read_exact(&mut source, &mut bytes).context("making a token")?;
    Ok(format!("{:032x}", u128::from_be_bytes(bytes)))
}
