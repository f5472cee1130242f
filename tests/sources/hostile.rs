//! Servers that are broken or mean harm: each ends in an error within bounds, and the last good
//! answer is used again once they are well.

use std::io::Write as _;
use std::time::{Duration, Instant};

use helm_operator::source::Reason;
use testkit::{ChartAnswer, ChartServer, chart_archive};

use crate::{Bench, seen, source};

fn server() -> ChartServer {
    let server = ChartServer::start().unwrap();
    server.add_chart("app", "1.0.0", chart_archive("app", "1.0.0", &[]).unwrap());
    server
}

fn canned(status: u16, body: &[u8]) -> ChartAnswer {
    ChartAnswer::Canned(status, Vec::new(), body.to_vec())
}

async fn failure(server: &ChartServer) -> (Reason, String) {
    let charts = Bench::new().stalling_after(Duration::from_secs(2)).charts();
    let error = charts
        .repository_chart(&source(&server.url(), "app", "*"))
        .await
        .unwrap_err();
    (error.reason(), error.to_string())
}

#[tokio::test]
async fn every_bad_index_is_an_error_of_its_own_kind() {
    let server = server();
    for (answer, reason) in [
        (canned(404, b""), Reason::RepositoryNotFound),
        (canned(403, b""), Reason::AuthFailed),
        (canned(429, b""), Reason::Unreachable),
        (canned(500, b""), Reason::Unreachable),
        (canned(503, b""), Reason::Unreachable),
        (canned(200, b""), Reason::InvalidData),
        (canned(200, b"<html>login</html>"), Reason::InvalidData),
        (
            canned(200, b"apiVersion: v1\nentries: [\n"),
            Reason::InvalidData,
        ),
        (canned(200, b"\x00\xff\xfe"), Reason::InvalidData),
        (ChartAnswer::Truncated(100), Reason::InvalidData),
        (ChartAnswer::Endless(vec![b'#'; 1 << 16]), Reason::TooLarge),
        (ChartAnswer::Silent, Reason::Timeout),
    ] {
        server.answer("/index.yaml", answer.clone());
        let (found, text) = failure(&server).await;
        assert_eq!(found, reason, "{answer:?}: {text}");
    }
}

#[tokio::test]
async fn a_dripping_server_is_given_up() {
    let server = server();
    server.answer("/index.yaml", ChartAnswer::Dripping);
    let start = Instant::now();
    assert_eq!(failure(&server).await.0, Reason::Timeout);
    assert!(
        start.elapsed() < Duration::from_secs(8),
        "{:?}",
        start.elapsed()
    );
}

#[tokio::test]
async fn a_gzip_bomb_stops_at_the_limit() {
    let server = server();
    let mut bomb = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    for _ in 0..64 {
        bomb.write_all(&vec![b'#'; 1 << 20]).unwrap();
    }
    let headers = vec![("content-encoding".to_owned(), "gzip".to_owned())];
    server.answer(
        "/index.yaml",
        ChartAnswer::Canned(200, headers, bomb.finish().unwrap()),
    );
    assert_eq!(failure(&server).await.0, Reason::TooLarge);
}

#[tokio::test]
async fn an_archive_that_is_not_what_the_index_says_is_refused() {
    let server = server();
    server.put(
        "/app-1.0.0.tgz",
        chart_archive("app", "6.6.6", &[]).unwrap(),
    );
    let (reason, text) = failure(&server).await;
    assert_eq!(reason, Reason::InvalidData);
    assert!(text.contains("the index says sha256:"), "{text}");
}

#[tokio::test]
async fn archives_that_are_none_are_refused() {
    for content in [&b"no gzip"[..], &[], &[0x1f, 0x8b, 8, 0, 0]] {
        let server = ChartServer::start().unwrap();
        server.add_chart("app", "1.0.0", content.to_vec());
        assert_eq!(failure(&server).await.0, Reason::InvalidData);
    }
}

#[tokio::test]
async fn redirects_end_and_lead_nowhere_else() {
    let server = server();
    let to = |target: &str| {
        ChartAnswer::Canned(
            302,
            vec![("location".to_owned(), target.to_owned())],
            vec![],
        )
    };
    let itself = format!("{}/index.yaml", server.url());
    for (target, hint) in [
        (itself.as_str(), "more than 5 times"),
        ("file:///etc/passwd", "to a file address"),
        ("ftp://127.0.0.1/", "to a ftp address"),
        ("http://[bad", "without a usable address"),
    ] {
        server.answer("/index.yaml", to(target));
        let (reason, text) = failure(&server).await;
        assert_eq!(reason, Reason::Unreachable);
        assert!(text.contains(hint), "{text}");
    }
}

#[tokio::test]
async fn a_broken_server_is_not_asked_again_by_every_release() {
    let server = server();
    server.answer("/index.yaml", canned(500, b""));
    let charts = Bench::new().charts();
    for _ in 0..20 {
        charts
            .repository_chart(&source(&server.url(), "app", "*"))
            .await
            .unwrap_err();
    }
    assert_eq!(server.requests().len(), 1);
}

#[tokio::test]
async fn control_characters_of_a_server_reach_no_message() {
    let server = server();
    let index = "apiVersion: v1\nentries:\n  \"a\\u001b[31mpp\":\n  app2:\n  - name: app2\n";
    server.put("/index.yaml", index.into());
    let (_, text) = failure(&server).await;
    assert!(!text.contains('\u{1b}'), "{text:?}");
}

#[tokio::test]
async fn a_damaged_index_on_disk_is_fetched_again() {
    let server = server();
    let bench = Bench::new();
    let asked = source(&server.url(), "app", "*");
    bench.charts().repository_chart(&asked).await.unwrap();
    for entry in std::fs::read_dir(bench.scratch.join("cache/indexes")).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|it| it == "yaml") {
            std::fs::write(path, "apiVersion: v1\nentries:\n  app: damaged").unwrap();
        }
    }
    assert_eq!(
        seen(bench.charts().repository_chart(&asked).await).0,
        "1.0.0"
    );
}
