//! No secret leaves: canaries in every place that holds one, and a look at every output.

use std::{
    io,
    sync::{Arc, Mutex, OnceLock},
};

use base64::Engine;
use testkit::{Fault, GitOptions};

use crate::support::{Rig, url};

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
    outputs.push(String::from_utf8_lossy(&log.0.lock().unwrap()).into_owned());
    assert!(outputs.last().unwrap().contains("TRACE"), "the log was on");
    for secret in [password, token, inline, key] {
        let encoded = base64::engine::general_purpose::STANDARD.encode(secret);
        let with_user = base64::engine::general_purpose::STANDARD.encode(format!("alice:{secret}"));
        // Whole words of base64, as the ends depend on what stands beside them.
        for shape in [
            secret,
            encoded.trim_end_matches('=').split_at(12).0,
            with_user.split_at(16).0,
        ] {
            for output in &outputs {
                if let Some(at) = output.find(shape) {
                    let from = at.saturating_sub(200);
                    panic!(
                        "{shape} is in …{}",
                        &output.get(from..at + 80).unwrap_or(output)
                    );
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
