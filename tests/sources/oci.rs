//! A real registry (the distribution project's), pushed to by the stock helm.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use helm_operator::source::{Charts, OciSource, Reason, RepositoryUrl};
use testkit::{Process, ScratchDir, ToolSet, Tools, chart_archive, free_ports};

use crate::{Bench, secret_ref, seen};

struct Registry {
    host: String,
    tools: Tools,
    scratch: ScratchDir,
    _process: Process,
}

impl Registry {
    /// Starts a registry; with a login if one is given (its bcrypt line in htpasswd form).
    fn start(htpasswd: Option<&str>) -> Self {
        let tools = Tools::locate(ToolSet::Full).unwrap();
        let scratch = ScratchDir::new("registry").unwrap();
        let [port] = free_ports::<1>().unwrap();
        let host = format!("127.0.0.1:{port}");
        let mut config = format!(
            "version: 0.1\nlog: {{level: warn}}\nstorage:\n  filesystem:\n    rootdirectory: {}\nhttp:\n  addr: {host}\n",
            scratch.join("data").display()
        );
        if let Some(line) = htpasswd {
            fs::write(scratch.join("htpasswd"), line).unwrap();
            let path = scratch.join("htpasswd");
            config.push_str(&format!(
                "auth:\n  htpasswd:\n    realm: charts\n    path: {}\n",
                path.display()
            ));
        }
        fs::write(scratch.join("config.yaml"), config).unwrap();
        let mut command = tools.command("registry").unwrap();
        command.arg("serve").arg(scratch.join("config.yaml"));
        let process = Process::spawn("registry", &command, &scratch.join("log")).unwrap();
        let is_up = || std::net::TcpStream::connect(&host).is_ok();
        process.wait_until(Duration::from_secs(20), is_up).unwrap();
        Self {
            host,
            tools,
            scratch,
            _process: process,
        }
    }

    fn helm(&self, arguments: &[&str]) {
        let mut command: Command = self.tools.command("helm").unwrap();
        let home = self.scratch.join("helm");
        command.args(arguments).arg("--plain-http");
        for variable in [
            "HELM_CACHE_HOME",
            "HELM_CONFIG_HOME",
            "HELM_DATA_HOME",
            "HOME",
        ] {
            command.env(variable, &home);
        }
        let output = command.output().unwrap();
        assert!(
            output.status.success(),
            "{}",
            String::from_utf8_lossy(&output.stderr)
        );
    }

    fn push(&self, name: &str, version: &str) {
        let path = self.scratch.join(format!("{name}-{version}.tgz"));
        fs::write(&path, chart_archive(name, version, &[]).unwrap()).unwrap();
        self.helm(&["push", text(&path), &format!("oci://{}/team", self.host)]);
    }

    fn charts(&self, bench: &Bench) -> Charts {
        bench.open().with_plain_registries(vec![self.host.clone()])
    }

    fn source(&self, name: &str, version: &str) -> OciSource {
        OciSource {
            url: RepositoryUrl::parse(&format!("oci://{}/team/{name}", self.host)).unwrap(),
            version: Some(version.to_owned()).filter(|text| !text.is_empty()),
            secret: None,
        }
    }
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

#[tokio::test]
async fn charts_are_pulled_by_version_range_and_digest() {
    let registry = Registry::start(None);
    for version in ["1.0.0", "1.1.0+build.7", "2.0.0-rc.1"] {
        registry.push("app", version);
    }
    let bench = Bench::new();
    let charts = registry.charts(&bench);
    for (asked, expected) in [
        ("1.0.0", "1.0.0"),
        ("1.1.0+build.7", "1.1.0+build.7"),
        ("^1", "1.1.0+build.7"),
        ("", "1.1.0+build.7"),
        (">0-0", "2.0.0-rc.1"),
    ] {
        let found = charts.from_registry(&registry.source("app", asked)).await;
        assert_eq!(seen(found), (expected.into(), expected.into()), "{asked:?}");
    }
    for (name, version, reason) in [
        ("nope", "1.0.0", Reason::ChartNotFound),
        ("nope", "*", Reason::ChartNotFound),
        ("app", "7.0.0", Reason::ChartNotFound),
        ("app", "~7", Reason::VersionNotFound),
        ("app", "x y", Reason::InvalidSource),
    ] {
        let error = charts
            .from_registry(&registry.source(name, version))
            .await
            .unwrap_err();
        assert_eq!(error.reason(), reason, "{name} {version}: {error}");
    }
}

#[tokio::test]
async fn a_private_registry_is_opened_by_a_docker_config_or_a_login() {
    // robot:secret-canary
    let line = helm_operator_test_htpasswd();
    let registry = Registry::start(Some(&line));
    registry.helm(&[
        "registry",
        "login",
        &registry.host,
        "--username",
        "robot",
        "--password",
        "secret-canary",
    ]);
    registry.push("app", "1.0.0");
    let docker = format!(
        r#"{{"auths":{{"{}":{{"username":"robot","password":"secret-canary"}}}}}}"#,
        registry.host
    );
    let bench = Bench::new()
        .secret("docker", &[(".dockerconfigjson", &docker)])
        .secret(
            "login",
            &[("username", "robot"), ("password", "secret-canary")],
        )
        .secret(
            "wrong",
            &[("username", "robot"), ("password", "wrong-canary")],
        );
    let charts = registry.charts(&bench);
    let asked = |secret: Option<&str>| OciSource {
        secret: secret.map(secret_ref),
        ..registry.source("app", "^1")
    };
    for secret in ["docker", "login"] {
        assert_eq!(
            seen(charts.from_registry(&asked(Some(secret))).await).0,
            "1.0.0"
        );
    }
    for secret in [None, Some("wrong")] {
        let error = charts.from_registry(&asked(secret)).await.unwrap_err();
        assert_eq!(error.reason(), Reason::AuthFailed, "{error}");
        assert!(!error.to_string().contains("canary"), "{error}");
    }
}

/// The line for `robot` with the password `secret-canary`.
fn helm_operator_test_htpasswd() -> String {
    format!("robot:{}\n", bcrypt::hash("secret-canary", 4).unwrap())
}
