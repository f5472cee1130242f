//! A server that means harm.

use std::{sync::Arc, time::Duration};

use helm_operator::gitsync::{GitSource, Mirrors, Reason, SourceError, StaticSecrets};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpListener,
};

use crate::support::{options, url};

/// What follows the head of an answer.
#[derive(Clone)]
enum Tail {
    Nothing,
    /// These bytes, again and again.
    Forever(Vec<u8>),
    /// One byte after another, with a pause.
    Drip(Duration),
}

type Script = Arc<dyn Fn(&str) -> (Vec<u8>, Tail) + Send + Sync>;

/// A server that answers by the script, which sees the request; returns its port.
async fn server(script: Script) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let script = Arc::clone(&script);
            tokio::spawn(async move {
                let mut request = Vec::new();
                while !is_whole(&request) {
                    let mut chunk = [0; 4096];
                    let length = stream.read(&mut chunk).await.ok().filter(|l| *l > 0)?;
                    request.extend_from_slice(&chunk[..length]);
                }
                let (head, tail) = script(&String::from_utf8_lossy(&request));
                stream.write_all(&head).await.ok()?;
                match tail {
                    Tail::Nothing => {}
                    Tail::Forever(bytes) => while stream.write_all(&bytes).await.is_ok() {},
                    Tail::Drip(pause) => {
                        while stream.write_all(b"x").await.is_ok() {
                            tokio::time::sleep(pause).await;
                        }
                    }
                }
                stream.shutdown().await.ok()
            });
        }
    });
    port
}

fn is_whole(request: &[u8]) -> bool {
    let text = String::from_utf8_lossy(request);
    let Some((head, body)) = text.split_once("\r\n\r\n") else {
        return false;
    };
    let length = head.lines().find_map(|line| {
        line.to_ascii_lowercase()
            .strip_prefix("content-length:")
            .map(|v| v.trim().parse().unwrap())
    });
    body.len() >= length.unwrap_or(0)
}

fn head(kind: &str, extra: &str) -> Vec<u8> {
    format!("HTTP/1.1 200 OK\r\ncontent-type: application/x-git-upload-pack-{kind}\r\nconnection: close\r\n{extra}\r\n")
        .into_bytes()
}

fn line(text: &str) -> Vec<u8> {
    format!("{:04x}{text}", text.len() + 4).into_bytes()
}

const COMMIT: &str = "1111111111111111111111111111111111111111";

/// A server that is honest up to the pack, which is `pack` in side-band 1.
fn sends_pack(pack: Vec<u8>, tail: Tail) -> Script {
    Arc::new(move |request| {
        if request.starts_with("GET") {
            let mut out = head("advertisement", "");
            out.extend(line("version 2\n"));
            out.extend(line("fetch=shallow\n"));
            out.extend(b"0000");
            (out, Tail::Nothing)
        } else if request.contains("command=ls-refs") {
            let mut out = head("result", "");
            out.extend(line(&format!("{COMMIT} HEAD\n")));
            out.extend(line(&format!(
                "{COMMIT} refs/heads/../../../etc/cron.d/x\n"
            )));
            out.extend(b"0000");
            (out, Tail::Nothing)
        } else {
            let mut out = head("result", "");
            out.extend(line("packfile\n"));
            for chunk in pack.chunks(60_000) {
                out.extend(format!("{:04x}\u{1}", chunk.len() + 5).as_bytes());
                out.extend(chunk);
            }
            match &tail {
                Tail::Nothing => out.extend(b"0000"),
                Tail::Forever(_) | Tail::Drip(_) => {}
            }
            (out, tail.clone())
        }
    })
}

