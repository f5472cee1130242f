//! Answers of a git server: packet lines and packs, recorded from a real one and changed.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use helm_operator::gitsync::{GitSource, Mirrors, Options, RepositoryUrl, Schedule, StaticSecrets};
use testkit::{GitOptions, GitServer, ScratchDir};

use crate::{behaviour, fuzz};

/// Separates the three answers of one exchange in an input.
const MARK: &[u8] = b"\n===\x1e===\n";

/// Serves three recorded answers: to the greeting, to `ls-refs`, and to `fetch`.
struct Replay {
    port: u16,
    answers: Arc<Mutex<Vec<Vec<u8>>>>,
}

impl Replay {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let answers = Arc::new(Mutex::new(vec![Vec::new(); 3]));
        let shared = Arc::clone(&answers);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let answers = shared
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner)
                    .clone();
                // A client may hang up.
                let _ = answer(stream, &answers);
            }
        });
        Self { port, answers }
    }

    fn set(&self, text: &[u8]) {
        let mut parts = split(text);
        parts.resize(3, Vec::new());
        *self.answers.lock().unwrap() = parts;
    }
}

fn split(mut text: &[u8]) -> Vec<Vec<u8>> {
    let mut parts = Vec::new();
    while let Some(at) = text.windows(MARK.len()).position(|window| window == MARK) {
        parts.push(text[..at].to_vec());
        text = &text[at + MARK.len()..];
    }
    parts.push(text.to_vec());
    parts
}

