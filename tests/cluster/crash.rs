//! A kill at any moment needs no person.

use std::sync::OnceLock;

use testkit::{
    ControlPlane, Daemon, DaemonOptions, Fault, FaultProxy, GitOptions, GitServer, Options, Victim,
};

use crate::support::{BINARY, LIMIT, records, text, write_chart};

/// A control plane without the shared daemon, which would work on the same releases.
fn plane() -> &'static ControlPlane {
    static PLANE: OnceLock<ControlPlane> = OnceLock::new();
    PLANE.get_or_init(|| {
        let plane = ControlPlane::start(Options::default()).unwrap();
        testkit::apply_crd(&plane).unwrap();
        plane
    })
}

/// The daemon is killed before or after its `write`th write of an upgrade, started again, and left to
/// itself.
fn killed_in_upgrade(name: &str, write: usize, fault: fn(Victim) -> Fault) {
    let plane = plane();
    let proxy = FaultProxy::start(plane).unwrap();
    let git = GitServer::start(GitOptions::default()).unwrap();
    let namespace = plane.namespace(name).unwrap();
    let repository = git.repository("charts").unwrap();
    write_chart(&repository, "1.0.0");
    repository.commit("Add the chart").unwrap();
    let only = format!("--allow-namespace={namespace}");
    let flags = [
        only.as_str(),
        "--workers=1",
        "--charts-sync-interval=10m",
        "--git-poll-interval=1s",
    ];
    let options = DaemonOptions::local(BINARY, proxy.kubeconfig().unwrap(), &flags);
    let daemon = Daemon::start(options).unwrap();
    let mut rig = testkit::Rig { plane, git, daemon };
    let url = repository.url();
    let manifest = format!(
        "apiVersion: helm.fluxcd.io/v1\nkind: HelmRelease\nmetadata: {{name: hello}}\nspec:\n  \
         releaseName: hello\n  chart: {{git: \"{url}\", path: charts/hello, ref: main}}\n"
    );
    rig.apply(&namespace, &manifest).unwrap();
    rig.wait_until_ready(&namespace, "hello", LIMIT).unwrap();

    let controls = rig.daemon.controls();
    proxy.traffic().forget();
    proxy
        .traffic()
        .fault_at_write(write, fault(Victim::from(controls.clone())));
    write_chart(&repository, "1.1.0");
    let commit = repository.commit("Release 1.1.0").unwrap();
    controls.wait(LIMIT).unwrap();
    proxy.traffic().heal();
    rig.daemon.start_again().unwrap();
    rig.wait_for(&namespace, "hello", LIMIT, |release| {
        text(release, "/status/revision") == commit && testkit::is_ready(release)
    })
    .unwrap();
    let records = records(plane, &namespace, "hello");
    let (newest, status) = records.last().unwrap();
    assert_eq!(status, "deployed", "{records:?}");
    assert!(*newest <= 3, "{records:?}");
    assert!(
        !records
            .iter()
            .any(|(_, status)| status.starts_with("pending")),
        "{records:?}"
    );
}

#[test]
fn a_kill_before_the_record_of_an_upgrade_is_written() {
    killed_in_upgrade("kill-a", 2, Fault::KillBefore);
}

#[test]
fn a_kill_after_the_record_of_an_upgrade_is_written() {
    killed_in_upgrade("kill-b", 2, Fault::KillAfter);
}

#[test]
fn a_kill_between_the_objects_of_an_upgrade_and_its_end() {
    killed_in_upgrade("kill-c", 3, Fault::KillAfter);
}

#[test]
fn a_kill_between_the_last_two_writes_of_an_upgrade() {
    killed_in_upgrade("kill-d", 4, Fault::KillAfter);
}
