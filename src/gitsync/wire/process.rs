//! Remotes behind a program: `ssh`, and `git-upload-pack` for a local path.
//!
//! These are the only programs that git sources start, each from a fixed argument list, without a shell on this
//! side, with an empty environment but for what is set here.

use std::{path::Path, process::Stdio, time::Duration};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    process::{Child, ChildStderr, ChildStdin, Command},
    task::JoinHandle,
    time::timeout,
};

use super::{
    Listing, MAX_LISTING,
    body::{Body, Counters, Pace},
    fetch::{self, FetchRequest, PackStream, ShallowInfo},
    refs::{self, Capabilities, RefFilter},
};
use crate::gitsync::{Reason, SourceError};

/// Most bytes of stderr that are kept.
const MAX_STDERR: u64 = 16 << 10;
/// How long a program may take to end once its output has.
const EXIT_GRACE: Duration = Duration::from_secs(2);

/// A program that speaks the git protocol on its standard streams.
pub(crate) struct ProcessRemote<'c> {
    session: Option<Session<'c>>,
    counters: &'c Counters,
    pace: Pace,
    /// Turns what the program said into an error.
    explain: fn(&str) -> SourceError,
}

struct Session<'c> {
    child: Child,
    stdin: ChildStdin,
    body: Body<'c>,
    stderr: JoinHandle<String>,
    capabilities: Capabilities,
}

impl<'c> ProcessRemote<'c> {
    /// A remote for one exchange, not yet started.
    pub(crate) fn new(
        counters: &'c Counters,
        pace: Pace,
        explain: fn(&str) -> SourceError,
    ) -> Self {
        Self {
            session: None,
            counters,
            pace,
            explain,
        }
    }

    /// Starts `command` and lists the refs that `filter` wants.
    pub(crate) async fn list(
        &mut self,
        command: Command,
        filter: &RefFilter,
    ) -> Result<Listing, SourceError> {
        let (mut child, stdin, mut body, stderr) = self.start(command)?;
        let advertisement = match refs::read_advertisement(&mut body, filter).await {
            Ok(advertisement) => advertisement,
            Err(error) => return Err(self.explain_failure(&mut child, stderr, error).await),
        };
        let capabilities = advertisement.capabilities.clone();
        let mut session = Session {
            child,
            stdin,
            body,
            stderr,
            capabilities,
        };
        let found = match &advertisement.capabilities {
            Capabilities::V2 { .. } => {
                session
                    .write(&refs::ls_refs_request(filter), self.pace)
                    .await?;
                refs::read_ls_refs(&mut session.body, filter).await?
            }
            Capabilities::V0(_) => advertisement.found,
        };
        self.session = Some(session);
        Ok(Listing::new(found, advertisement.capabilities))
    }

    /// True when no session is open.
    pub(crate) fn is_spent(&self) -> bool {
        self.session.is_none()
    }

    /// Asks for objects, in the session that [`list`](Self::list) began.
    pub(crate) async fn fetch(
        &mut self,
        request: &FetchRequest,
        pack_limit: u64,
    ) -> Result<(ShallowInfo, PackStream<'c>, Held), SourceError> {
        let Some(mut session) = self.session.take() else {
            return Err(SourceError::new(
                Reason::Unreachable,
                "the connection is not open",
            ));
        };
        session
            .write(&fetch::encode(request, &session.capabilities), self.pace)
            .await?;
        let Session {
            child,
            stdin,
            body,
            stderr,
            capabilities,
        } = session;
        let (info, pack) = fetch::read_response(body, request, &capabilities, pack_limit).await?;
        Ok((
            info,
            pack,
            Held {
                _child: child,
                _stdin: stdin,
                stderr,
            },
        ))
    }

    fn start(
        &self,
        mut command: Command,
    ) -> Result<(Child, ChildStdin, Body<'c>, JoinHandle<String>), SourceError> {
        self.counters.request();
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = command.kill_on_drop(true).spawn().map_err(|error| {
            let program = command
                .as_std()
                .get_program()
                .to_string_lossy()
                .into_owned();
            SourceError::new(
                Reason::InvalidSource,
                format!("the program `{program}` cannot be started: {error}; is it installed?"),
            )
        })?;
        let streams = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let (Some(stdin), Some(stdout), Some(stderr)) = streams else {
            return Err(SourceError::new(
                Reason::Unreachable,
                "the program has no streams",
            ));
        };
        let body = Body::pipe(stdout, self.pace, MAX_LISTING, self.counters);
        Ok((child, stdin, body, tokio::spawn(read_stderr(stderr))))
    }

    /// The error of a program that ended early is what it said, and only else what we saw.
    async fn explain_failure(
        &self,
        child: &mut Child,
        stderr: JoinHandle<String>,
        seen: SourceError,
    ) -> SourceError {
        if seen.reason() == Reason::Timeout {
            return seen;
        }
        let exited = timeout(EXIT_GRACE, child.wait()).await.is_ok();
        let said = match timeout(EXIT_GRACE, stderr).await {
            Ok(Ok(text)) if exited => text,
            _ => String::new(),
        };
        if said.trim().is_empty() {
            seen
        } else {
            (self.explain)(&said)
        }
    }
}

