//! The `ssh` program: its arguments, its files, and what it means by what it says.

use std::{
    io::Write,
    os::unix::fs::{DirBuilderExt, OpenOptionsExt},
    path::{Path, PathBuf},
};

use tokio::process::Command;

use super::{address::check_address, process};
use crate::gitsync::{Options, Reason, RepositoryUrl, SourceError, credentials::Credentials};

/// Where keys are put for the time of one connection: in memory if there is such a place.
const MEMORY_DIR: &str = "/dev/shm";

/// The keys and host keys of one connection, in a directory of their own that goes when this is dropped.
#[derive(Debug)]
pub(crate) struct SshFiles {
    directory: tempfile::TempDir,
    identities: Vec<PathBuf>,
    known_hosts: PathBuf,
}

impl SshFiles {
    /// Writes what `credentials` hold, readable by this user only.
    ///
    /// # Errors
    /// `StorageFailed` when no directory can be written.
    pub(crate) fn write(credentials: &Credentials, options: &Options) -> Result<Self, SourceError> {
        let directory = private_directory(options).map_err(|error| {
            SourceError::new(
                Reason::StorageFailed,
                format!("no place for the ssh keys of a connection: {error}"),
            )
        })?;
        let write = |name: &str, bytes: &[u8]| {
            let path = directory.path().join(name);
            write_private(&path, bytes).map(|()| path).map_err(|error| {
                SourceError::new(Reason::StorageFailed, format!("writing ssh files: {error}"))
            })
        };
        let known_hosts = write("known_hosts", &credentials.known_hosts)?;
        let identities = credentials
            .identities
            .iter()
            .enumerate()
            .map(|(index, key)| write(&format!("identity-{index}"), key))
            .collect::<Result<_, _>>()?;
        Ok(Self {
            directory,
            identities,
            known_hosts,
        })
    }
}

fn private_directory(options: &Options) -> std::io::Result<tempfile::TempDir> {
    let mut builder = tempfile::Builder::new();
    builder.prefix("helm-operator-ssh-");
    builder.tempdir_in(MEMORY_DIR).or_else(|_| {
        let fallback = options.cache_dir.join("run");
        std::fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&fallback)?;
        builder.tempdir_in(fallback)
    })
}

fn write_private(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    let mut file = std::fs::OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path)?;
    file.write_all(bytes)?;
    // A key without its last line break is refused by ssh as a broken one.
    if bytes.last().is_some_and(|last| *last != b'\n') {
        file.write_all(b"\n")?;
    }
    Ok(())
}

/// Checks the addresses of the host, as far as it is a name that this machine resolves (and no alias of an
/// `ssh_config`).
///
/// # Errors
/// `InvalidSource` for an address that no remote may have.
pub(crate) async fn check_host(url: &RepositoryUrl, options: &Options) -> Result<(), SourceError> {
    let port = url.port().unwrap_or(22);
    let lookup = tokio::net::lookup_host((url.host(), port));
    let Ok(Ok(addresses)) = tokio::time::timeout(options.timeout, lookup).await else {
        return Ok(());
    };
    for address in addresses {
        check_address(address.ip(), options.policy.allow_local)?;
    }
    Ok(())
}

