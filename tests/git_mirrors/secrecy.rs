//! No secret leaves: canaries in every place that holds one, and a look at every output.

use std::{
    io,
    sync::{Arc, Mutex, OnceLock},
};

use base64::Engine;
use helm_operator::gitsync::GitSource;
use testkit::{Fault, GitOptions};

use crate::{
    ssh::{self, Sshd},
    support::{Rig, url},
};

/// Everything that was logged by this process, at trace level.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn log() -> &'static Log {
    static LOG: OnceLock<Log> = OnceLock::new();
    LOG.get_or_init(|| {
        let log = Log::default();
        let writer = log.clone();
        tracing_subscriber::fmt()
            .with_max_level(tracing::Level::TRACE)
            .with_writer(move || writer.clone())
            .init();
        log
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn s30_no_canary_is_in_any_output_of_a_mirror() {
    let log = log();
    let password = "canary-password-1f7c";
    let token = "canary-token-88ab";
    let inline = "canary-inline-03de";
    let key = "canary-key-77aa";
    let mut outputs = Vec::new();
    for fault in [
        None,
        Some(Fault::Status(401, None)),
        Some(Fault::Status(403, None)),
        Some(Fault::Status(404, None)),
        Some(Fault::Status(500, None)),
        Some(Fault::Cut),
        Some(Fault::CutBody(20)),
        Some(Fault::Redirect(302, "http://169.254.169.254".into())),
        Some(Fault::Reply(b"canary".to_vec())),
    ] {
        let git = GitOptions {
            credentials: Some(("alice".into(), password.into())),
            ..GitOptions::default()
        };
        let mut rig = Rig::with(git, |_| {});
        rig.write_chart("app", "one");
        rig.repository.commit("first").unwrap();
        if let Some(fault) = fault {
            rig.server.traffic().fault(fault);
        }
        let plain = rig.source("app");
        let mut sources = [(); 5].map(|()| plain.clone());
        sources[0].secret = Some(
            rig.secrets
                .set("basic", &[("username", "alice"), ("password", password)]),
        );
        sources[1].secret = Some(rig.secrets.set("token", &[("bearerToken", token)]));
        sources[2].url = url(&rig
            .repository
            .url()
            .replace("http://", &format!("http://alice:{inline}@")));
        sources[3].secret = Some(
            rig.secrets
                .set("key", &[("identity", key), ("known_hosts", key)]),
        );
        sources[3].url = url("ssh://git@127.0.0.1:1/x");
        sources[4].secret = Some(rig.secrets.set(
            "tls",
            &[("caFile", key), ("tls.crt", key), ("tls.key", key)],
        ));
        for (index, source) in sources.iter().enumerate() {
            let result = rig.use_chart(&format!("r{index}"), source).await;
            let result = result.map(|artifact| artifact.revision);
            outputs.push(format!("{result:?} {source:?} {:?}", rig.secrets));
            if let Err(error) = result {
                outputs.push(error.to_string());
            }
        }
        outputs.push(format!("{:?}", rig.mirrors.states()));
        outputs.push(format!(
            "{:?} {:?} {:?}",
            rig.drain(),
            rig.mirrors,
            rig.options
        ));
        let names = walk(&rig.cache_dir());
        outputs.push(names);
    }
    assert_hidden(&[password, token, inline, key], outputs, log);
}

#[tokio::test(flavor = "multi_thread")]
async fn s30_no_canary_of_ssh_tls_submodules_or_large_files_is_in_any_output() {
    let log = log();
    let password = "canary-password-5c2b";
    let module = "canary-module-9e41";
    let lfs = "canary-lfs-27d0";
    let rig = Rig::with_chart(GitOptions {
        tls: true,
        credentials: Some(("alice".into(), password.into())),
        ..GitOptions::default()
    });
    let repository = &rig.repository;
    let text = format!("[lfs]\n\turl = https://alice:{lfs}@127.0.0.1:1/x\n");
    repository.write(".lfsconfig", text).unwrap();
    let pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 12\n";
    repository.write("large/Chart.yaml", pointer).unwrap();
    // On another host: on the same one the Secret of the release would be used.
    let inner = repository.url().replace("127.0.0.1", "localhost");
    let inner = inner.replace("https://", &format!("https://alice:{module}@"));
    let head = repository.head().unwrap();
    repository
        .commit_submodule("outer/inner", &inner, &head)
        .unwrap();
    let authority = rig.server.certificate_authority().unwrap().to_owned();
    let login = [
        ("username", "alice"),
        ("password", password),
        ("caFile", &authority),
    ];
    let mut sources = ["app", "large", "outer"]
        .map(|path| rig.source(path))
        .to_vec();
    for source in &mut sources {
        source.secret = Some(rig.secrets.set("login", &login));
        source.submodules = true;
    }
    let mut keys = Vec::new();
    if let Some(server) = Sshd::start(&["ed25519"], "").await {
        let client = ssh::key(server.path(), "client", "ed25519");
        let stranger = ssh::key(server.path(), "stranger", "ed25519");
        server.allow(&[&client]);
        let known = server.known("ed25519");
        let other = known.replace("ssh-ed25519 AAAA", "ssh-ed25519 AAAB");
        for (name, key, known) in [
            ("right", &client, &known),
            ("stranger", &stranger, &known),
            ("changed", &client, &other),
        ] {
            let mut source = rig.source("app");
            source.url = url(&server.url(&rig));
            let key = ssh::private(key);
            let entries = [("identity", key.as_str()), ("known_hosts", known)];
            source.secret = Some(rig.secrets.set(name, &entries));
            sources.push(source);
            // Its lines but the first, which all keys share, and the short last one.
            let lines = key.lines().filter(|line| line.len() > 60).skip(1);
            keys.extend(lines.map(str::to_owned));
        }
        let results = use_all(&rig, &sources).await;
        let ends: Vec<_> = results.iter().map(|(result, _)| result.is_ok()).collect();
        assert_eq!(
            ends,
            [true, false, false, true, false, false],
            "{results:?}"
        );
    }
    let results = use_all(&rig, &sources).await;
    let mut outputs: Vec<String> = results.into_iter().map(|(_, text)| text).collect();
    outputs.push(format!("{:?} {:?}", rig.mirrors.states(), rig.options));
    outputs.push(walk(&rig.cache_dir()));
    let mut secrets = vec![password, module, lfs];
    secrets.extend(keys.iter().map(String::as_str));
    assert_hidden(&secrets, outputs, log);
}

/// Reads the chart of each source; what came of it, and all that is said of it.
async fn use_all(rig: &Rig, sources: &[GitSource]) -> Vec<(Result<String, String>, String)> {
    let mut results = Vec::new();
    for (index, source) in sources.iter().enumerate() {
        let result = rig.use_chart(&format!("r{index}"), source).await;
        let result = result.map(|artifact| artifact.revision);
        let text = format!("{result:?} {source:?} {:?}", rig.secrets);
        results.push((result.map_err(|error| error.to_string()), text));
    }
    results
}

/// Looks for each secret, as it is and in base64, in the outputs and in the log.
fn assert_hidden(secrets: &[&str], mut outputs: Vec<String>, log: &Log) {
    outputs.push(String::from_utf8_lossy(&log.0.lock().unwrap()).into_owned());
    assert!(outputs.last().unwrap().contains("TRACE"), "the log was on");
    let encode = |text: &str| base64::engine::general_purpose::STANDARD.encode(text);
    for secret in secrets {
        let (plain, login) = (encode(secret), encode(&format!("alice:{secret}")));
        // Whole words of base64, as the ends depend on what stands beside them.
        for shape in [*secret, &plain[..12], &login[..16]] {
            for output in &outputs {
                if let Some(at) = output.find(shape) {
                    let from = at.saturating_sub(200);
                    let around = output.get(from..at + 80).unwrap_or(output);
                    panic!("{shape} is in …{around}");
                }
            }
        }
    }
}

/// Names and contents of every file below `directory`, but for the objects.
fn walk(directory: &std::path::Path) -> String {
    let mut text = String::new();
    for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
        let path = entry.path();
        text.push_str(&path.to_string_lossy());
        if path.is_dir() {
            text.push_str(&walk(&path));
        } else {
            text.push_str(&String::from_utf8_lossy(
                &std::fs::read(&path).unwrap_or_default(),
            ));
        }
    }
    text
}
