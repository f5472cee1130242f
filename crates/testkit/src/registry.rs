//! A real registry (the distribution project's), pushed to by the stock helm.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use reqwest::header::{CONTENT_TYPE, LOCATION};
use sha2::{Digest as _, Sha256};

use crate::background;
use crate::charts::chart_archive;
use crate::ports::free_ports;
use crate::process::Process;
use crate::scratch::ScratchDir;
use crate::token::TokenServer;
use crate::tools::{ToolSet, Tools};

/// How long a registry may take to start.
const LIMIT: Duration = Duration::from_secs(20);
/// What a manifest is pushed as.
const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
/// What a list of manifests is pushed as.
const INDEX: &str = "application/vnd.oci.image.index.v1+json";

/// Who may use a registry, and whence its blobs come.
#[derive(Clone, Copy, Debug, Default)]
pub struct RegistryOptions<'a> {
    /// A line of htpasswd with a bcrypt hash: basic authentication.
    pub htpasswd: Option<&'a str>,
    /// Tokens of this service are asked for.
    pub tokens: Option<&'a TokenServer>,
    /// Blobs are redirected to this address, as registries do that keep them in a cloud's storage.
    pub redirect_blobs: Option<&'a str>,
}

/// A running registry on loopback, over http.
#[derive(Debug)]
pub struct Registry {
    host: String,
    tools: Tools,
    scratch: ScratchDir,
    process: Process,
}

impl Registry {
    /// Starts an empty registry.
    ///
    /// # Errors
    /// When the program is missing or does not start.
    pub fn start(options: RegistryOptions<'_>) -> Result<Self> {
        let tools = Tools::locate(ToolSet::Full)?;
        let scratch = ScratchDir::new("registry")?;
        let [port] = free_ports::<1>()?;
        let host = format!("127.0.0.1:{port}");
        let config = scratch.join("config.yaml");
        fs::write(&config, configuration(&host, &scratch, options)?)?;
        let mut command = tools.command("registry")?;
        command.arg("serve").arg(config);
        let process = Process::spawn("registry", &command, &scratch.join("log"))?;
        process.wait_until(LIMIT, || std::net::TcpStream::connect(&host).is_ok())?;
        Ok(Self {
            host,
            tools,
            scratch,
            process,
        })
    }

    /// `host:port`.
    #[must_use]
    pub fn host(&self) -> &str {
        &self.host
    }

    /// The address of a chart that [`push`](Self::push) put there.
    #[must_use]
    pub fn url(&self, name: &str) -> String {
        format!("oci://{}/team/{name}", self.host)
    }

    /// Everything that the registry has printed.
    #[must_use]
    pub fn log(&self) -> String {
        self.process.log()
    }

    /// Runs the stock helm, with a home of its own and without TLS.
    ///
    /// # Errors
    /// When it fails; with what it says.
    pub fn helm(&self, arguments: &[&str]) -> Result<()> {
        let mut command: Command = self.tools.command("helm")?;
        let home = self.scratch.join("helm");
        command.args(arguments).arg("--plain-http");
        for variable in [
            "HELM_CACHE_HOME",
            "HELM_CONFIG_HOME",
            "HELM_DATA_HOME",
            "HOME",
        ] {
            command.env(variable, &home);
        }
        crate::run(&mut command).map(drop)
    }

    /// Lets the stock helm log in, for later pushes.
    ///
    /// # Errors
    /// When the registry refuses.
    pub fn login(&self, user: &str, password: &str) -> Result<()> {
        let host = self.host.as_str();
        self.helm(&[
            "registry",
            "login",
            host,
            "--username",
            user,
            "--password",
            password,
        ])
    }

    /// Pushes a chart with one ConfigMap as `team/<name>`. Returns the archive.
    ///
    /// # Errors
    /// When the stock helm fails.
    pub fn push(&self, name: &str, version: &str) -> Result<Vec<u8>> {
        let archive = chart_archive(name, version, &[])?;
        let path = self.scratch.join(format!("{name}-{version}.tgz"));
        fs::write(&path, &archive)?;
        self.helm(&["push", text(&path)?, &format!("oci://{}/team", self.host)])?;
        Ok(archive)
    }

    /// The manifest behind a tag of `team/<name>`, with its digest; of a registry that asks for no login.
    ///
    /// # Errors
    /// When there is none.
    pub fn manifest(&self, name: &str, tag: &str) -> Result<(String, Vec<u8>)> {
        let url = format!("http://{}/v2/team/{name}/manifests/{tag}", self.host);
        background::wait_for(async move {
            let client = reqwest::Client::new();
            let answer = client
                .get(url)
                .header(reqwest::header::ACCEPT, MANIFEST)
                .send()
                .await?;
            let content = answer.error_for_status()?.bytes().await?.to_vec();
            Ok((digest(&content), content))
        })?
    }

