//! The operator's own chart, rendered by the operator, against the stock helm; and what is made from it.

#![cfg(test)]

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use testkit::{ToolSet, Tools, repository, run};

/// What renders deploy/install.yaml from the chart.
const INSTALL: [&str; 5] = [
    "helm-operator",
    "charts/helm-operator",
    "--namespace=helm-operator",
    "--include-crds",
    "--set=createNamespace=true",
];

/// What renders deploy/monitoring.yaml: what Prometheus and Grafana need of the same release.
const MONITORING: [&str; 9] = [
    "helm-operator",
    "charts/helm-operator",
    "--namespace=helm-operator",
    "--set=prometheus.podMonitor.create=true",
    "--set=prometheus.rules.create=true",
    "--set=dashboards.create=true",
    "--show-only=templates/podmonitor.yaml",
    "--show-only=templates/prometheusrule.yaml",
    "--show-only=templates/dashboard.yaml",
];

fn ours(arguments: &[&str]) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_helm-operator"));
    run(command
        .current_dir(repository())
        .arg("template")
        .args(arguments))
    .unwrap()
}

fn stock(arguments: &[&str]) -> String {
    let mut helm = Tools::locate(ToolSet::Base)
        .unwrap()
        .command("helm")
        .unwrap();
    run(helm
        .current_dir(repository())
        .arg("template")
        .args(arguments))
    .unwrap()
}

#[test]
fn chart_renders_to_the_same_bytes_as_with_the_stock_helm() {
    let mut sets: Vec<PathBuf> = fs::read_dir(repository().join("tests/chart"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    sets.sort();
    assert!(sets.len() >= 3, "{sets:?}");
    let mut flags = vec![Vec::new()];
    flags.extend(
        sets.iter()
            .map(|path| vec![format!("--values={}", path.display())]),
    );
    for flags in flags {
        let mut arguments = vec!["flux", "charts/helm-operator", "--namespace=flux"];
        arguments.extend(flags.iter().map(String::as_str));
        assert_eq!(ours(&arguments), stock(&arguments), "{flags:?}");
    }
}

#[test]
fn example_chart_renders_to_the_same_bytes_as_with_the_stock_helm() {
    for set in [
        "--set=token=a",
        "--set=replicaCount=3,greeting=Hé",
        "--set-string=name=1",
    ] {
        let arguments = ["greeter", "examples/charts/greeter", set];
        assert_eq!(ours(&arguments), stock(&arguments), "{set}");
    }
}

/// With `UPDATE_GOLDEN=1` the file is written instead; `cargo xtask crd` does it.
#[test]
fn install_manifest_and_the_crd_of_the_chart_are_up_to_date() {
    let crd = fs::read_to_string(repository().join("crds/helmreleases.yaml")).unwrap();
    same_as_file("charts/helm-operator/crds/helmreleases.yaml", &crd);
    same_as_file("deploy/install.yaml", &ours(&INSTALL));
    same_as_file("deploy/monitoring.yaml", &ours(&MONITORING));
}

fn same_as_file(path: &str, wanted: &str) {
    let file = repository().join(path);
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        fs::write(&file, wanted).unwrap();
    }
    let found = fs::read_to_string(&file).unwrap_or_default();
    assert!(found == wanted, "{path} is stale: run `cargo xtask crd`");
}
