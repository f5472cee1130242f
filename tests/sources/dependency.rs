//! `helm-operator dependency` beside the stock helm: the same `charts/`, the same lock file.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use testkit::{ChartServer, ScratchDir, ToolSet, Tools, chart_archive};

/// The dependencies of a chart, `URL` standing for the repository; and the files beside it.
pub(crate) struct Case {
    name: &'static str,
    api: &'static str,
    dependencies: &'static str,
    files: &'static [(&'static str, &'static str)],
}

pub(crate) const fn case(name: &'static str, dependencies: &'static str) -> Case {
    Case {
        name,
        api: "v2",
        dependencies,
        files: &[],
    }
}

const LOCAL: (&str, &str) = (
    "charts/local/Chart.yaml",
    "apiVersion: v2\nname: local\nversion: 0.3.0\n",
);
const OLD: &str = "name: app\nversion: 1.0.0\napiVersion: v1\n";

const CASES: &[Case] = &[
    case(
        "exact version",
        "- {name: web, version: 1.0.0, repository: URL}",
    ),
    case("caret", "- {name: web, version: ^1.0.0, repository: URL}"),
    case("tilde", "- {name: web, version: ~1.2.0, repository: URL}"),
    case("wildcard", "- {name: web, version: 1.x, repository: URL}"),
    case("star", "- {name: web, version: '*', repository: URL}"),
    case(
        "comparison",
        "- {name: web, version: '>=1.0.0, <1.2.3', repository: URL}",
    ),
    case(
        "hyphen range",
        "- {name: web, version: '1.0.0 - 1.2.0', repository: URL}",
    ),
    case(
        "either",
        "- {name: web, version: '~1.0 || ~2.0', repository: URL}",
    ),
    case(
        "prereleases",
        "- {name: web, version: '>=1.0.0-0', repository: URL}",
    ),
    case(
        "a prerelease",
        "- {name: web, version: 3.0.0-rc.1, repository: URL}",
    ),
    case(
        "build metadata",
        "- {name: meta, version: 1.0.0+build.5, repository: URL}",
    ),
    case(
        "a version with v",
        "- {name: vee, version: 1.1.0, repository: URL}",
    ),
    case(
        "two of them",
        "- {name: web, version: ^2, repository: URL}\n- {name: db, version: ^0.1, repository: URL}",
    ),
    case(
        "one twice under aliases",
        "- {name: web, version: 1.0.0, repository: URL, alias: one}\n- {name: web, version: 1.0.0, repository: URL, alias: two}",
    ),
    case(
        "two versions under aliases",
        "- {name: web, version: 1.0.0, repository: URL, alias: one}\n- {name: web, version: 2.0.0, repository: URL, alias: two}",
    ),
    case(
        "condition and tags",
        "- {name: web, version: 1.0.0, repository: URL, condition: web.enabled, tags: [a, b]}",
    ),
    case(
        "import values",
        "- name: web\n  version: 1.0.0\n  repository: URL\n  import-values:\n  - data\n  - {child: a, parent: b}",
    ),
    case(
        "characters that are escaped",
        "- {name: web, version: '>0 <9', repository: URL, condition: 'a<b>&c'}",
    ),
    case(
        "trailing slash",
        "- {name: web, version: 1.0.0, repository: URL/}",
    ),
    case(
        "a path below the host",
        "- {name: web, version: 1.0.0, repository: URL/team}",
    ),
    Case {
        files: &[LOCAL],
        ..case(
            "a chart in charts",
            "- {name: local, version: 0.3.0}\n- {name: web, version: 1.0.0, repository: URL}",
        )
    },
    Case {
        files: &[(
            "beside/Chart.yaml",
            "apiVersion: v2\nname: beside\nversion: 0.5.0\n",
        )],
        ..case(
            "a chart beside it",
            "- {name: beside, version: ^0.5, repository: 'file://beside'}",
        )
    },
    Case {
        api: "v1",
        files: &[("Chart.yaml", OLD)],
        ..case(
            "requirements of an old chart",
            "- {name: web, version: ^1, repository: URL}",
        )
    },
    case("no dependencies", ""),
];