fn answer(mut stream: TcpStream, answers: &[Vec<u8>]) -> std::io::Result<()> {
    stream.set_read_timeout(Some(Duration::from_secs(5)))?;
    let request = read_request(&mut stream)?;
    let (kind, body) = if request.starts_with(b"GET") {
        ("advertisement", &answers[0])
    } else if contains(&request, b"command=ls-refs") {
        ("result", &answers[1])
    } else {
        ("result", &answers[2])
    };
    let head = format!(
        "HTTP/1.1 200 OK\r\ncontent-type: application/x-git-upload-pack-{kind}\r\nconnection: close\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes())?;
    stream.write_all(body)
}

fn contains(text: &[u8], part: &[u8]) -> bool {
    text.windows(part.len()).any(|window| window == part)
}

fn read_request(stream: &mut TcpStream) -> std::io::Result<Vec<u8>> {
    let mut request = Vec::new();
    let mut chunk = [0; 4096];
    while !is_whole(&request) {
        let length = stream.read(&mut chunk)?;
        if length == 0 {
            break;
        }
        request.extend_from_slice(&chunk[..length]);
    }
    Ok(request)
}

fn is_whole(request: &[u8]) -> bool {
    let text = String::from_utf8_lossy(request).to_ascii_lowercase();
    let Some((head, _)) = text.split_once("\r\n\r\n") else {
        return false;
    };
    if head.contains("transfer-encoding: chunked") {
        return text.ends_with("0\r\n\r\n");
    }
    let length = head
        .lines()
        .find_map(|line| line.strip_prefix("content-length:"));
    let length = length.map_or(0, |text| text.trim().parse::<usize>().unwrap());
    let start = request
        .windows(4)
        .position(|window| window == b"\r\n\r\n")
        .unwrap();
    request.len() >= start + 4 + length
}

/// The answers of a real server with a chart in it.
fn record() -> Vec<u8> {
    let server = GitServer::start(GitOptions::default()).unwrap();
    let repository = server.repository("charts").unwrap();
    for at in 0..4 {
        let chart = format!("apiVersion: v2\nname: c\nversion: 0.{at}.0\n");
        repository.write("c/Chart.yaml", chart).unwrap();
        repository
            .write(
                "c/values.yaml",
                format!("a: {at}\n{}", "filler: x\n".repeat(50)),
            )
            .unwrap();
        repository.commit("a change").unwrap();
    }
    let url = repository.url();
    let greeting = exchange(&format!("{url}/info/refs?service=git-upload-pack"), None);
    let list = b"0014command=ls-refs\n0016object-format=sha100010009peel\n000csymrefs\n001bref-prefix refs/heads/\n0014ref-prefix HEAD\n0000";
    let refs = exchange(&format!("{url}/git-upload-pack"), Some(list));
    let commit = String::from_utf8_lossy(&refs[4..44]).into_owned();
    let want = format!(
        "0011command=fetch0016object-format=sha10001000eofs-delta\n0032want {commit}\n0009done\n0000"
    );
    let pack = exchange(&format!("{url}/git-upload-pack"), Some(want.as_bytes()));
    assert!(
        contains(&pack, b"PACK"),
        "{}",
        String::from_utf8_lossy(&pack)
    );
    [greeting, refs, pack].join(MARK)
}

/// One request, as git makes it; the body of the answer.
fn exchange(url: &str, body: Option<&[u8]>) -> Vec<u8> {
    let rest = url.strip_prefix("http://").unwrap();
    let (host, path) = rest.split_once('/').unwrap();
    let mut stream = TcpStream::connect(host).unwrap();
    let verb = if body.is_some() { "POST" } else { "GET" };
    let body = body.unwrap_or_default();
    let head = format!(
        "{verb} /{path} HTTP/1.0\r\nhost: {host}\r\ngit-protocol: version=2\r\ncontent-type: application/x-git-upload-pack-request\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes()).unwrap();
    stream.write_all(body).unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    let at = answer
        .windows(4)
        .position(|window| window == b"\r\n\r\n")
        .unwrap();
    answer.split_off(at + 4)
}

/// Makes the checksum at the end of a pack right, where the pack is in one piece, so that what was
/// changed in it is looked at.
fn mend_pack(text: &mut [u8]) {
    let Some(start) = text.windows(4).position(|window| window == b"PACK") else {
        return;
    };
    let header = start.checked_sub(5).and_then(|at| text.get(at..at + 4));
    let length = header
        .and_then(|header| std::str::from_utf8(header).ok())
        .and_then(|text| usize::from_str_radix(text, 16).ok());
    let Some(end) = length.map(|length| (start + length).saturating_sub(5)) else {
        return;
    };
    if end > text.len() || end < start + 32 {
        return;
    }
    let mut hasher = gix::hash::hasher(gix::hash::Kind::Sha1);
    hasher.update(&text[start..end - 20]);
    let sum = hasher.try_finalize().unwrap();
    text[end - 20..end].copy_from_slice(sum.as_slice());
}

#[test]
fn git_answers_are_charts_or_errors() {
    let replay = Replay::start();
    let scratch = ScratchDir::new("fuzz-git").unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap();
    let url = format!("http://127.0.0.1:{}/charts", replay.port);
    let pieces = &[
        "0000",
        "0001",
        "0002",
        "0003",
        "0004",
        "0005\u{1}",
        "ffff",
        "fff0\u{1}",
        "PACK",
        "version 2\n",
        "packfile\n",
        "0009\u{2}work",
        "0008\u{3}no!",
        "refs/heads/",
        "HEAD",
        "symref-target:",
        "../",
        "\u{0}",
        "shallow-info\n",
        "object-format=sha256\n",
        "1111111111111111111111111111111111111111",
        "ERR no\n",
        "x\u{9c}",
    ];
    let runs = AtomicU64::new(0);
    fuzz("git", vec![record()], pieces, |text| {
        let mut mended = text.to_vec();
        mend_pack(&mut mended);
        replay.set(&mended);
        let run = runs.fetch_add(1, Ordering::Relaxed);
        let cache = scratch.join(format!("cache-{run}"));
        let outcome = runtime.block_on(fetch(&url, &cache));
        // Its threads may still be cleaning up in there.
        let _ = std::fs::remove_dir_all(&cache);
        behaviour(&outcome)
    });
}

async fn fetch(url: &str, cache: &std::path::Path) -> Result<String, String> {
    let mut options = Options::new(cache);
    options.poll = Schedule::every(Duration::from_secs(3600)).unwrap();
    options.policy.allow_http = true;
    options.policy.allow_local = true;
    options.timeout = Duration::from_secs(2);
    options.limits.pack_bytes = 16 << 20;
    options.limits.object_bytes = 8 << 20;
    let mirrors = Mirrors::new(options, Arc::new(StaticSecrets::default())).unwrap();
    let source = GitSource::new(RepositoryUrl::parse(url).unwrap(), "c");
    let artifact = mirrors.artifact(&source).await;
    artifact
        .map(|artifact| artifact.revision)
        .map_err(|error| error.to_string())
}