impl Drop for ProcessRemote<'_> {
    fn drop(&mut self) {
        if let Some(session) = self.session.take() {
            session.stderr.abort();
        }
    }
}

/// Keeps the program alive while its pack is read.
pub(crate) struct Held {
    _child: Child,
    _stdin: ChildStdin,
    stderr: JoinHandle<String>,
}

impl Drop for Held {
    fn drop(&mut self) {
        self.stderr.abort();
    }
}

impl Session<'_> {
    async fn write(&mut self, message: &[u8], pace: Pace) -> Result<(), SourceError> {
        let written = async {
            self.stdin.write_all(message).await?;
            self.stdin.flush().await
        };
        match timeout(pace.window, written).await {
            Err(_) => Err(pace.stalled("sending the request")),
            Ok(Err(error)) => Err(SourceError::new(
                Reason::Unreachable,
                format!("the connection broke: {error}"),
            )),
            Ok(Ok(())) => Ok(()),
        }
    }
}

/// Reads all of stderr, so that the program never blocks on it, and keeps its beginning.
async fn read_stderr(stderr: ChildStderr) -> String {
    let mut kept = Vec::new();
    let mut stderr = stderr.take(MAX_STDERR);
    let _ = stderr.read_to_end(&mut kept).await;
    let mut rest = stderr.into_inner();
    let _ = tokio::io::copy(&mut rest, &mut tokio::io::sink()).await;
    String::from_utf8_lossy(&kept).into_owned()
}

/// A command with an empty environment but for what finding programs and the protocol version need.
pub(crate) fn command(program: &str) -> Command {
    let mut command = Command::new(program);
    command
        .env_clear()
        .env("GIT_PROTOCOL", "version=2")
        .env("LC_ALL", "C");
    if let Some(path) = std::env::var_os("PATH") {
        command.env("PATH", path);
    }
    command
}

/// `git-upload-pack` on a directory of this machine.
pub(crate) fn local(path: &str) -> Command {
    let mut command = command("git");
    // The directory may belong to another user: the options allow local paths, so that is its owner's choice.
    command.args([
        "-c",
        "safe.directory=*",
        "upload-pack",
        "--strict",
        "--",
        path,
    ]);
    command
}

/// What `git-upload-pack` says is wrong.
pub(crate) fn explain_local(said: &str) -> SourceError {
    let last = said.trim().lines().last().unwrap_or_default();
    SourceError::new(
        Reason::RepositoryNotFound,
        format!("git upload-pack: {last}"),
    )
}

/// Says what to write instead, where `path` is a work tree or a directory within a repository.
pub(crate) fn with_local_hint(error: SourceError, path: &str) -> SourceError {
    match local_hint(Path::new(path)) {
        Some(hint) if error.reason() == Reason::RepositoryNotFound => {
            SourceError::new(Reason::RepositoryNotFound, format!("{error}; {hint}"))
        }
        _ => error,
    }
}

fn local_hint(path: &Path) -> Option<String> {
    let repository = |root: &Path| {
        let inner = root.join(".git");
        let is_bare = root.join("HEAD").is_file() && root.join("objects").is_dir();
        if inner.join("HEAD").is_file() {
            Some(inner)
        } else {
            is_bare.then(|| root.to_owned())
        }
    };
    if let Some(found) = repository(path) {
        let found = found.display();
        return Some(format!("this is a work tree: use file://{found}"));
    }
    let (root, found) = path
        .ancestors()
        .skip(1)
        .find_map(|root| Some((root, repository(root)?)))?;
    let below = path.strip_prefix(root).ok()?;
    Some(format!(
        "this is a directory within a repository: use file://{} with path: {}",
        found.display(),
        below.display()
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_work_tree_and_a_directory_in_it_are_told_from_nothing() {
        let place = tempfile::tempdir().unwrap();
        let root = place.path().join("charts");
        std::fs::create_dir_all(root.join(".git/objects")).unwrap();
        std::fs::create_dir_all(root.join("apps/web")).unwrap();
        std::fs::write(root.join(".git/HEAD"), "ref: refs/heads/main\n").unwrap();
        let git = root.join(".git");
        let git = git.display();
        assert_eq!(
            local_hint(&root).unwrap(),
            format!("this is a work tree: use file://{git}")
        );
        assert_eq!(
            local_hint(&root.join("apps/web")).unwrap(),
            format!(
                "this is a directory within a repository: use file://{git} with path: apps/web"
            )
        );
        assert_eq!(local_hint(&place.path().join("elsewhere")), None);
        let auth = SourceError::new(Reason::AuthFailed, "no");
        let path = root.display().to_string();
        assert_eq!(with_local_hint(auth, &path).to_string(), "no");
    }
}