/// `ssh` for one `git-upload-pack` of `url`.
pub(crate) fn command(url: &RepositoryUrl, files: &SshFiles, options: &Options) -> Command {
    let mut command = process::command("ssh");
    command.env("HOME", files.directory.path());
    let config = options
        .daemon_credentials
        .ssh_config
        .as_deref()
        .filter(|path| path.is_file());
    command.arg("-F").arg(config.unwrap_or(Path::new("none")));
    let known_hosts = format!("UserKnownHostsFile={}", files.known_hosts.display());
    let seconds = options.timeout.as_secs().max(1);
    for option in [
        "BatchMode=yes",
        "StrictHostKeyChecking=yes",
        "GlobalKnownHostsFile=/dev/null",
        "UpdateHostKeys=no",
        "PasswordAuthentication=no",
        "KbdInteractiveAuthentication=no",
        "ForwardAgent=no",
        "ForwardX11=no",
        "ClearAllForwardings=yes",
        "PermitLocalCommand=no",
        "ControlPath=none",
        "SendEnv=GIT_PROTOCOL",
        "LogLevel=INFO",
        &known_hosts,
        &format!("ConnectTimeout={seconds}"),
        &format!("ServerAliveInterval={seconds}"),
        "ServerAliveCountMax=1",
    ] {
        command.arg("-o").arg(option);
    }
    if !files.identities.is_empty() {
        command.args(["-o", "IdentitiesOnly=yes"]);
    }
    for identity in &files.identities {
        command.arg("-i").arg(identity);
    }
    if let Some(port) = url.port() {
        command.arg("-p").arg(port.to_string());
    }
    if let Some(user) = url.expose_user() {
        command.arg("-l").arg(user);
    }
    command
        .arg("--")
        .arg(url.host())
        .arg(format!("git-upload-pack {}", quoted(url.path())));
    command
}

/// `path` for the shell of the server, in the way that git writes it and restricted shells expect it.
fn quoted(path: &str) -> String {
    let path = path
        .strip_prefix("/~")
        .map_or_else(|| path.to_owned(), |rest| format!("~{rest}"));
    format!("'{}'", path.replace('\'', r"'\''").replace('!', r"'\!'"))
}

/// What ssh or the remote command says is wrong, in its class.
pub(crate) fn explain(said: &str) -> SourceError {
    let lower = said.to_ascii_lowercase();
    let has = |texts: &[&str]| texts.iter().any(|text| lower.contains(text));
    let host_key = [
        "host key verification failed",
        "remote host identification has changed",
        "host key is known for",
        "no matching host key type",
    ];
    let auth = [
        "permission denied",
        "too many authentication failures",
        "error in libcrypto",
        "invalid format",
        "no supported authentication",
        "load key",
    ];
    let missing = [
        "not found",
        "does not exist",
        "does not appear to be a git",
        "not a git repo",
    ];
    let reason = if has(&host_key) {
        Reason::HostKeyMismatch
    } else if has(&auth) {
        Reason::AuthFailed
    } else if has(&["timed out", "timeout, server"]) {
        Reason::Timeout
    } else if has(&missing) {
        Reason::RepositoryNotFound
    } else {
        Reason::Unreachable
    };
    SourceError::new(reason, summary(said, reason))
}

/// The lines of `said` that tell the cause, without the banners and the paths of our own files.
fn summary(said: &str, reason: Reason) -> String {
    let mut lines: Vec<&str> = said
        .lines()
        .map(str::trim)
        // Some of its lines begin with what ours begins with.
        .map(|line| line.strip_prefix("ssh: ").unwrap_or(line))
        .filter(|line| !line.is_empty() && !line.starts_with('@') && !line.starts_with("Warning:"))
        .collect();
    if reason == Reason::HostKeyMismatch {
        lines.retain(|line| {
            [
                "fingerprint",
                "SHA256:",
                "Offending",
                "is known for",
                "verification",
                "matching",
            ]
            .iter()
            .any(|word| line.contains(word))
        });
    }
    let text = lines.join("; ");
    let hint = match reason {
        Reason::HostKeyMismatch => {
            "; compare the key with the host's, then put it in `known_hosts` of the Secret or of the daemon"
        }
        Reason::AuthFailed => {
            "; put a private key that the host accepts in `identity` of the Secret"
        }
        _ => "",
    };
    let cut: String = text.chars().take(600).collect();
    format!("ssh: {}{hint}", hide_our_paths(&cut))
}

