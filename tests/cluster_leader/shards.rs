//! A fleet that is split over daemons: each has a Lease of its own and writes to its part alone.

use std::collections::BTreeSet;

use crate::fleet::{Fleet, LIMIT, Replica, SHORT, SHORT_TAKEOVER};

/// Both daemons work at the same time, and each release is written by one of them.
fn each_release_has_one_writer(fleet: &Fleet, daemons: [&Replica<'_>; 2]) {
    for daemon in daemons {
        daemon.wait_until_leading(LIMIT);
    }
    fleet.wait_for(&fleet.push("1.1.0"), &daemons);
    let mut all = BTreeSet::new();
    for number in 0..fleet.size {
        let status = fleet.writers(&format!("/helmreleases/r{number}/status"));
        let objects = fleet.writers(&format!("/configmaps/r{number}-0"));
        assert_eq!(status.len(), 1, "r{number}: {status:?}");
        assert_eq!(status, objects, "r{number}");
        all.extend(status);
    }
    let users: BTreeSet<String> = daemons.map(|daemon| daemon.user.clone()).into();
    assert_eq!(all, users);
    fleet.check_histories();
}

#[test]
fn shards_by_hash_have_a_lease_each_and_share_no_release() {
    let fleet = Fleet::new(8, 1);
    fleet.apply();
    let start = |shard: &str| fleet.start(&[&SHORT[..], &[shard]].concat());
    let (first, second) = (start("--shard=1/2"), start("--shard=2/2"));
    each_release_has_one_writer(&fleet, [&first, &second]);
    let holders = ["helm-operator-1-of-2", "helm-operator-2-of-2"].map(|lease| fleet.holder(lease));
    assert!(
        holders.iter().all(|holder| !holder.is_empty()) && holders[0] != holders[1],
        "{holders:?}"
    );
    // A standby of one shard takes that shard over, and no other.
    let standby = start("--shard=1/2");
    first.daemon.kill().unwrap();
    standby.wait_until_leading(SHORT_TAKEOVER);
    fleet.wait_for(&fleet.push("1.2.0"), &[&standby, &second]);
    for number in 0..fleet.size {
        let status = fleet.writers(&format!("/helmreleases/r{number}/status"));
        let in_first = status.contains(&first.user);
        assert_eq!(
            in_first,
            status.contains(&standby.user),
            "r{number}: {status:?}"
        );
        assert_ne!(
            in_first,
            status.contains(&second.user),
            "r{number}: {status:?}"
        );
    }
    fleet.check_histories();
}

#[test]
fn shards_by_label_have_a_lease_each_and_share_no_release() {
    let fleet = Fleet::new(6, 1);
    fleet.apply();
    let start = |selector: &str| fleet.start(&[&SHORT[..], &[selector]].concat());
    let first = start("--watch-label-selector=half=0");
    let second = start("--watch-label-selector=half=1");
    each_release_has_one_writer(&fleet, [&first, &second]);
}

#[test]
fn shards_by_namespace_have_a_lease_each_and_share_no_release() {
    let fleet = Fleet::new(3, 1);
    fleet.apply();
    let other = fleet.plane.namespace("other").unwrap();
    let here = format!("--allow-namespace={}", fleet.namespace);
    let there = format!("--allow-namespace={other}");
    let start = |scope: &str| fleet.start(&[&SHORT[..], &[scope]].concat());
    let (first, second) = (start(&here), start(&there));
    for daemon in [&first, &second] {
        daemon.wait_until_leading(LIMIT);
    }
    let url = fleet.repository.url();
    let manifest = format!(
        "apiVersion: helm.fluxcd.io/v1\nkind: HelmRelease\nmetadata: {{name: far}}\nspec:\n  releaseName: far\n  \
         chart: {{git: \"{url}\", path: charts/hello, ref: main}}\n"
    );
    testkit::apply(&fleet.plane, &other, &manifest).unwrap();
    fleet.wait_for(&fleet.push("1.1.0"), &[&first, &second]);
    second
        .daemon
        .process()
        .wait_until(LIMIT, || !fleet.writers("/configmaps/far-0").is_empty())
        .unwrap();
    let only = |daemon: &Replica<'_>| BTreeSet::from([daemon.user.clone()]);
    assert_eq!(
        fleet.writers(&format!("/namespaces/{other}/")),
        only(&second)
    );
    assert_eq!(
        fleet.writers(&format!("/namespaces/{}/", fleet.namespace)),
        only(&first)
    );
}
