//! Dashboards and alerts ask for metrics that the daemon has, by labels that they have.

#![cfg(test)]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::process::Command;
use std::time::Duration;

use helm_operator::api::{HelmReleaseStatus, NamespacedName};
use helm_operator::telemetry::{Action, Metrics, MirrorMetrics};
use serde_json::{Value, json};
use testkit::{repository, run};

/// The metrics of a daemon that has done everything once: each name with the labels that it has.
fn exported() -> BTreeMap<String, BTreeSet<String>> {
    let metrics = Metrics::new();
    let (object, release) = (
        NamespacedName::new("demo", "web"),
        NamespacedName::new("demo", "demo-web"),
    );
    let status: HelmReleaseStatus = serde_json::from_value(json!({
        "chart": "web-1.0.0", "revision": "1.0.0",
        "conditions": [{"type": "Ready", "status": "True", "reason": "UpToDate"},
            {"type": "Released", "status": "True"}, {"type": "RolledBack", "status": "False"}],
    }))
    .unwrap();
    metrics.set_release_count(1);
    metrics.set_queue_length(1);
    metrics.set_leader(true);
    metrics.set_active_workers(1);
    metrics.observe_queue_wait(Duration::from_millis(1));
    metrics.observe_reconcile("error", Duration::from_millis(1));
    metrics.count_retry();
    metrics.count_review(true);
    metrics.set_webhook_certificate(1);
    for action in Action::ALL {
        metrics.time(action, release.clone()).succeeded();
        drop(metrics.time(action, release.clone()));
    }
    metrics.show(&object, &release, &status);
    metrics.set_mirrors(&[MirrorMetrics {
        url: "https://git.example.com/a".into(),
        ..MirrorMetrics::default()
    }]);
    let mut names: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for line in metrics.text().lines().filter(|line| !line.starts_with('#')) {
        let (name, labels) = match line.split_once('{') {
            Some((name, rest)) => (name, rest.rsplit_once('}').unwrap().0),
            None => (line.split(' ').next().unwrap(), ""),
        };
        let labels = labels
            .split("\",")
            .filter_map(|pair| pair.split_once('='))
            .map(|(label, _)| label.to_owned());
        names.entry(name.to_owned()).or_default().extend(labels);
    }
    names
}

/// The metrics that a PromQL expression names, each with the labels that it selects by.
fn asked(expression: &str) -> Vec<(String, Vec<String>)> {
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == ':';
    let mut asked = Vec::new();
    let mut rest = expression;
    while let Some(start) = rest.find(|c: char| c.is_ascii_alphabetic() || c == '_') {
        rest = &rest[start..];
        let end = rest.find(|c| !is_name(c)).unwrap_or(rest.len());
        let (name, after) = rest.split_at(end);
        rest = after;
        let mut labels = Vec::new();
        if let Some(selector) = after.strip_prefix('{') {
            let (inside, behind) = selector.split_once('}').unwrap();
            rest = behind;
            for pair in inside.split("\",").filter(|pair| pair.contains('"')) {
                labels.push(pair.split(['=', '!']).next().unwrap().trim().to_owned());
            }
        }
        if name.contains('_') && !matches!(name, "histogram_quantile" | "min_over_time") {
            asked.push((name.to_owned(), labels));
        }
    }
    asked
}

/// Labels that Prometheus adds to what it scrapes.
const SCRAPED: [&str; 2] = ["job", "pod"];

fn check(source: &str, expression: &str, exported: &BTreeMap<String, BTreeSet<String>>) -> usize {
    let expression = expression.replace("$namespace", "x");
    let metrics = asked(&expression);
    for (name, labels) in &metrics {
        let Some(known) = exported.get(name) else {
            panic!("{source} asks for {name}, which is not exported: {expression}");
        };
        for label in labels {
            let has = known.contains(label) || SCRAPED.contains(&label.as_str());
            assert!(has, "{source}: {name} has no label {label}: {known:?}");
        }
    }
    metrics.len()
}

