//! Servers that are broken or mean harm: each ends in an error within bounds, and the last good
//! answer is used again once they are well.

use std::io::Write as _;
use std::time::{Duration, Instant};

use helm_operator::source::{Freshness, Reason};
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
        (itself.as_str(), "more than 10 times"),
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

#[tokio::test]
async fn a_server_that_asks_for_a_pause_gets_it() {
    let server = server();
    let pause = |seconds: &str| {
        let headers = vec![("retry-after".to_owned(), seconds.to_owned())];
        ChartAnswer::Canned(429, headers, Vec::new())
    };
    server.answer("/index.yaml", pause("3600"));
    let mut charts = Bench::new().charts();
    let asked = source(&server.url(), "app", "*");
    let error = charts.repository_chart(&asked).await.unwrap_err();
    assert!(error.to_string().contains("it asks for a pause"), "{error}");
    server.heal("/index.yaml");
    // Not even a change may break in.
    charts.want(Freshness::since(Instant::now()));
    charts.repository_chart(&asked).await.unwrap_err();
    assert_eq!(server.requests().len(), 1);
}

/// A server with one archive as `app` 1.0.0.
fn serving(archive: Vec<u8>) -> ChartServer {
    let server = ChartServer::start().unwrap();
    server.add_chart("app", "1.0.0", archive);
    server
}

/// An archive of these entries: path, kind and content, or the target of a link.
fn archive_of(entries: &[(&str, tar::EntryType, &[u8])]) -> Vec<u8> {
    let gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    let mut archive = tar::Builder::new(gzip);
    for (path, kind, content) in entries {
        let mut header = tar::Header::new_gnu();
        // Written by hand: the builder refuses the paths that are to be tried.
        let name = &mut header.as_gnu_mut().unwrap().name;
        name[..path.len()].copy_from_slice(path.as_bytes());
        header.set_entry_type(*kind);
        header.set_mode(0o644);
        if kind.is_file() {
            header.set_size(content.len() as u64);
            header.set_cksum();
            archive.append(&header, *content).unwrap();
        } else {
            header.set_size(0);
            header.set_link_name_literal(content).unwrap();
            header.set_cksum();
            archive.append(&header, &[][..]).unwrap();
        }
    }
    archive.into_inner().unwrap().finish().unwrap()
}

const CHART: &[u8] = b"apiVersion: v2\nname: app\nversion: 1.0.0\n";

#[tokio::test]
async fn an_archive_that_is_a_bomb_is_refused_while_it_is_read() {
    let zeros = vec![0; 101 << 20];
    let file = tar::EntryType::Regular;
    let half = &zeros[..51 << 20];
    for entries in [
        vec![
            ("app/Chart.yaml", file, CHART),
            ("app/zeros", file, &zeros[..]),
        ],
        vec![
            ("app/Chart.yaml", file, CHART),
            ("app/one", file, half),
            ("app/two", file, half),
        ],
    ] {
        let archive = archive_of(&entries);
        assert!(archive.len() < 1 << 20, "it is small on the wire");
        let (reason, text) = failure(&serving(archive)).await;
        assert_eq!(reason, Reason::InvalidData, "{text}");
        assert!(text.contains("larger than the maximum size"), "{text}");
    }
}

#[tokio::test]
async fn an_archive_whose_paths_lead_out_or_that_holds_links_writes_nothing_elsewhere() {
    let file = tar::EntryType::Regular;
    for path in [
        "app/../../x",
        "/etc/x",
        "../x",
        "app/./../../x",
        "app\\..\\..\\x",
    ] {
        let archive = archive_of(&[("app/Chart.yaml", file, CHART), (path, file, b"canary")]);
        let server = serving(archive);
        let charts = Bench::new().charts();
        // Helm drops the first part of a path, whatever it is; what is left has to stay inside.
        match charts
            .repository_chart(&source(&server.url(), "app", "*"))
            .await
        {
            Err(error) => assert_eq!(error.reason(), Reason::InvalidData, "{path}: {error}"),
            Ok(found) => {
                let mut paths = found.files.iter().map(|(path, _)| path);
                let is_inside =
                    |path: &String| path.split('/').all(|part| !matches!(part, "" | "." | ".."));
                assert!(paths.all(is_inside), "{path}: {:?}", found.files);
            }
        }
    }
    for kind in [tar::EntryType::Symlink, tar::EntryType::Link] {
        let archive = archive_of(&[
            ("app/Chart.yaml", file, CHART),
            ("app/values.yaml", kind, b"/etc/passwd"),
        ]);
        let server = serving(archive);
        let charts = Bench::new().charts();
        let asked = source(&server.url(), "app", "*");
        if let Ok(found) = charts.repository_chart(&asked).await {
            let content = found.file("values.yaml").unwrap_or_default();
            assert!(content.is_empty(), "{kind:?}: a link is never followed");
        }
    }
}

