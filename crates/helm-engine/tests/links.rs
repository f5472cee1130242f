//! Symbolic links in the directory of a chart, and what is said of those that lead nowhere.

#![cfg(unix)]
#![expect(clippy::unwrap_used, reason = "tests")]

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use helm_engine::{Limits, load};

/// What loading says of a chart with one link, with `DIR` for its folder.
fn refusal(link: &str, target: &str) -> String {
    let folder = tempfile::tempdir().unwrap();
    fs::write(
        folder.path().join("Chart.yaml"),
        "{apiVersion: v2, name: c, version: 1.0.0}",
    )
    .unwrap();
    let link = folder.path().join(link);
    fs::create_dir_all(link.parent().unwrap()).unwrap();
    symlink(target, link).unwrap();
    let error = load(folder.path(), &Limits::default()).unwrap_err();
    let here: &Path = folder.path();
    error.to_string().replace(&*here.to_string_lossy(), "DIR")
}

#[test]
fn links_that_lead_nowhere_are_told_as_helm_tells_them() {
    for (link, target, expected) in [
        (
            "templates/x.yaml",
            "nowhere",
            "error evaluating symlink DIR/templates/x.yaml: lstat DIR/templates/nowhere: no such file or directory",
        ),
        (
            "x",
            "no/such/file",
            "error evaluating symlink DIR/x: lstat DIR/no: no such file or directory",
        ),
        (
            "x",
            "x",
            "error evaluating symlink DIR/x: EvalSymlinks: too many links",
        ),
    ] {
        assert_eq!(refusal(link, target), expected, "{link} -> {target}");
    }
}

#[test]
fn a_folder_that_holds_itself_ends_where_the_system_ends() {
    let deepest = format!("DIR{}", "/d".repeat(41));
    assert_eq!(
        refusal("d", "."),
        format!("open {deepest}: too many levels of symbolic links")
    );
}