/// Charts that cannot be completed: both fail, and `charts/` stays as it was.
const FAILURES: &[Case] = &[
    case(
        "no such chart",
        "- {name: nope, version: 1.0.0, repository: URL}",
    ),
    case(
        "no such version",
        "- {name: web, version: 9.9.9, repository: URL}",
    ),
    case(
        "no such range",
        "- {name: web, version: ~7, repository: URL}",
    ),
    case(
        "not a range",
        "- {name: web, version: 'what?', repository: URL}",
    ),
    case(
        "no such directory",
        "- {name: gone, version: 1.0.0, repository: 'file://../gone'}",
    ),
    case("not in charts", "- {name: gone, version: 1.0.0}"),
    case(
        "an alias that is unknown",
        "- {name: web, version: 1.0.0, repository: '@unknown'}",
    ),
];

/// A repository, the stock helm that knows it, and a folder for charts.
pub(crate) struct Rig {
    pub(crate) server: ChartServer,
    tools: Tools,
    pub(crate) scratch: ScratchDir,
}

impl Rig {
    pub(crate) fn new() -> Self {
        let server = ChartServer::start().unwrap();
        let charts = [
            ("web", "1.0.0"),
            ("web", "1.2.0"),
            ("web", "1.2.3"),
            ("web", "2.0.0"),
            ("web", "3.0.0-rc.1"),
            ("db", "0.1.0"),
            ("db", "0.1.7"),
            ("meta", "1.0.0+build.5"),
            ("vee", "v1.1.0"),
        ];
        for (name, version) in charts {
            server.add_chart(name, version, chart_archive(name, version, &[]).unwrap());
        }
        let index = "apiVersion: v1\nentries:\n  web:\n  - {name: web, version: 1.0.0, apiVersion: v2, urls: [web-1.0.0.tgz]}\n";
        server.put("/team/index.yaml", index.into());
        server.put(
            "/team/web-1.0.0.tgz",
            chart_archive("web", "1.0.0", &[]).unwrap(),
        );
        let rig = Self {
            server,
            tools: Tools::locate(ToolSet::Full).unwrap(),
            scratch: ScratchDir::new("dependency").unwrap(),
        };
        // Helm builds from repositories that it knows only; we need no such list.
        for (name, path) in [("root", ""), ("team", "/team")] {
            let url = format!("{}{path}", rig.server.url());
            let added = rig
                .command("helm")
                .args(["repo", "add", name, &url])
                .output()
                .unwrap();
            assert!(added.status.success(), "{added:?}");
        }
        rig
    }

    /// Writes a chart in the folder `who/CASE`.
    pub(crate) fn chart(&self, who: &str, case: &Case) -> std::path::PathBuf {
        let directory = self
            .scratch
            .join(format!("{who}/{}", case.name.replace(' ', "-")));
        let list = case.dependencies.replace("URL", &self.server.url());
        let list = if list.is_empty() {
            String::new()
        } else {
            format!("dependencies:\n{list}\n")
        };
        let chart = format!("apiVersion: v2\nname: app\nversion: 1.0.0\n{list}");
        let mut files = BTreeMap::from([("Chart.yaml", chart.as_str())]);
        files.extend(case.files.iter().copied());
        if case.api == "v1" {
            files.insert("requirements.yaml", &list);
        }
        for (path, text) in files {
            let path = directory.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        directory
    }

    pub(crate) fn command(&self, who: &str) -> Command {
        let mut command = match who {
            "helm" => self.tools.command("helm").unwrap(),
            _ => Command::new(env!("CARGO_BIN_EXE_helm-operator")),
        };
        let home = self.scratch.join(format!("home-{who}"));
        for variable in [
            "HELM_CACHE_HOME",
            "HELM_CONFIG_HOME",
            "HELM_DATA_HOME",
            "HOME",
            "XDG_CACHE_HOME",
            "XDG_CONFIG_HOME",
        ] {
            command.env(variable, &home);
        }
        command
    }

    fn run(&self, who: &str, verb: &str, chart: &Path) -> Output {
        let mut command = self.command(who);
        command
            .args(["dependency", verb])
            .arg(".")
            .current_dir(chart)
            .output()
            .unwrap()
    }
}

/// The files of `charts/` and the lock file without its time. Archives that were made here (of a
/// chart beside this one) are compared by name.
fn result(chart: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(chart.join("charts")).into_iter().flatten() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        let content = match path.is_file() && !name.starts_with("beside") {
            true => fs::read(&path).unwrap(),
            false => Vec::new(),
        };
        found.insert(name, content);
    }
    for name in ["Chart.lock", "requirements.lock"] {
        if let Ok(text) = fs::read_to_string(chart.join(name)) {
            let lines = text.lines().filter(|line| !line.starts_with("generated:"));
            found.insert(
                name.to_owned(),
                lines.collect::<Vec<_>>().join("\n").into_bytes(),
            );
        }
    }
    found
}

