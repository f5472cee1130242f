//! What people do behind the operator's back has an outcome that does not depend on chance.

use crate::support::{POLLS, Solo, condition, text};

fn released(solo: &Solo<'_>) -> Vec<(i64, String)> {
    solo.install("hello");
    solo.records("hello")
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
    let solo = Solo::new("by-hand", &[POLLS]);
    released(&solo);
    let chart = chart();
    let path = chart.path().to_str().unwrap();
    solo.helm(&[
        "upgrade",
        "hello",
        path,
        "--set=greeting=mine",
        "--force-conflicts",
    ]);
    solo.greets("hello", "hello");
    solo.until("three revisions", || {
        solo.records("hello") == states(&[(1, "superseded"), (2, "superseded"), (3, "deployed")])
    });
}

#[test]
fn a_rollback_by_hand_is_taken_back() {
    let solo = Solo::new("back", &[POLLS]);
    released(&solo);
    solo.apply("hello", "values: {greeting: second}");
    solo.greets("hello", "second");
    solo.until("settled", || {
        solo.records("hello") == states(&[(1, "superseded"), (2, "deployed")])
    });
    solo.helm(&["rollback", "hello", "1", "--force-conflicts"]);
    solo.until("the second again", || solo.records("hello").len() == 4);
    solo.greets("hello", "second");
}

#[test]
fn an_uninstall_by_hand_is_taken_back() {
    let solo = Solo::new("gone", &[POLLS]);
    released(&solo);
    solo.helm(&["uninstall", "hello"]);
    solo.greets("hello", "hello");
    solo.until("installed", || {
        solo.records("hello") == states(&[(1, "deployed")])
    });
    solo.helm(&["uninstall", "hello", "--keep-history"]);
    solo.until("installed over the kept history", || {
        solo.records("hello") == states(&[(1, "superseded"), (2, "deployed")])
    });
    solo.greets("hello", "hello");
}

#[test]
fn a_record_that_was_deleted_or_spoilt_is_made_anew() {
    let solo = Solo::new("spoilt", &[POLLS]);
    released(&solo);
    let uid = text(&solo.config_map("hello").unwrap(), "/metadata/uid");
    solo.kubectl(&["delete", "secret", "sh.helm.release.v1.hello.v1"]);
    solo.until("a record again", || {
        solo.records("hello") == states(&[(1, "deployed")])
    });
    let garbage = "--patch={\"data\":{\"release\":\"Z2FyYmFnZQ==\"}}";
    let record = "sh.helm.release.v1.hello.v1";
    solo.kubectl(&["patch", "secret", record, "--type=merge", garbage]);
    solo.apply("hello", "values: {greeting: again}");
    solo.greets("hello", "again");
    solo.until("the garbage is superseded", || {
        solo.records("hello") == states(&[(1, "superseded"), (2, "deployed")])
    });
    solo.helm(&["status", "hello"]);
    let map = solo.config_map("hello").unwrap();
    assert_eq!(text(&map, "/metadata/uid"), uid, "it was made anew");
}

#[test]
fn a_name_that_is_taken_is_refused_and_left_alone() {
    let solo = Solo::new("taken", &[POLLS]);
    let before = released(&solo);
    let second = solo.manifest("second", "values: {greeting: mine}");
    let second = second.replace("releaseName: second", "releaseName: hello");
    solo.rig.apply(&solo.namespace, &second).unwrap();
    solo.wait("second", |release| {
        condition(release, "Ready") == "False OwnedByOther"
    });
    // Nor does it take anything with it when it goes.
    solo.kubectl(&["delete", "helmrelease", "second"]);
    solo.greets("hello", "hello");
    assert_eq!(solo.records("hello"), before);
}
