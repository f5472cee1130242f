//! `template`, `show` and `package` of charts that lie elsewhere, beside the stock helm: the same output, the same
//! exit code.

use std::fs;

use testkit::{Registry, RegistryOptions};

use crate::dependency::{Rig, case};

/// What both print on stdout, and whether they succeed.
fn told(rig: &Rig, who: &str, arguments: &[&str], folder: &str) -> (String, bool) {
    let mut command = rig.command(who);
    let folder = rig.scratch.join(folder);
    fs::create_dir_all(&folder).unwrap();
    let output = command
        .args(arguments)
        .current_dir(folder)
        .output()
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    (text, output.status.success())
}

fn same(rig: &Rig, arguments: &[&str]) -> (String, bool) {
    let ours = told(rig, "ours", arguments, "somewhere");
    let helm = told(rig, "helm", arguments, "somewhere");
    assert_eq!(ours, helm, "{arguments:?}");
    ours
}

#[test]
fn charts_of_repositories_are_rendered_and_shown_as_helm_does() {
    let rig = Rig::new();
    let url = rig.server.url();
    let archive = format!("{url}/web-1.2.0.tgz");
    let config = rig.scratch.join("home-helm/repositories.yaml");
    let config = config.to_str().unwrap();
    let good: &[&[&str]] = &[
        &["template", "web", "--repo", &url],
        &["template", "web", "--repo", &url, "--version", "1.0.0"],
        &["template", "web", "--repo", &url, "--version", "~1.2"],
        &["template", "web", "--repo", &url, "--devel"],
        &["template", "one", &archive, "--namespace", "two"],
        &["template", "root/web", "--repository-config", config],
        &["show", "chart", "web", "--repo", &url, "--version", "<2"],
        &["show", "all", &archive],
    ];
    for arguments in good {
        let (text, succeeded) = same(&rig, arguments);
        assert!(succeeded && text.contains("web"), "{arguments:?}: {text}");
    }
    let nowhere = format!("{url}/nowhere.tgz");
    let bad: &[&[&str]] = &[
        &["template", "web", "--repo", &url, "--version", "7"],
        &["template", "nope", "--repo", &url],
        &["template", &nowhere],
        &["template", "other/web", "--repository-config", config],
        &["template", "web"],
        &["show", "values", "nope", "--repo", &url],
        &["template", "web", "--repo", &url, "--verify"],
    ];
    for arguments in bad {
        assert_eq!(
            same(&rig, arguments),
            (String::new(), false),
            "{arguments:?}"
        );
    }
}

#[test]
fn charts_of_registries_are_rendered_and_shown_as_helm_does() {
    let rig = Rig::new();
    let registry = Registry::start(RegistryOptions::default()).unwrap();
    for version in ["1.0.0", "1.1.0"] {
        registry.push("app", version).unwrap();
    }
    let url = registry.url("app");
    for (verb, version) in [("template", "1.x"), ("template", "1.0.0"), ("template", "")] {
        let arguments = [verb, &url, "--version", version, "--plain-http"];
        let (text, succeeded) = same(&rig, &arguments);
        assert!(succeeded && text.contains("app"), "{arguments:?}: {text}");
    }
    let tagged = format!("{url}:1.0.0");
    let (digest, _) = registry.manifest("app", "1.0.0").unwrap();
    let pinned = format!("{url}@{digest}");
    for reference in [&url, &tagged, &pinned] {
        let (text, succeeded) = same(&rig, &["show", "chart", reference, "--plain-http"]);
        assert!(succeeded && text.contains("app"), "{reference}: {text}");
    }
    let other = [
        "show",
        "chart",
        &tagged,
        "--version",
        "1.1.0",
        "--plain-http",
    ];
    assert!(!same(&rig, &other).1);
    assert!(
        !same(
            &rig,
            &["show", "chart", &url, "--plain-http", "--version", "7"]
        )
        .1
    );
}

#[test]
fn values_are_read_from_an_address_as_helm_does() {
    let rig = Rig::new();
    let url = rig.server.url();
    rig.server.put("/values.yaml", b"name: from-afar\n".into());
    let chart = rig.scratch.join("chart");
    fs::create_dir_all(chart.join("templates")).unwrap();
    fs::write(
        chart.join("Chart.yaml"),
        "apiVersion: v2\nname: app\nversion: 1.0.0\n",
    )
    .unwrap();
    fs::write(chart.join("templates/a.yaml"), "name: {{ .Values.name }}\n").unwrap();
    let chart = chart.to_str().unwrap();
    let there = format!("{url}/values.yaml");
    let (text, succeeded) = same(&rig, &["template", chart, "-f", &there]);
    assert!(succeeded && text.contains("from-afar"), "{text}");
    let gone = format!("{url}/gone.yaml");
    assert!(!same(&rig, &["template", chart, "-f", &gone]).1);
}

#[test]
fn what_charts_lack_is_fetched_first_if_that_is_wanted() {
    let rig = Rig::new();
    let lacking = case("lacking", "- {name: web, version: ^1.0.0, repository: URL}");
    for arguments in [
        &["template", ".", "--dependency-update"][..],
        &["template", "."],
        &["package", ".", "--dependency-update"],
    ] {
        let [ours, helm] = ["ours", "helm"].map(|who| {
            let chart = rig.chart(who, &lacking);
            let told = told(&rig, who, arguments, &format!("{who}/lacking"));
            fs::remove_dir_all(&chart).unwrap();
            let place = chart.parent().unwrap().to_str().unwrap();
            // The stock helm asks each repository that it knows, whether it is needed or not.
            let asked = told.0.rsplit_once("Happy Helming!⎈\n");
            let text = asked.map_or(told.0.as_str(), |(_, after)| after);
            (text.replace(place, "PLACE"), told.1)
        });
        assert_eq!(ours, helm, "{arguments:?}");
        assert_eq!(ours.1, arguments.len() > 2, "{arguments:?}");
    }
}
