//! The whole path: a chart pushed to git runs in the cluster.

use crate::support::{Bench, condition, text, write_chart};

#[test]
fn a_push_installs_and_upgrades_a_release() {
    let bench = Bench::new("path");
    bench.apply("hello", "values: {greeting: good morning}");
    let installed = bench.ready("hello");
    let first = bench.repository.head().unwrap();
    assert_eq!(text(&installed, "/status/revision"), first);
    assert_eq!(text(&installed, "/status/chart"), "hello-1.0.0");
    assert_eq!(text(&installed, "/status/phase"), "Succeeded");
    assert_eq!(condition(&installed, "Released"), "True Succeeded");
    assert_eq!(bench.greeting("hello").as_deref(), Some("good morning"));

    write_chart(&bench.repository, "1.1.0");
    let second = bench.repository.commit("Release 1.1.0").unwrap();
    bench.pushed();
    let upgraded = bench.wait("hello", |release| {
        text(release, "/status/revision") == second
    });
    assert_eq!(text(&upgraded, "/status/chart"), "hello-1.1.0");
    assert_eq!(
        bench.records("hello"),
        [(1, "superseded".to_owned()), (2, "deployed".to_owned())]
    );
    let synced = bench.told("hello", "ReleaseSynced", 2);
    assert_eq!(
        bench.events("hello").len(),
        2,
        "{:?}",
        bench.events("hello")
    );
    let last = &synced[1];
    assert!(
        last.contains("hello-1.1.0") && last.contains(&second),
        "{last}"
    );
}

#[test]
fn a_commit_beside_the_chart_changes_nothing() {
    let bench = Bench::new("beside");
    bench.apply("hello", "");
    let before = bench.ready("hello");
    bench.repository.commit_file("README.md", "words").unwrap();
    bench.pushed();
    // A change of the chart that follows is seen, so the commit beside it was looked at.
    write_chart(&bench.repository, "1.0.1");
    let second = bench.repository.commit("Release 1.0.1").unwrap();
    bench.pushed();
    bench.wait("hello", |release| {
        text(release, "/status/revision") == second
    });
    assert_ne!(text(&before, "/status/revision"), second);
    assert_eq!(bench.records("hello").len(), 2);
}

#[test]
fn a_deleted_helm_release_takes_its_release_with_it() {
    let bench = Bench::new("delete");
    bench.apply("hello", "");
    bench.ready("hello");
    bench.kubectl(&["delete", "hr", "hello", "--timeout=60s"]);
    assert_eq!(bench.greeting("hello"), None);
    assert_eq!(bench.records("hello"), []);
}

#[test]
fn an_abandoned_release_stays() {
    let bench = Bench::new("abandon");
    bench.apply("hello", "");
    bench.ready("hello");
    bench.kubectl(&["annotate", "hr", "hello", "helm.fluxcd.io/abandon=true"]);
    bench.kubectl(&["delete", "hr", "hello", "--timeout=60s"]);
    assert_eq!(bench.greeting("hello").as_deref(), Some("hello"));
    assert_eq!(bench.records("hello"), [(1, "deployed".to_owned())]);
}