/// The queries of 1.4's Grafana dashboard and of the alerts in its documentation, as they are written there.
const OF_1_4: [&str; 9] = [
    "flux_helm_operator_release_count{}",
    "delta(flux_helm_operator_release_action_duration_seconds_sum{action=\"sync\"}[5m]) > 0",
    "flux_helm_operator_release_queue_length_count{}",
    "flux_helm_operator_release_condition_info{condition=\"Released\"} == 1",
    "flux_helm_operator_release_condition_info{condition=\"Released\"} == -1",
    "flux_helm_operator_release_condition_info{condition=\"RolledBack\"} == 1",
    "flux_helm_operator_release_queue_length_count > 0",
    "flux_helm_operator_release_duration_seconds_count{success=\"true\",namespace=\"x\",release_name=\"y\"}",
    "flux_helm_operator_release_phase_duration_seconds_sum{action=\"install\",success=\"true\",namespace=\"x\",release_name=\"y\"}",
];

#[test]
fn the_dashboard_and_the_alerts_of_1_4_work_unchanged() {
    let exported = exported();
    for expression in OF_1_4 {
        assert_eq!(check("1.4", expression, &exported), 1);
    }
    // What its tables show.
    let shown = &exported["flux_helm_operator_release_condition_info"];
    assert!(shown.contains("release_name") && shown.contains("target_namespace"));
}

#[test]
fn every_metric_of_the_dashboard_is_exported() {
    let file = repository().join("charts/helm-operator/dashboards/helm-operator.json");
    let dashboard: Value = serde_json::from_str(&fs::read_to_string(file).unwrap()).unwrap();
    let exported = exported();
    let panels = dashboard["panels"].as_array().unwrap();
    let mut count = 0;
    for panel in panels {
        for target in panel["targets"].as_array().into_iter().flatten() {
            let title = panel["title"].as_str().unwrap();
            let found = check(title, target["expr"].as_str().unwrap(), &exported);
            assert!(found > 0, "{title} asks for nothing");
            count += found;
        }
    }
    assert!(count >= 20, "{count}");
}

#[test]
fn every_metric_of_the_alerts_is_exported() {
    let mut template = Command::new(env!("CARGO_BIN_EXE_helm-operator"));
    template.current_dir(repository()).args([
        "template",
        "x",
        "charts/helm-operator",
        "--set=prometheus.rules.create=true",
        "--show-only=templates/prometheusrule.yaml",
    ]);
    let rules = run(&mut template).unwrap();
    let expressions: Vec<&str> = rules
        .lines()
        .filter_map(|line| line.trim().strip_prefix("expr: "))
        .collect();
    assert!(expressions.len() >= 6, "{rules}");
    let exported = exported();
    for expression in expressions {
        assert!(
            check("the rules", expression, &exported) > 0,
            "{expression}"
        );
    }
    for alert in ["Failing", "Stuck", "Drifted", "MirrorOld", "QueueOld"] {
        assert!(rules.contains(alert), "no alert {alert}");
    }
}

#[test]
fn a_metric_that_is_not_there_would_be_noticed() {
    let exported = exported();
    for wrong in ["sum(no_such_metric)", "workqueue_depth{nome=\"a\"}"] {
        assert!(
            std::panic::catch_unwind(|| check("test", wrong, &exported)).is_err(),
            "{wrong}"
        );
    }
    let asked = asked("max by (a, b) (rate(x_total{a=\"1\",b!~\"2\"}[5m])) / y_sum > 0.5");
    let wanted = [("x_total", vec!["a", "b"]), ("y_sum", vec![])];
    let wanted = wanted.map(|(name, labels)| {
        (
            name.to_owned(),
            labels.iter().map(|l| (*l).to_owned()).collect(),
        )
    });
    assert_eq!(asked, wanted);
}
