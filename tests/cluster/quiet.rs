//! Nothing changed costs nothing.

use std::time::Duration;

use testkit::{ControlPlane, Options, Rig};

use crate::support::{BINARY, LIMIT, shared, write_chart};

/// Fifty settled releases, verified every few seconds, statuses refreshed every second, commits beside their charts
/// all the time: for a minute the API server is not written to, nor asked for releases or what they are made of.
#[test]
fn fifty_settled_releases_cause_no_write_in_a_minute() {
    let plane = ControlPlane::start(Options::default()).unwrap();
    let flags = [
        "--workers=4",
        "--charts-sync-interval=5s",
        "--status-update-interval=1s",
        "--git-poll-interval=2s",
    ];
    let rig = Rig::start(&plane, BINARY, &flags).unwrap();
    let namespace = plane.namespace("quiet").unwrap();
    let repository = rig.git.repository("quiet").unwrap();
    write_chart(&repository, "1.0.0");
    repository.commit("Add the chart").unwrap();
    let url = repository.url();
    let manifests: Vec<String> = (0..50)
        .map(|number| {
            format!(
                "apiVersion: helm.fluxcd.io/v1\nkind: HelmRelease\nmetadata: {{name: r{number}}}\nspec:\n  \
                 chart: {{git: \"{url}\", path: charts/hello, ref: main}}\n  values: {{n: {number}}}\n"
            )
        })
        .collect();
    rig.apply(&namespace, &manifests.join("---\n")).unwrap();
    for number in 0..50 {
        rig.wait_until_ready(&namespace, &format!("r{number}"), LIMIT)
            .unwrap();
    }
    // The status loop may still have to tell of the last records.
    std::thread::sleep(Duration::from_secs(3));
    let before = plane.request_counts().unwrap();
    rig.git.traffic().forget();
    for number in 0..20 {
        repository
            .commit_file("README.md", format!("{number}\n"))
            .unwrap();
        std::thread::sleep(Duration::from_secs(3));
    }
    assert!(
        rig.git.traffic().count() > 40,
        "each push was seen and fetched"
    );
    let after = plane.request_counts().unwrap().since(&before);
    assert_eq!(after.writes(), Default::default());
    for resource in ["helmreleases", "secrets", "configmaps"] {
        for verb in ["GET", "LIST"] {
            assert_eq!(after.of(verb, resource), 0, "{verb} {resource}");
        }
    }
}

/// glibc reads how many arenas it may have before `main`: the daemon has been replaced by itself, with the same number,
/// name and arguments.
#[cfg(target_env = "gnu")]
#[test]
fn the_daemon_starts_itself_again_with_one_arena() {
    let pid = shared().daemon.process().pid();
    let read = |file: &str| {
        let bytes = std::fs::read(format!("/proc/{pid}/{file}")).unwrap();
        String::from_utf8_lossy(&bytes).into_owned()
    };
    let environment = read("environ");
    let arenas = environment
        .split('\0')
        .find(|entry| entry.starts_with("MALLOC_ARENA_MAX="));
    assert_eq!(arenas, Some("MALLOC_ARENA_MAX=1"));
    assert_eq!(read("comm").trim(), "helm-operator");
    assert_eq!(read("cmdline").split('\0').nth(1), Some("run"));
}
