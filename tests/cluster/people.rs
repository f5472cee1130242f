//! What people do behind the operator's back has an outcome that does not depend on chance.

use crate::support::{Lone, condition, lone_plane, text};

fn released(lone: &Lone<'_>) -> Vec<(i64, String)> {
    lone.install("hello");
    lone.records("hello")
}

fn states(of: &[(i64, &str)]) -> Vec<(i64, String)> {
    of.iter()
        .map(|(revision, status)| (*revision, (*status).to_owned()))
        .collect()
}

/// The chart as a directory for the stock helm.
fn chart() -> testkit::ScratchDir {
    let directory = testkit::ScratchDir::new("chart").unwrap();
    let write = |name: &str, text: &str| std::fs::write(directory.join(name), text).unwrap();
    std::fs::create_dir(directory.join("templates")).unwrap();
    write(
        "Chart.yaml",
        "apiVersion: v2\nname: hello\nversion: 1.0.0\n",
    );
    write("values.yaml", "greeting: hello\n");
    write("templates/map.yaml", crate::support::TEMPLATE);
    directory
}

#[test]
fn an_upgrade_by_hand_is_taken_back() {
    let lone = Lone::start(lone_plane(), "by-hand", &[]);
    released(&lone);
    let chart = chart();
    let path = chart.path().to_str().unwrap();
    lone.helm(&[
        "upgrade",
        "hello",
        path,
        "--set=greeting=mine",
        "--force-conflicts",
    ]);
    lone.greets("hello", "hello");
    lone.until("three revisions", || {
        lone.records("hello") == states(&[(1, "superseded"), (2, "superseded"), (3, "deployed")])
    });
}

#[test]
fn a_rollback_by_hand_is_taken_back() {
    let lone = Lone::start(lone_plane(), "back", &[]);
    released(&lone);
    lone.apply("hello", "values: {greeting: second}");
    lone.greets("hello", "second");
    lone.until("settled", || {
        lone.records("hello") == states(&[(1, "superseded"), (2, "deployed")])
    });
    lone.helm(&["rollback", "hello", "1", "--force-conflicts"]);
    lone.until("the second again", || lone.records("hello").len() == 4);
    lone.greets("hello", "second");
}

#[test]
fn an_uninstall_by_hand_is_taken_back() {
    let lone = Lone::start(lone_plane(), "gone", &[]);
    released(&lone);
    lone.helm(&["uninstall", "hello"]);
    lone.greets("hello", "hello");
    lone.until("installed", || {
        lone.records("hello") == states(&[(1, "deployed")])
    });
    lone.helm(&["uninstall", "hello", "--keep-history"]);
    lone.until("installed over the kept history", || {
        lone.records("hello") == states(&[(1, "superseded"), (2, "deployed")])
    });
    lone.greets("hello", "hello");
}

#[test]
fn a_record_that_was_deleted_or_spoilt_is_made_anew() {
    let lone = Lone::start(lone_plane(), "spoilt", &[]);
    released(&lone);
    let uid = text(&lone.config_map("hello").unwrap(), "/metadata/uid");
    lone.kubectl(&["delete", "secret", "sh.helm.release.v1.hello.v1"]);
    lone.until("a record again", || {
        lone.records("hello") == states(&[(1, "deployed")])
    });
    let garbage = "--patch={\"data\":{\"release\":\"Z2FyYmFnZQ==\"}}";
    let record = "sh.helm.release.v1.hello.v1";
    lone.kubectl(&["patch", "secret", record, "--type=merge", garbage]);
    lone.apply("hello", "values: {greeting: again}");
    lone.greets("hello", "again");
    lone.until("the garbage is superseded", || {
        lone.records("hello") == states(&[(1, "superseded"), (2, "deployed")])
    });
    lone.helm(&["status", "hello"]);
    let map = lone.config_map("hello").unwrap();
    assert_eq!(text(&map, "/metadata/uid"), uid, "it was made anew");
}

#[test]
fn a_name_that_is_taken_is_refused_and_left_alone() {
    let lone = Lone::start(lone_plane(), "taken", &[]);
    let before = released(&lone);
    let url = lone.repository.url();
    let second = format!(
        "apiVersion: helm.fluxcd.io/v1\nkind: HelmRelease\nmetadata: {{name: second}}\nspec:\n  \
         releaseName: hello\n  chart: {{git: \"{url}\", path: charts/hello, ref: main}}\n  \
         values: {{greeting: mine}}\n"
    );
    lone.rig.apply(&lone.namespace, &second).unwrap();
    lone.wait("second", |release| {
        condition(release, "Ready") == "False OwnedByOther"
    });
    // Nor does it take anything with it when it goes.
    lone.kubectl(&["delete", "helmrelease", "second"]);
    lone.greets("hello", "hello");
    assert_eq!(lone.records("hello"), before);
}
