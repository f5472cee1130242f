//! `helm-operator diff`: what a sync would change.

use std::process::{Command, Output};

use crate::support::{BINARY, Bench, write_chart};

fn diff(bench: &Bench, name: &str) -> Output {
    let mut diff = Command::new(BINARY);
    diff.args(["diff", name, "--git-allow-local"]);
    diff.args(["--namespace", &bench.namespace]);
    diff.env("KUBECONFIG", bench.rig.plane.kubeconfig());
    diff.output().unwrap()
}

#[test]
fn a_diff_tells_by_its_exit_code_whether_a_sync_would_change_something() {
    let bench = Bench::new("diff");
    bench.apply("hello", "values: {greeting: good morning}");
    bench.ready("hello");
    let same = diff(&bench, "hello");
    assert_eq!(same.status.code(), Some(0), "{same:?}");
    assert!(same.stdout.is_empty(), "{same:?}");

    // The daemon is kept from doing what is to be seen.
    bench.apply("hello", "suspend: true\nvalues: {greeting: good night}");
    write_chart(&bench.repository, "1.1.0");
    let commit = bench.repository.commit("Release 1.1.0").unwrap();
    let other = diff(&bench, "hello");
    assert_eq!(other.status.code(), Some(1), "{other:?}");
    let text = String::from_utf8(other.stdout).unwrap();
    let expected = format!(
        "--- v1 ConfigMap hello revision 1\n+++ v1 ConfigMap hello {commit}\n@@ -1,6 +1,6 @@\n \
         apiVersion: v1\n data:\n-  greeting: good morning\n+  greeting: good night\n   revision: \"1\"\n \
         kind: ConfigMap\n metadata:\n"
    );
    assert_eq!(text, expected);
    assert_eq!(bench.records("hello").len(), 1);

    let none = diff(&bench, "no-such-release");
    assert_eq!(none.status.code(), Some(2), "{none:?}");
}