fn shown(found: &BTreeMap<String, Vec<u8>>) -> Vec<String> {
    let lock = |content: &Vec<u8>| String::from_utf8_lossy(content).into_owned();
    let row = |(name, content): (&String, &Vec<u8>)| match name.ends_with(".lock") {
        true => format!("{name}: {}", lock(content)),
        false => format!("{name}: {} bytes", content.len()),
    };
    found.iter().map(row).collect()
}

#[test]
fn update_and_build_give_the_same_charts_and_lock_as_helm() {
    let rig = Rig::new();
    assert!(CASES.len() >= 20);
    for case in CASES {
        let (theirs, ours) = (rig.chart("helm", case), rig.chart("us", case));
        for verb in ["update", "build"] {
            let (a, b) = (rig.run("helm", verb, &theirs), rig.run("us", verb, &ours));
            let text = |output: &Output| String::from_utf8_lossy(&output.stderr).into_owned();
            assert_eq!(
                a.status.success(),
                b.status.success(),
                "{} {verb}\n{}\n{}",
                case.name,
                text(&a),
                text(&b)
            );
            let (a, b) = (result(&theirs), result(&ours));
            assert_eq!(shown(&a), shown(&b), "{} {verb}", case.name);
            assert_eq!(a, b, "{} {verb}", case.name);
            fs::remove_dir_all(theirs.join("charts")).ok();
            fs::remove_dir_all(ours.join("charts")).ok();
            for (path, text) in case
                .files
                .iter()
                .filter(|(path, _)| path.starts_with("charts/"))
            {
                for chart in [&theirs, &ours] {
                    fs::create_dir_all(chart.join(path).parent().unwrap()).unwrap();
                    fs::write(chart.join(path), text).unwrap();
                }
            }
        }
    }
}

#[test]
fn a_lock_that_is_out_of_sync_is_refused_by_build() {
    let rig = Rig::new();
    let case = case(
        "stale lock",
        "- {name: web, version: 1.0.0, repository: URL}",
    );
    let chart = rig.chart("us", &case);
    assert!(rig.run("us", "update", &chart).status.success());
    let text = fs::read_to_string(chart.join("Chart.yaml")).unwrap();
    fs::write(
        chart.join("Chart.yaml"),
        text.replace("version: 1.0.0, repository", "version: 1.2.0, repository"),
    )
    .unwrap();
    for who in ["helm", "us"] {
        let output = rig.run(who, "build", &chart);
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(
            !output.status.success() && text.contains("is out of sync with the dependencies file"),
            "{who}: {text}"
        );
    }
}

#[test]
fn a_failure_leaves_charts_as_it_was() {
    let rig = Rig::new();
    for case in FAILURES {
        let case = Case {
            files: &[LOCAL],
            ..*case
        };
        let (theirs, ours) = (rig.chart("helm", &case), rig.chart("us", &case));
        let before = result(&ours);
        let (a, b) = (
            rig.run("helm", "update", &theirs),
            rig.run("us", "update", &ours),
        );
        assert!(
            !a.status.success() && !b.status.success(),
            "{}: {a:?} {b:?}",
            case.name
        );
        assert_eq!(before, result(&ours), "{}", case.name);
    }
}

#[test]
fn a_lock_file_that_is_a_link_is_never_written_through() {
    let rig = Rig::new();
    let chart = rig.chart(
        "us",
        &case(
            "linked lock",
            "- {name: web, version: 1.0.0, repository: URL}",
        ),
    );
    let outside = rig.scratch.join("outside");
    fs::write(&outside, "precious").unwrap();
    std::os::unix::fs::symlink(&outside, chart.join("Chart.lock")).unwrap();
    let output = rig.run("us", "update", &chart);
    assert!(!output.status.success());
    assert_eq!(fs::read_to_string(&outside).unwrap(), "precious");
}

#[test]
fn list_prints_what_helm_prints() {
    let rig = Rig::new();
    for case in CASES {
        let chart = rig.chart("both", case);
        let (a, b) = (
            rig.run("helm", "list", &chart),
            rig.run("us", "list", &chart),
        );
        let text = |output: Output| String::from_utf8_lossy(&output.stdout).into_owned();
        assert_eq!(text(a), text(b), "{}", case.name);
    }
}
