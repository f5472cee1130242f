//! `git http-backend` as a CGI program (RFC 3875): the request in the environment and on stdin, the reply on stdout.

use std::path::{Path, PathBuf};
use std::process::Stdio;

use anyhow::{Context, Result, bail};
use bytes::{Bytes, BytesMut};
use hyper::{Request, Response};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::process::{Child, ChildStdout, Command};

use crate::http::{Body, BodySender, stream_body};

/// More than any header of git's is a fault of ours.
const HEADER_LIMIT: usize = 64 * 1024;

#[derive(Debug)]
pub(super) struct Backend {
    projects: PathBuf,
    program: PathBuf,
}

impl Backend {
    pub(super) fn new(projects: PathBuf) -> Result<Self> {
        let directory = crate::run(std::process::Command::new("git").arg("--exec-path"))
            .context("git is missing: install git 2.30 or newer")?;
        let program = Path::new(directory.trim()).join("git-http-backend");
        if !program.is_file() {
            bail!("{} is missing: install the whole of git", program.display());
        }
        Ok(Self { projects, program })
    }

    pub(super) fn projects(&self) -> &Path {
        &self.projects
    }

    pub(super) async fn serve(
        &self,
        request: Request<Bytes>,
        user: &str,
    ) -> Result<Response<Body>> {
        let mut child = self
            .command(&request, user)
            .spawn()
            .context("starting git http-backend")?;
        let mut stdin = child
            .stdin
            .take()
            .context("git http-backend has no stdin")?;
        let mut stdout = child
            .stdout
            .take()
            .context("git http-backend has no stdout")?;
        let body = request.into_body();
        // git may answer before it has read everything, so nobody waits for the end of the writing.
        tokio::spawn(async move { stdin.write_all(&body).await });
        let (header, rest) = read_header(&mut stdout).await?;
        let (sender, body) = stream_body();
        tokio::spawn(pass_on(child, stdout, rest, sender));
        reply(&header, body)
    }

    fn command(&self, request: &Request<Bytes>, user: &str) -> Command {
        let mut command = Command::new(&self.program);
        command
            .env("GIT_PROJECT_ROOT", &self.projects)
            .env("GIT_HTTP_EXPORT_ALL", "1")
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .env("GIT_CONFIG_GLOBAL", "/dev/null")
            .env("REQUEST_METHOD", request.method().as_str())
            .env("PATH_INFO", request.uri().path())
            .env("QUERY_STRING", request.uri().query().unwrap_or_default())
            .env("CONTENT_LENGTH", request.body().len().to_string())
            // A named user may push.
            .env("REMOTE_USER", user)
            .env("REMOTE_ADDR", "127.0.0.1");
        for (header, variable) in [
            ("content-type", "CONTENT_TYPE"),
            ("content-encoding", "HTTP_CONTENT_ENCODING"),
            ("git-protocol", "GIT_PROTOCOL"),
        ] {
            match request
                .headers()
                .get(header)
                .and_then(|value| value.to_str().ok())
            {
                Some(value) => command.env(variable, value),
                None => command.env_remove(variable),
            };
        }
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null());
        command.kill_on_drop(true);
        command
    }
}

/// The header block, and what was read of the body after it.
async fn read_header(stdout: &mut ChildStdout) -> Result<(String, Bytes)> {
    let mut buffer = BytesMut::new();
    loop {
        if let Some(end) = find(&buffer, b"\r\n\r\n") {
            let header = buffer.split_to(end);
            let rest = buffer.split_off(4);
            return Ok((String::from_utf8_lossy(&header).into_owned(), rest.freeze()));
        }
        if buffer.len() > HEADER_LIMIT || stdout.read_buf(&mut buffer).await? == 0 {
            bail!("git http-backend ended without a header");
        }
    }
}

fn find(bytes: &[u8], wanted: &[u8]) -> Option<usize> {
    bytes
        .windows(wanted.len())
        .position(|window| window == wanted)
}

/// Passes stdout on until it or the reader ends; the child is killed when this is dropped.
async fn pass_on(mut child: Child, mut stdout: ChildStdout, rest: Bytes, sender: BodySender) {
    let mut piece = rest;
    loop {
        if !piece.is_empty() && sender.send(Ok(piece)).await.is_err() {
            return;
        }
        let mut buffer = BytesMut::with_capacity(16 * 1024);
        match stdout.read_buf(&mut buffer).await {
            Ok(0) => break,
            Ok(_) => piece = buffer.freeze(),
            Err(error) => {
                let _ = sender.send(Err(error.into())).await;
                break;
            }
        }
    }
    let _ = child.wait().await;
}

fn reply(header: &str, body: Body) -> Result<Response<Body>> {
    let mut reply = Response::builder();
    for line in header.split("\r\n") {
        let (name, value) = line
            .split_once(':')
            .context("reading a header of git http-backend")?;
        let value = value.trim();
        if name.eq_ignore_ascii_case("status") {
            let code = value.split(' ').next().unwrap_or_default();
            reply = reply.status(code.parse::<u16>().context("reading the status")?);
        } else {
            reply = reply.header(name, value);
        }
    }
    reply.body(body).context("making the reply")
}