#[tokio::test]
async fn of_two_entries_with_one_path_the_later_counts() {
    let file = tar::EntryType::Regular;
    let archive = archive_of(&[
        (
            "app/Chart.yaml",
            file,
            b"apiVersion: v2\nname: app\nversion: 0.1.0\n",
        ),
        ("app/Chart.yaml", file, CHART),
    ]);
    let server = serving(archive);
    let charts = Bench::new().charts();
    let found = charts
        .repository_chart(&source(&server.url(), "app", "*"))
        .await;
    assert_eq!(seen(found).1, "1.0.0");
}

#[tokio::test]
async fn an_index_with_odd_entries_serves_its_good_ones() {
    let server = server();
    let good = "  - {apiVersion: v2, name: app, version: 1.0.0, urls: [app-1.0.0.tgz]}\n";
    let odd = "  -\n  - null\n  - []\n  - text\n  - {name: app}\n  - {name: app, version: [1]}\n  \
               - {name: app, version: 9.9.9, maintainers: [null], urls: null}\n  \
               - {name: other, version: x.y, urls: [{}]}\n";
    let doubled = format!("{good}{good}");
    for entries in [format!("{odd}{good}"), format!("{good}{odd}"), doubled] {
        let index = format!("apiVersion: v1\nentries:\n  empty:\n  app:\n{entries}");
        server.put("/index.yaml", index.into_bytes());
        let charts = Bench::new().charts();
        let found = charts
            .repository_chart(&source(&server.url(), "app", "~1"))
            .await;
        assert_eq!(seen(found).0, "1.0.0", "{entries}");
    }
}

#[tokio::test]
async fn an_index_that_is_a_yaml_bomb_ends_within_bounds() {
    let server = server();
    let laughs: String = (1..30)
        .map(|at| format!("a{at}: &a{at} [*a{0}, *a{0}, *a{0}, *a{0}]\n", at - 1))
        .collect();
    let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    let anchors: String = (0..50_000).map(|at| format!("  - &b{at} {{}}\n")).collect();
    for text in [
        format!("apiVersion: v1\na0: &a0 [x]\n{laughs}entries:\n  app: *a29\n"),
        format!("apiVersion: v1\nentries:\n  app: {deep}\n"),
        format!("apiVersion: v1\nentries:\n  app:\n{anchors}"),
        format!("{{\"apiVersion\":\"v1\",\"entries\":{{\"app\":{deep}}}}}"),
    ] {
        server.put("/index.yaml", text.into_bytes());
        let start = Instant::now();
        let (reason, _) = failure(&server).await;
        assert_ne!(reason, Reason::Timeout);
        assert!(
            start.elapsed() < Duration::from_secs(10),
            "{:?}",
            start.elapsed()
        );
    }
}

#[tokio::test]
async fn a_chart_whose_name_is_a_path_is_never_written_anywhere() {
    let server = server();
    for name in ["..", ".", "a/../../b", "../../etc/cron.d/x", "a\0b"] {
        let charts = Bench::new().charts();
        let error = charts
            .repository_chart(&source(&server.url(), name, "1.0.0"))
            .await
            .unwrap_err();
        let expected = [Reason::ChartNotFound, Reason::InvalidSource];
        assert!(expected.contains(&error.reason()), "{name:?}: {error}");
        assert!(!error.to_string().contains('\0'));
    }
}

#[tokio::test]
async fn confusing_addresses_in_an_index_get_no_credentials() {
    let (home, other) = (server(), server());
    let authority = other.url().replace("http://", "");
    home.require_login("robot", "canary");
    for url in [
        format!(
            "http://{}@{authority}/app-1.0.0.tgz",
            home.url().replace("http://", "")
        ),
        format!("//{authority}/app-1.0.0.tgz"),
        format!(
            "http://{authority}/app-1.0.0.tgz?@{}",
            home.url().replace("http://", "")
        ),
        format!(
            "http://{authority}/app-1.0.0.tgz#@{}",
            home.url().replace("http://", "")
        ),
    ] {
        let index = format!(
            "apiVersion: v1\nentries:\n  app:\n  - {{apiVersion: v2, name: app, version: 1.0.0, urls: ['{url}']}}\n"
        );
        home.put("/index.yaml", index.into_bytes());
        let charts = Bench::new()
            .secret("login", &[("username", "robot"), ("password", "canary")])
            .charts();
        let asked = helm_operator::source::HelmRepositorySource {
            secret: Some(crate::secret_ref("login")),
            ..source(&home.url(), "app", "*")
        };
        other.forget();
        let found = charts.repository_chart(&asked).await;
        assert_eq!(seen(found).0, "1.0.0", "{url}");
        let requests = other.requests();
        assert_eq!(requests.len(), 1, "{url}: {requests:?}");
        assert_eq!(requests[0].authorization, None, "{url}");
    }
}