    /// Puts a blob into `team/<name>` and returns its digest; of a registry that asks for no login.
    ///
    /// # Errors
    /// When the registry refuses.
    pub fn put_blob(&self, name: &str, content: &[u8]) -> Result<String> {
        let start = format!("http://{}/v2/team/{name}/blobs/uploads/", self.host);
        let (content, digest) = (content.to_vec(), digest(content));
        let named = digest.clone();
        background::wait_for(async move {
            let client = reqwest::Client::new();
            let opened = client.post(&start).send().await?.error_for_status()?;
            let place = opened
                .headers()
                .get(LOCATION)
                .context("no place to upload to")?;
            let mut url = reqwest::Url::parse(&start)?.join(place.to_str()?)?;
            url.query_pairs_mut().append_pair("digest", &named);
            client
                .put(url)
                .body(content)
                .send()
                .await?
                .error_for_status()?;
            anyhow::Ok(())
        })??;
        Ok(digest)
    }

    /// Puts a manifest behind a tag of `team/<name>`; of a registry that asks for no login.
    ///
    /// # Errors
    /// When the registry refuses.
    pub fn put_manifest(&self, name: &str, tag: &str, manifest: String) -> Result<()> {
        self.put_document(name, tag, MANIFEST, manifest)
    }

    /// Puts a list of manifests behind a tag of `team/<name>`; of a registry that asks for no login.
    ///
    /// # Errors
    /// When the registry refuses.
    pub fn put_index(&self, name: &str, tag: &str, index: String) -> Result<()> {
        self.put_document(name, tag, INDEX, index)
    }

    fn put_document(
        &self,
        name: &str,
        tag: &str,
        kind: &'static str,
        document: String,
    ) -> Result<()> {
        let url = format!("http://{}/v2/team/{name}/manifests/{tag}", self.host);
        background::wait_for(async move {
            let client = reqwest::Client::new();
            let request = client.put(url).header(CONTENT_TYPE, kind);
            let answer = request.body(document).send().await?;
            let status = answer.status();
            let said = answer.text().await?;
            ensure!(status.is_success(), "{status}: {said}");
            Ok(())
        })?
    }

    /// Whether the registry still takes a token for the tags of `team/<name>`.
    ///
    /// # Errors
    /// When it answers anything but 200 and 401.
    pub fn accepts(&self, token: &str, name: &str) -> Result<bool> {
        let url = format!("http://{}/v2/team/{name}/tags/list", self.host);
        let token = token.to_owned();
        let status = background::wait_for(async move {
            let request = reqwest::Client::new().get(url).bearer_auth(token);
            anyhow::Ok(request.send().await?.status().as_u16())
        })??;
        match status {
            200 => Ok(true),
            401 => Ok(false),
            other => bail!("the registry answers with {other}"),
        }
    }
}

/// Where the file system driver keeps a blob, and so the path that a redirect of it leads to.
#[must_use]
pub fn blob_path(content: &[u8]) -> String {
    let hex = digest(content).split_off("sha256:".len());
    let start: String = hex.chars().take(2).collect();
    format!("/docker/registry/v2/blobs/sha256/{start}/{hex}/data")
}

fn configuration(host: &str, scratch: &ScratchDir, options: RegistryOptions<'_>) -> Result<String> {
    let mut config = format!(
        "version: 0.1\nlog: {{level: warn}}\nstorage:\n  filesystem:\n    rootdirectory: {}\nhttp:\n  addr: {host}\n",
        scratch.join("data").display()
    );
    if let Some(line) = options.htpasswd {
        let path = scratch.join("htpasswd");
        fs::write(&path, line)?;
        let path = path.display();
        write!(
            config,
            "auth:\n  htpasswd:\n    realm: charts\n    path: {path}\n"
        )?;
    }
    if let Some(tokens) = options.tokens {
        let path = scratch.join("tokens.pem");
        fs::write(&path, tokens.certificate())?;
        write!(
            config,
            "auth:\n  token:\n    realm: {}\n    service: {}\n    issuer: {}\n    rootcertbundle: {}\n",
            tokens.url(),
            TokenServer::SERVICE,
            TokenServer::ISSUER,
            path.display()
        )?;
    }
    if let Some(url) = options.redirect_blobs {
        write!(
            config,
            "middleware:\n  storage:\n  - name: redirect\n    options: {{baseurl: \"{url}\"}}\n"
        )?;
    }
    Ok(config)
}

pub(crate) fn digest(content: &[u8]) -> String {
    let mut text = "sha256:".to_owned();
    for byte in Sha256::digest(content) {
        let _ = write!(text, "{byte:02x}");
    }
    text
}

fn text(path: &Path) -> Result<&str> {
    path.to_str().context("a path that is no UTF-8")
}