/// What comes of fetching from `script`, in how long.
async fn attack(script: Script, limit: u64) -> (SourceError, Duration) {
    let port = server(script).await;
    let cache = tempfile::tempdir().unwrap();
    let mut options = options(cache.path().join("cache"));
    options.timeout = Duration::from_millis(500);
    options.limits.pack_bytes = limit;
    options.limits.object_bytes = 8 << 20;
    let mirrors = Mirrors::new(options, Arc::new(StaticSecrets::default())).unwrap();
    let source = GitSource::new(url(&format!("http://127.0.0.1:{port}/x")), ".");
    let started = std::time::Instant::now();
    let error = mirrors.artifact(&source).await.unwrap_err();
    let took = started.elapsed();
    let packs = walk(&cache.path().join("cache/mirrors"), "objects/pack");
    assert_eq!(
        packs,
        Vec::<std::path::PathBuf>::new(),
        "nothing of it stays on disk"
    );
    (error, took)
}

/// The files below `root` whose path contains `part`.
fn walk(root: &std::path::Path, part: &str) -> Vec<std::path::PathBuf> {
    let mut files = Vec::new();
    let mut open = vec![root.to_owned()];
    while let Some(directory) = open.pop() {
        for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
            let path = entry.path();
            if path.is_dir() {
                open.push(path);
            } else if path.to_string_lossy().contains(part) {
                files.push(path);
            }
        }
    }
    files
}

/// A pack of these objects: type, claimed size, and the deflated bytes.
fn pack(count: u32, entries: &[(u8, u64, Vec<u8>)]) -> Vec<u8> {
    let mut out = b"PACK\0\0\0\x02".to_vec();
    out.extend(count.to_be_bytes());
    for (kind, size, data) in entries {
        let mut first = (kind << 4) | u8::try_from(size & 15).unwrap();
        let mut rest = size >> 4;
        while rest > 0 {
            out.push(first | 0x80);
            first = u8::try_from(rest & 0x7f).unwrap();
            rest >>= 7;
        }
        out.push(first);
        out.extend(data);
    }
    let mut hasher = gix::hash::hasher(gix::hash::Kind::Sha1);
    hasher.update(&out);
    out.extend(hasher.try_finalize().unwrap().as_slice());
    out
}

fn deflate(bytes: &[u8]) -> Vec<u8> {
    use std::io::Write;
    let mut encoder = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::best());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

const MEGABYTE: u64 = 1 << 20;

