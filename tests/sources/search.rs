//! `helm-operator search` beside the stock helm.

use std::process::Command;

use testkit::{ChartServer, ScratchDir, ToolSet, Tools};

const INDEX: &str = "apiVersion: v1
entries:
  web:
  - {apiVersion: v2, name: web, version: 1.2.0, appVersion: '2.0', description: Serves, urls: [web-1.2.0.tgz]}
  - {apiVersion: v2, name: web, version: 1.10.0, appVersion: '3.0', description: 'A description that is far too long for the table of a terminal', urls: [a.tgz]}
  - {apiVersion: v2, name: web, version: 2.0.0-rc.1, urls: [b.tgz]}
  - {apiVersion: v2, name: web, version: 1.0.0, deprecated: true, urls: [c.tgz]}
";

#[test]
fn search_prints_what_helm_search_repo_prints() {
    let server = ChartServer::start().unwrap();
    server.put("/index.yaml", INDEX.into());
    let tools = Tools::locate(ToolSet::Full).unwrap();
    let scratch = ScratchDir::new("search").unwrap();
    let config = scratch.join("config/repositories.yaml");
    let run = |mut command: Command, arguments: &[&str]| {
        let variables = [
            "HELM_CONFIG_HOME",
            "HELM_CACHE_HOME",
            "HELM_DATA_HOME",
            "HOME",
        ];
        for (variable, directory) in variables
            .into_iter()
            .zip(["config", "cache", "data", "home"])
        {
            command.env(variable, scratch.join(directory));
        }
        command
            .env("HELM_REPOSITORY_CONFIG", &config)
            .args(arguments);
        let output = command.output().unwrap();
        assert!(output.status.success(), "{command:?}: {output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    let helm = || tools.command("helm").unwrap();
    let ours = || Command::new(env!("CARGO_BIN_EXE_helm-operator"));
    run(helm(), &["repo", "add", "team", &server.url()]);
    for flags in [
        &[][..],
        &["--versions"],
        &["--versions", "--devel"],
        &["--versions", "--version", "~1.2"],
        &["--versions", "--max-col-width", "20"],
        &["--output", "json"],
        &["--versions", "-o", "yaml"],
    ] {
        let theirs = run(
            helm(),
            &[&["search", "repo", "team/web"][..], flags].concat(),
        );
        let found = run(ours(), &[&["search", "team/web"][..], flags].concat());
        assert_eq!(found, theirs, "{flags:?}");
    }
}
