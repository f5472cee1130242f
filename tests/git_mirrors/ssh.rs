//! An OpenSSH server, run by this user with keys of its own.

use std::{
    fs,
    net::TcpStream,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

use helm_operator::gitsync::{GitSource, Reason};
use testkit::GitOptions;

use crate::support::{Rig, eventually, moved, text, url};

const SSHD: &str = "/usr/sbin/sshd";

/// A running server; it ends with this value.
pub(crate) struct Sshd {
    child: Child,
    port: u16,
    directory: tempfile::TempDir,
}

impl Drop for Sshd {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn run(command: &mut Command) -> String {
    let output = command.output().unwrap();
    assert!(
        output.status.success(),
        "{command:?}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

/// Makes a key pair and returns the path of the private one.
pub(crate) fn key(directory: &Path, name: &str, kind: &str) -> PathBuf {
    let path = directory.join(name);
    run(Command::new("ssh-keygen")
        .args(["-q", "-N", "", "-t", kind, "-f"])
        .arg(&path));
    path
}

fn public(key: &Path) -> String {
    fs::read_to_string(key.with_extension("pub"))
        .unwrap()
        .trim()
        .to_owned()
}

pub(crate) fn private(key: &Path) -> String {
    fs::read_to_string(key).unwrap()
}

impl Sshd {
    /// A server with a host key of each of `kinds`, which lets in whoever has one of `clients`. `None` where there is
    /// no sshd.
    pub(crate) async fn start(kinds: &[&str], extra: &str) -> Option<Self> {
        if !Path::new(SSHD).exists() {
            eprintln!("skipped: {SSHD} is missing; install openssh-server");
            return None;
        }
        if run(Command::new("id").arg("-u")) == "0" {
            // What its package makes at boot; sshd insists on it when it is run by root.
            fs::create_dir_all("/run/sshd").unwrap();
        }
        let directory = tempfile::tempdir().unwrap();
        let [port] = testkit::free_ports().unwrap();
        let mut config = format!(
            "ListenAddress 127.0.0.1\nPort {port}\nPidFile none\nUsePAM no\nStrictModes no\nAcceptEnv GIT_PROTOCOL\n\
             AuthorizedKeysFile {}\nPasswordAuthentication no\nPermitRootLogin prohibit-password\n{extra}\n",
            directory.path().join("authorized_keys").display()
        );
        for kind in kinds {
            let host_key = key(directory.path(), &format!("host-{kind}"), kind);
            config.extend(["HostKey ", host_key.to_str().unwrap(), "\n"]);
        }
        fs::write(directory.path().join("config"), config).unwrap();
        fs::write(directory.path().join("authorized_keys"), "").unwrap();
        let child = Self::spawn(directory.path());
        let server = Self {
            child,
            port,
            directory,
        };
        server.wait().await;
        Some(server)
    }

    fn spawn(directory: &Path) -> Child {
        let log = fs::File::create(directory.join("log")).unwrap();
        Command::new(SSHD)
            .args(["-D", "-e", "-f"])
            .arg(directory.join("config"))
            .stdin(Stdio::null())
            .stderr(log)
            .spawn()
            .unwrap()
    }

    async fn wait(&self) {
        eventually(|| TcpStream::connect(("127.0.0.1", self.port)).ok()).await;
    }

    pub(crate) fn allow(&self, keys: &[&Path]) {
        let text: String = keys.iter().map(|key| public(key) + "\n").collect();
        fs::write(self.directory.path().join("authorized_keys"), text).unwrap();
    }

    pub(crate) fn path(&self) -> &Path {
        self.directory.path()
    }

    /// The line of `known_hosts` for the host key of this kind.
    pub(crate) fn known(&self, kind: &str) -> String {
        let public = public(&self.path().join(format!("host-{kind}")));
        format!("[127.0.0.1]:{} {public}\n", self.port)
    }

    pub(crate) fn url(&self, rig: &Rig) -> String {
        let user = run(Command::new("id").arg("-un"));
        format!(
            "ssh://{user}@127.0.0.1:{}{}",
            self.port,
            rig.repository.bare().display()
        )
    }
}

/// A rig with a chart, and its source through `server` with a Secret of these entries.
fn source(rig: &Rig, server: &Sshd, name: &str, entries: &[(&str, &str)]) -> GitSource {
    let mut source = rig.source("app");
    source.url = url(&server.url(rig));
    source.secret = Some(rig.secrets.set(name, entries));
    source
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_and_known_hosts_of_a_secret_open_the_way() {
    let Some(server) = Sshd::start(&["ed25519"], "").await else {
        return;
    };
    let mut rig = Rig::with_chart(GitOptions::default());
    let client = key(server.path(), "client", "ed25519");
    server.allow(&[&client]);
    let entries = [
        ("identity", private(&client)),
        ("known_hosts", server.known("ed25519")),
    ];
    let entries = entries
        .each_ref()
        .map(|(key, value)| (*key, value.as_str()));
    let source = source(&rig, &server, "git", &entries);
    let artifact = rig.use_chart("app", &source).await.unwrap();
    assert_eq!(text(&artifact, "values.yaml"), "greeting: one\n");
    let connections = rig.mirrors.states()[0].requests;
    rig.write_chart("app", "two");
    rig.repository.commit("second").unwrap();
    assert_eq!(moved(&rig.poll().await), ["app"]);
    assert_eq!(
        rig.mirrors.states()[0].requests,
        connections + 1,
        "list and fetch share a connection"
    );
    for place in ["/dev/shm".into(), rig.cache_dir()] {
        let left = fs::read_dir::<PathBuf>(place).unwrap().filter(|entry| {
            entry
                .as_ref()
                .unwrap()
                .file_name()
                .to_string_lossy()
                .starts_with("helm-operator-ssh")
        });
        // Other tests of this process may hold one of theirs just now; ours is gone with its connection.
        assert!(left.count() <= 8);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn s16_host_keys_that_are_not_known_are_refused() {
    let Some(server) = Sshd::start(&["ed25519"], "").await else {
        return;
    };
    let rig = Rig::with_chart(GitOptions::default());
    let client = key(server.path(), "client", "ed25519");
    let stranger = key(server.path(), "stranger", "ed25519");
    server.allow(&[&client]);
    let wrong = format!("[127.0.0.1]:{} {}\n", server.port, public(&stranger));
    let other_host = server
        .known("ed25519")
        .replace("127.0.0.1", "git.example.com");
    for (what, known, fingerprint) in [
        ("none", "", false),
        ("wrong", wrong.as_str(), true),
        ("of another host", &other_host, false),
    ] {
        let entries = [
            ("identity", private(&client)),
            ("known_hosts", known.to_owned()),
        ];
        let entries = entries
            .each_ref()
            .map(|(key, value)| (*key, value.as_str()));
        let error = rig
            .mirrors
            .artifact(&source(&rig, &server, what, &entries))
            .await
            .unwrap_err();
        assert_eq!(error.reason(), Reason::HostKeyMismatch, "{what}: {error}");
        assert!(error.to_string().contains("known_hosts"), "{what}: {error}");
        if fingerprint {
            let line = run(Command::new("ssh-keygen")
                .arg("-lf")
                .arg(server.path().join("host-ed25519.pub")));
            let offered = line.split(' ').nth(1).unwrap();
            assert!(error.to_string().contains(offered), "{error}");
            assert!(error.to_string().contains("known_hosts:1"), "{error}");
        }
        assert!(!error.to_string().contains("helm-operator-ssh"), "{error}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn only_host_keys_with_an_entry_are_asked_for() {
    let Some(server) = Sshd::start(&["ed25519", "ecdsa", "rsa"], "").await else {
        return;
    };
    let rig = Rig::with_chart(GitOptions::default());
    let client = key(server.path(), "client", "ed25519");
    server.allow(&[&client]);
    for kind in ["rsa", "ecdsa", "ed25519"] {
        let entries = [
            ("identity", private(&client)),
            ("known_hosts", server.known(kind)),
        ];
        let entries = entries
            .each_ref()
            .map(|(key, value)| (*key, value.as_str()));
        let found = rig
            .mirrors
            .artifact(&source(&rig, &server, kind, &entries))
            .await;
        assert!(found.is_ok(), "{kind}: {found:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn hashed_hosts_and_authorities_are_understood() {
    let Some(server) = Sshd::start(&["ed25519"], "").await else {
        return;
    };
    let rig = Rig::with_chart(GitOptions::default());
    let client = key(server.path(), "client", "ed25519");
    server.allow(&[&client]);
    let hashed = server.path().join("hashed");
    fs::write(&hashed, server.known("ed25519")).unwrap();
    run(Command::new("ssh-keygen")
        .args(["-q", "-H", "-f"])
        .arg(&hashed));
    let hashed = fs::read_to_string(hashed).unwrap();
    assert!(hashed.starts_with("|1|"), "{hashed}");
    let entries = [("identity", private(&client)), ("known_hosts", hashed)];
    let entries = entries
        .each_ref()
        .map(|(key, value)| (*key, value.as_str()));
    rig.mirrors
        .artifact(&source(&rig, &server, "hashed", &entries))
        .await
        .unwrap();

    let authority = key(server.path(), "authority", "ed25519");
    run(Command::new("ssh-keygen")
        .args(["-q", "-h", "-I", "host", "-n", "127.0.0.1", "-s"])
        .arg(&authority)
        .arg(server.path().join("host-ed25519.pub")));
    let config = server.path().join("config");
    let with_certificate = fs::read_to_string(&config).unwrap()
        + &format!(
            "HostCertificate {}\n",
            server.path().join("host-ed25519-cert.pub").display()
        );
    let [port] = testkit::free_ports().unwrap();
    let with_certificate =
        with_certificate.replace(&format!("Port {}", server.port), &format!("Port {port}"));
    fs::write(config, with_certificate).unwrap();
    let mut second = Sshd {
        child: Sshd::spawn(server.path()),
        port,
        directory: tempfile::tempdir().unwrap(),
    };
    second.wait().await;
    let known = format!(
        "@cert-authority [127.0.0.1]:{port} {}\n",
        public(&authority)
    );
    let entries = [("identity", private(&client)), ("known_hosts", known)];
    let entries = entries
        .each_ref()
        .map(|(key, value)| (*key, value.as_str()));
    let found = rig
        .mirrors
        .artifact(&source(&rig, &second, "authority", &entries))
        .await;
    assert!(found.is_ok(), "{found:?}");
    second.child.kill().unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn several_keys_are_tried_and_wrong_ones_are_told() {
    let Some(server) = Sshd::start(&["ed25519"], "").await else {
        return;
    };
    let rig = Rig::with_chart(GitOptions::default());
    let kinds = ["ed25519", "ecdsa", "rsa"];
    let clients: Vec<_> = kinds
        .iter()
        .map(|kind| key(server.path(), &format!("client-{kind}"), kind))
        .collect();
    let known = server.known("ed25519");
    let keys: Vec<String> = clients.iter().map(|key| private(key)).collect();
    for right in &clients {
        server.allow(&[right]);
        let name = right.file_name().unwrap().to_str().unwrap();
        let entries = [
            ("identity", keys[0].as_str()),
            ("identity-2", keys[1].as_str()),
            // Without its last line break, as it is often pasted.
            ("identity-3", keys[2].trim_end()),
            ("known_hosts", known.as_str()),
        ];
        rig.mirrors
            .artifact(&source(&rig, &server, name, &entries))
            .await
            .unwrap();
    }
    server.allow(&[]);
    let entries = [
        ("identity", keys[0].as_str()),
        ("known_hosts", known.as_str()),
    ];
    let error = rig
        .mirrors
        .artifact(&source(&rig, &server, "refused", &entries))
        .await
        .unwrap_err();
    assert_eq!(error.reason(), Reason::AuthFailed, "{error}");
    let entries = [
        ("identity", "canary is no key"),
        ("known_hosts", known.as_str()),
    ];
    let error = rig
        .mirrors
        .artifact(&source(&rig, &server, "garbage", &entries))
        .await
        .unwrap_err();
    assert_eq!(error.reason(), Reason::AuthFailed, "{error}");
    assert!(!error.to_string().contains("canary"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_missing_behind_ssh_is_told_apart() {
    let Some(server) = Sshd::start(&["ed25519"], "").await else {
        return;
    };
    let rig = Rig::with_chart(GitOptions::default());
    let client = key(server.path(), "client", "ed25519");
    server.allow(&[&client]);
    let entries = [
        ("identity", private(&client)),
        ("known_hosts", server.known("ed25519")),
    ];
    let entries = entries
        .each_ref()
        .map(|(key, value)| (*key, value.as_str()));
    let honest = source(&rig, &server, "git", &entries);
    let mut gone = honest.clone();
    gone.url = url(&server.url(&rig).replace("charts.git", "absent.git"));
    let error = rig.mirrors.artifact(&gone).await.unwrap_err();
    assert_eq!(error.reason(), Reason::RepositoryNotFound, "{error}");
    let mut refused = honest.clone();
    let [free] = testkit::free_ports().unwrap();
    refused.url = url(&server
        .url(&rig)
        .replace(&format!(":{}", server.port), &format!(":{free}")));
    let error = rig.mirrors.artifact(&refused).await.unwrap_err();
    assert_eq!(error.reason(), Reason::Unreachable, "{error}");
    let error = rig
        .mirrors
        .artifact(&honest.clone().at("absent"))
        .await
        .unwrap_err();
    assert_eq!(error.reason(), Reason::RefNotFound, "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_without_the_protocol_variable_speaks_version_0() {
    let Some(server) = Sshd::start(&["ed25519"], "").await else {
        return;
    };
    let config = server.path().join("config");
    let mut rig = Rig::with_chart(GitOptions::default());
    let client = key(server.path(), "client", "ed25519");
    server.allow(&[&client]);
    let text_of = fs::read_to_string(&config).unwrap();
    let [port] = testkit::free_ports().unwrap();
    let old = text_of
        .replace("AcceptEnv GIT_PROTOCOL\n", "")
        .replace(&format!("Port {}", server.port), &format!("Port {port}"));
    fs::write(&config, old).unwrap();
    let mut second = Sshd {
        child: Sshd::spawn(server.path()),
        port,
        directory: tempfile::tempdir().unwrap(),
    };
    second.wait().await;
    let known = server
        .known("ed25519")
        .replace(&server.port.to_string(), &port.to_string());
    let entries = [("identity", private(&client)), ("known_hosts", known)];
    let entries = entries
        .each_ref()
        .map(|(key, value)| (*key, value.as_str()));
    let source = source(&rig, &second, "git", &entries).at("main");
    rig.use_chart("app", &source).await.unwrap();
    rig.write_chart("app", "two");
    rig.repository.commit("second").unwrap();
    assert_eq!(moved(&rig.poll().await), ["app"]);
    assert_eq!(
        text(&rig.mirrors.artifact(&source).await.unwrap(), "values.yaml"),
        "greeting: two\n"
    );
    second.child.kill().unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn daemon_wide_keys_serve_sources_without_a_secret_and_are_read_again() {
    let Some(server) = Sshd::start(&["ed25519"], "").await else {
        return;
    };
    let keys = tempfile::tempdir().unwrap();
    let path = keys.path().to_owned();
    let rig = Rig::with(testkit::GitOptions::default(), |options| {
        options.daemon_credentials.ssh_identities = vec![path.join("identity")];
        options.daemon_credentials.known_hosts = vec![path.join("known_hosts")];
    });
    rig.write_chart("app", "one");
    rig.repository.commit("first").unwrap();
    let client = key(server.path(), "client", "ed25519");
    server.allow(&[&client]);
    let mut source = rig.source("app");
    source.url = url(&server.url(&rig));
    let error = rig.use_chart("app", &source).await.unwrap_err();
    assert_eq!(error.reason(), Reason::HostKeyMismatch, "{error}");
    fs::write(keys.path().join("known_hosts"), server.known("ed25519")).unwrap();
    fs::write(keys.path().join("identity"), private(&client)).unwrap();
    // Nobody asks: the change of the files does.
    eventually(|| {
        let states = rig.mirrors.states();
        (states[0].state == helm_operator::gitsync::MirrorState::Ready).then_some(())
    })
    .await;
    assert!(rig.mirrors.artifact(&source).await.is_ok());
}