#[tokio::test(flavor = "multi_thread")]
async fn s12_packs_that_lie_are_refused() {
    let blob = deflate(b"hello");
    let ofs_delta_before_the_pack = {
        let mut data = vec![0xff, 0xff, 0xff, 0x7f];
        data.extend(deflate(&[5, 5, 0x90, 5]));
        pack(1, &[(6, 4, data)])
    };
    let ref_delta_to_nothing = {
        let mut data = vec![9; 20];
        data.extend(deflate(&[5, 5, 0x90, 5]));
        pack(1, &[(7, 4, data)])
    };
    let mut broken_sum = pack(1, &[(3, 5, blob.clone())]);
    *broken_sum.last_mut().unwrap() ^= 1;
    let delta_bomb = {
        let base = deflate(&vec![b'x'; 65_536]);
        // Base size, a result of 4 GiB, then copies of the base.
        let mut instructions = vec![0x80, 0x80, 0x04, 0x80, 0x80, 0x80, 0x80, 0x10];
        for _ in 0..60_000 {
            instructions.extend([0xb0, 0xff, 0xff]);
        }
        let mut data = vec![u8::try_from(base.len() + 3).unwrap_or(0x7f)];
        data.extend(deflate(&instructions));
        pack(
            2,
            &[(3, 65_536, base), (6, instructions.len() as u64, data)],
        )
    };
    for (what, bytes, expected) in [
        (
            "four billion objects",
            pack(u32::MAX, &[]),
            &[Reason::TooLarge][..],
        ),
        (
            "more objects than come",
            pack(2, &[(3, 5, blob.clone())]),
            &[Reason::InvalidData],
        ),
        (
            "a size that is a lie",
            pack(1, &[(3, 500, blob.clone())]),
            &[Reason::InvalidData],
        ),
        (
            "a size beyond the limit",
            pack(1, &[(3, 1 << 40, blob.clone())]),
            &[Reason::TooLarge, Reason::InvalidData],
        ),
        (
            "a type that is none",
            pack(1, &[(5, 5, blob.clone())]),
            &[Reason::InvalidData],
        ),
        (
            "type zero",
            pack(1, &[(0, 5, blob.clone())]),
            &[Reason::InvalidData],
        ),
        (
            "a delta of what lies before the pack",
            ofs_delta_before_the_pack,
            &[Reason::InvalidData],
        ),
        (
            "a delta of what is missing",
            ref_delta_to_nothing,
            &[Reason::InvalidData],
        ),
        (
            "a delta bomb",
            delta_bomb,
            &[Reason::TooLarge, Reason::InvalidData],
        ),
        ("a wrong checksum", broken_sum, &[Reason::InvalidData]),
        (
            "no zlib",
            pack(1, &[(3, 5, vec![0xff; 30])]),
            &[Reason::InvalidData],
        ),
        (
            "no pack",
            b"GIF89a and more bytes".to_vec(),
            &[Reason::InvalidData],
        ),
        ("nothing", Vec::new(), &[Reason::InvalidData]),
        (
            "half a header",
            b"PACK\0\0".to_vec(),
            &[Reason::InvalidData],
        ),
    ] {
        let (error, took) = attack(sends_pack(bytes, Tail::Nothing), 64 * MEGABYTE).await;
        assert!(
            expected.contains(&error.reason()),
            "{what}: {:?}: {error}",
            error.reason()
        );
        assert!(took < Duration::from_secs(20), "{what} took {took:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn s12_a_whole_pack_without_the_wanted_commit_is_damage_and_no_chart() {
    let script = sends_pack(pack(1, &[(3, 5, deflate(b"hello"))]), Tail::Nothing);
    let port = server(script).await;
    let cache = tempfile::tempdir().unwrap();
    let mut options = options(cache.path().join("cache"));
    options.fetch_grace = Duration::from_millis(1500);
    let mirrors = Mirrors::new(options, Arc::new(StaticSecrets::default())).unwrap();
    let source = GitSource::new(url(&format!("http://127.0.0.1:{port}/x")), ".");
    let error = mirrors.artifact(&source).await.unwrap_err();
    assert!(
        matches!(
            error.reason(),
            Reason::StorageFailed | Reason::Cloning | Reason::InvalidData
        ),
        "{error}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn s12_endless_answers_end_at_a_limit() {
    let endless_pack = {
        let mut band = format!("{:04x}\u{1}", 60_005).into_bytes();
        band.extend(vec![0; 60_000]);
        sends_pack(pack(1000, &[])[..12].to_vec(), Tail::Forever(band))
    };
    let endless_progress = sends_pack(Vec::new(), Tail::Forever(b"0009\x02work".repeat(1000)));
    for (what, script) in [("pack", endless_pack), ("progress", endless_progress)] {
        let (error, took) = attack(script, 16 * MEGABYTE).await;
        let expected = [Reason::TooLarge, Reason::InvalidData];
        assert!(
            expected.contains(&error.reason()),
            "{what}: {:?}: {error}",
            error.reason()
        );
        assert!(took < Duration::from_secs(60), "{what} took {took:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn s12_answers_that_are_no_packet_lines_are_refused() {
    for answer in [
        &b"zzzz"[..],
        b"0003",
        b"fff4",
        b"00",
        b"",
        b"0008NAK\n",
        b"0000",
        b"\xff\xff\xff\xff",
    ] {
        let answer = answer.to_vec();
        let script: Script = Arc::new(move |request| {
            let kind = if request.starts_with("GET") {
                "advertisement"
            } else {
                "result"
            };
            ([head(kind, ""), answer.clone()].concat(), Tail::Nothing)
        });
        let (error, _) = attack(script, MEGABYTE).await;
        let expected = [Reason::InvalidData, Reason::RefNotFound];
        assert!(
            expected.contains(&error.reason()),
            "{:?}: {error}",
            error.reason()
        );
    }
}

/// A server that is honest up to the pack, of which a byte comes now and then.
fn drips_pack(drip: Tail) -> Script {
    let honest = sends_pack(pack(9, &[])[..12].to_vec(), drip);
    Arc::new(move |request| {
        let (mut out, tail) = honest(request);
        if matches!(tail, Tail::Drip(_)) {
            out.extend(b"fff0\x01");
        }
        (out, tail)
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn s13_remotes_that_drip_keep_no_other_waiting() {
    let rig = crate::support::Rig::with(testkit::GitOptions::default(), |options| {
        options.limits.concurrent_fetches = 1;
        options.timeout = Duration::from_secs(2);
    });
    rig.write_chart("app", "one");
    rig.repository.commit("first").unwrap();
    for number in 0..3 {
        let port = server(drips_pack(Tail::Drip(Duration::from_millis(1)))).await;
        let slow = GitSource::new(url(&format!("http://127.0.0.1:{port}/x")), ".");
        let release = crate::support::release(&format!("slow-{number}"));
        rig.mirrors.declare(&release, vec![slow]);
    }
    // Until each has begun its download, or waits for its turn.
    crate::support::eventually(|| {
        let states = rig.mirrors.states();
        states.iter().all(|state| state.requests >= 2).then_some(())
    })
    .await;
    rig.use_chart("app", &rig.source("app")).await.unwrap();
    let cloning = rig
        .mirrors
        .states()
        .into_iter()
        .filter(|state| state.state == helm_operator::gitsync::MirrorState::Cloning);
    assert!(cloning.count() >= 1, "the slow ones still drip");
}

#[tokio::test(flavor = "multi_thread")]
async fn s13_a_byte_now_and_then_is_no_progress() {
    let drip = Tail::Drip(Duration::from_millis(50));
    let slow_start: Script = {
        let drip = drip.clone();
        Arc::new(move |_| {
            (
                [head("advertisement", ""), b"0fff".to_vec()].concat(),
                drip.clone(),
            )
        })
    };
    let slow_pack = drips_pack(drip);
    for (what, script, limit) in [("advertisement", slow_start, 5), ("pack", slow_pack, 15)] {
        let (error, took) = attack(script, 16 * MEGABYTE).await;
        assert!(
            matches!(error.reason(), Reason::Timeout | Reason::InvalidData),
            "{what}: {error}"
        );
        assert!(took < Duration::from_secs(limit), "{what} took {took:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn s13_a_gzip_bomb_ends_at_a_limit() {
    use std::io::Write;
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    encoder.write_all(&line("packfile\n")).unwrap();
    // Zeros are flush packets in binary, but not in hex; side-band packets of zeros compress a thousandfold.
    let mut band = format!("{:04x}\u{1}", 65_005).into_bytes();
    band.extend(vec![0; 65_000]);
    let mut first = b"0011\x01PACK\0\0\0\x02\0\0\x03\xe8".to_vec();
    first.extend(band.repeat(3000));
    encoder.write_all(&first).unwrap();
    let bomb = encoder.finish().unwrap();
    assert!(bomb.len() < 1_000_000, "{}", bomb.len());
    let honest = sends_pack(Vec::new(), Tail::Nothing);
    let script: Script = Arc::new(move |request| {
        if request.starts_with("GET") || request.contains("ls-refs") {
            return honest(request);
        }
        let length = format!(
            "content-encoding: gzip\r\ncontent-length: {}\r\n",
            bomb.len()
        );
        (
            [head("result", &length), bomb.clone()].concat(),
            Tail::Nothing,
        )
    });
    let (error, took) = attack(script, 16 * MEGABYTE).await;
    assert!(
        matches!(error.reason(), Reason::TooLarge | Reason::InvalidData),
        "{error}"
    );
    assert!(took < Duration::from_secs(20), "{took:?}");
}