/// `/dev/shm/helm-operator-ssh-Xy/known_hosts:3` → `known_hosts:3`: the directory says nothing to a reader.
fn hide_our_paths(text: &str) -> String {
    let words = text
        .split(' ')
        .map(|word| match word.find("helm-operator-ssh-") {
            Some(at) => word
                .get(at..)
                .and_then(|tail| tail.split_once('/'))
                .map_or(word, |(_, file)| file),
            None => word,
        });
    words.collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_ssh_says_has_its_class() {
        for (said, reason) in [
            (
                "No ED25519 host key is known for h and you have requested strict checking.\nHost key verification failed.",
                Reason::HostKeyMismatch,
            ),
            (
                "@@@@\n@ WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED! @\nThe fingerprint for the ED25519 key sent by the remote host is\nSHA256:abc.\nOffending ED25519 key in /dev/shm/helm-operator-ssh-X/known_hosts:1",
                Reason::HostKeyMismatch,
            ),
            ("git@h: Permission denied (publickey).", Reason::AuthFailed),
            (
                "Load key \"/dev/shm/helm-operator-ssh-X/identity-0\": invalid format\ngit@h: Permission denied (publickey).",
                Reason::AuthFailed,
            ),
            (
                "ssh: connect to host h port 22: Connection refused",
                Reason::Unreachable,
            ),
            (
                "ssh: connect to host h port 22: Connection timed out",
                Reason::Timeout,
            ),
            (
                "ssh: Could not resolve hostname h: Name or service not known",
                Reason::Unreachable,
            ),
            (
                "ERROR: Repository not found.\nfatal: Could not read from remote repository.",
                Reason::RepositoryNotFound,
            ),
            (
                "fatal: '/x' does not appear to be a git repository",
                Reason::RepositoryNotFound,
            ),
        ] {
            let error = explain(said);
            assert_eq!(error.reason(), reason, "{said}");
            assert!(!error.to_string().contains("/dev/shm"), "{error}");
            assert!(!error.to_string().contains("ssh: ssh:"), "{error}");
        }
    }

    #[test]
    fn a_changed_host_key_is_told_with_its_fingerprint_and_the_line_that_differs() {
        let error = explain(
            "@    WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED!     @\nIT IS POSSIBLE THAT SOMEONE IS DOING SOMETHING NASTY!\nThe fingerprint for the ED25519 key sent by the remote host is\nSHA256:abcdef.\nOffending ED25519 key in /dev/shm/helm-operator-ssh-X/known_hosts:3\nHost key verification failed.",
        );
        let text = error.to_string();
        assert!(
            text.contains("SHA256:abcdef") && text.contains("known_hosts:3"),
            "{text}"
        );
        assert!(!text.contains("NASTY"), "{text}");
    }

    #[test]
    fn s08_a_path_cannot_leave_its_quotes() {
        assert_eq!(quoted("/a'; rm -rf /'"), r"'/a'\''; rm -rf /'\'''");
        assert_eq!(quoted("/a!b"), r"'/a'\!'b'");
        assert_eq!(quoted("/~alice/repo"), "'~alice/repo'");
    }

    #[test]
    fn the_host_comes_after_the_end_of_options() {
        let options = Options::new("/nonexistent");
        let files = SshFiles::write(&Credentials::default(), &options).unwrap();
        let url = RepositoryUrl::parse("ssh://git@git.example.com:2222/team/app.git").unwrap();
        let command = command(&url, &files, &options);
        let arguments: Vec<_> = command
            .as_std()
            .get_args()
            .map(|a| a.to_string_lossy().into_owned())
            .collect();
        let end = arguments.iter().position(|a| a == "--").unwrap();
        assert_eq!(
            arguments[end + 1..],
            ["git.example.com", "git-upload-pack '/team/app.git'"]
        );
        assert!(arguments.windows(2).any(|pair| pair == ["-p", "2222"]));
        assert!(arguments.windows(2).any(|pair| pair == ["-l", "git"]));
    }
}
