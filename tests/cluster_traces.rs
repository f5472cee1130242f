//! Traces of a real daemon, at a collector on loopback: `cargo test --features otel --test cluster_traces`.

#![cfg(test)]
#![cfg(feature = "otel")]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use testkit::{ControlPlane, DaemonOptions, Rig};

const LIMIT: Duration = Duration::from_secs(60);

/// Takes what is sent to `/v1/traces` until the test is over.
#[derive(Clone, Default)]
struct Collector(Arc<Mutex<Vec<Vec<u8>>>>);

impl Collector {
    fn start() -> (Self, String) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let collector = Self::default();
        let shared = collector.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let shared = shared.clone();
                std::thread::spawn(move || shared.serve(stream));
            }
        });
        (collector, url)
    }

    fn serve(&self, stream: TcpStream) {
        let mut reader = BufReader::new(stream);
        loop {
            let (mut line, mut length, mut path) = (String::new(), 0, String::new());
            while reader.read_line(&mut line).is_ok_and(|read| read > 2) {
                let head = line.trim().to_ascii_lowercase();
                if let Some(value) = head.strip_prefix("content-length:") {
                    length = value.trim().parse().unwrap();
                } else if path.is_empty() {
                    path = head.split(' ').nth(1).unwrap_or_default().to_owned();
                }
                line.clear();
            }
            if path.is_empty() {
                return;
            }
            let mut body = vec![0; length];
            reader.read_exact(&mut body).unwrap();
            assert_eq!(path, "/v1/traces");
            self.0.lock().unwrap().push(body);
            let answer = b"HTTP/1.1 200 OK\r\ncontent-type: application/x-protobuf\r\ncontent-length: 0\r\n\r\n";
            reader.get_mut().write_all(answer).unwrap();
        }
    }

    /// Whether all of these texts have come, each as a whole field of a message: behind its length.
    fn has(&self, texts: &[&str]) -> bool {
        let taken = self.0.lock().unwrap().concat();
        texts.iter().all(|text| {
            let mut field = vec![u8::try_from(text.len()).unwrap()];
            field.extend_from_slice(text.as_bytes());
            taken.windows(field.len()).any(|window| window == field)
        })
    }
}

#[test]
fn a_reconciliation_is_a_trace_of_fetch_render_and_apply() {
    let plane = ControlPlane::shared().unwrap();
    let (collector, url) = Collector::start();
    let binary = env!("CARGO_BIN_EXE_helm-operator");
    let mut options = DaemonOptions::local(binary, plane.kubeconfig(), &["--log-level=error"]);
    options.environment = vec![
        ("OTEL_EXPORTER_OTLP_ENDPOINT".to_owned(), url),
        ("OTEL_BSP_SCHEDULE_DELAY".to_owned(), "100".to_owned()),
    ];
    let rig = Rig::start_with(plane, options).unwrap();
    let namespace = plane.namespace("traces").unwrap();
    let charts = rig.git.repository("charts").unwrap();
    charts
        .write("a/Chart.yaml", "apiVersion: v2\nname: a\nversion: 1.0.0\n")
        .unwrap();
    let map = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n";
    charts.write("a/templates/map.yaml", map).unwrap();
    charts.commit("Add the chart").unwrap();
    let git = charts.url();
    let manifest = format!(
        "apiVersion: helm.fluxcd.io/v1\nkind: HelmRelease\nmetadata: {{name: web}}\nspec:\n  \
         chart: {{git: \"{git}\", path: a}}\n"
    );
    rig.apply(&namespace, &manifest).unwrap();
    rig.wait_until_ready(&namespace, "web", LIMIT).unwrap();
    let release = format!("{namespace}/web");
    let wanted = [
        "helm-operator",
        "reconcile",
        "fetch",
        "render",
        "apply",
        "settled",
        "a-1.0.0",
        &release,
    ];
    rig.daemon
        .process()
        .wait_until(LIMIT, || collector.has(&wanted))
        .unwrap();
    // A failure is told too; what is left is sent when the daemon ends.
    rig.apply(&namespace, &manifest.replace("path: a", "path: nowhere"))
        .unwrap();
    let failed = |release: &serde_json::Value| release["status"]["phase"] == "ChartFetchFailed";
    let release = rig.wait_for(&namespace, "web", LIMIT, failed).unwrap();
    let conditions = release["status"]["conditions"].as_array().unwrap();
    let ready = conditions.iter().find(|it| it["type"] == "Ready").unwrap();
    let reason = ready["reason"].as_str().unwrap();
    rig.daemon.terminate().unwrap();
    assert!(collector.has(&[reason]), "{reason}");
}
