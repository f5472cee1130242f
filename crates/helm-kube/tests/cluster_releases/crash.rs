//! A client is killed before and after each of its requests, and starts again.
//!
//! The client is this very test program, started as a process of its own that talks to the API
//! server through the fault proxy. A first run without faults counts its requests.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use helm_engine::{HookEvent, HookPhase, Status};
use helm_kube::{ClusterOptions, DIGEST, Desired, NextAction};
use serde_json::Value;
use testkit::{ControlPlane, Fault, FaultProxy, Process, ScratchDir, Victim};

use crate::full::job;
use crate::support::{Actor, Site, config_map, desired, hook};

/// What the client is doing when it is killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Scenario {
    Install,
    Upgrade,
    Rollback,
    Uninstall,
    Test,
}

impl Scenario {
    const ALL: [Self; 5] = [
        Self::Install,
        Self::Upgrade,
        Self::Rollback,
        Self::Uninstall,
        Self::Test,
    ];

    fn parse(name: &str) -> Self {
        *Self::ALL
            .iter()
            .find(|scenario| format!("{scenario:?}") == name)
            .unwrap()
    }

    /// What is there before.
    async fn prepare(self, actor: &Actor) {
        if self == Self::Install {
            return;
        }
        actor.deploy(version(self, 1)).await.unwrap();
        if self == Self::Rollback {
            actor.deploy(version(self, 2)).await.unwrap();
        }
    }

    /// What the client does, be it started for the first time or again: it looks what is there and
    /// does what is left to do.
    async fn perform(self, actor: &Actor) {
        match self {
            Self::Install => reach(actor, version(self, 1)).await,
            Self::Upgrade => reach(actor, version(self, 2)).await,
            Self::Rollback => roll_back(actor).await,
            Self::Uninstall => {
                actor.uninstall(false).await.unwrap();
            }
            Self::Test => {
                actor.test().await.unwrap();
            }
        }
        actor.mend().await;
    }

    fn expected_states(self) -> &'static str {
        match self {
            Self::Install | Self::Test => "1 deployed",
            Self::Upgrade => "1 superseded, 2 deployed",
            Self::Rollback => "1 superseded, 2 superseded, 3 deployed",
            Self::Uninstall => "",
        }
    }
}

/// Deploys, unless the same inputs are deployed already.
async fn reach(actor: &Actor, desired: Desired) {
    let history = actor.history().await;
    let digest = desired.annotations.get(DIGEST);
    let is_there = history.newest().is_some_and(|newest| {
        newest.status == Status::Deployed && newest.annotations.get(DIGEST) == digest
    });
    if !is_there {
        actor.deploy(desired).await.unwrap();
    }
}

async fn roll_back(actor: &Actor) {
    let history = actor.history().await;
    if let NextAction::Resume { .. } = actor.plan(&history, None).next {
        actor.resume().await.unwrap();
    } else if history.newest().is_some_and(|newest| newest.revision == 2) {
        actor.rollback(Some(1)).await.unwrap();
    }
}

/// Two versions: one object stays as it is, one changes, one goes, one comes; with hooks of the
/// scenario only, as Jobs take their time.
fn version(scenario: Scenario, number: u32) -> Desired {
    let own = if number == 1 { "old" } else { "new" };
    let manifest =
        config_map("same", "x") + &config_map("changing", own) + &config_map(own, "value");
    let mut version = desired(&format!("{number}.0.0"), manifest);
    let (before, after) = match scenario {
        Scenario::Install => (HookEvent::PreInstall, HookEvent::PostInstall),
        Scenario::Upgrade => (HookEvent::PreUpgrade, HookEvent::PostUpgrade),
        Scenario::Rollback => (HookEvent::PreRollback, HookEvent::PostRollback),
        Scenario::Uninstall => (HookEvent::PreDelete, HookEvent::PostDelete),
        Scenario::Test => (HookEvent::Test, HookEvent::PreDelete),
    };
    let fleeting = config_map("fleeting", "z");
    let mut fleeting = hook("fleeting", "ConfigMap", &[after], fleeting);
    fleeting.delete_policies = vec!["hook-succeeded".to_owned()];
    version.hooks = vec![hook("before", "Job", &[before], job("before")), fleeting];
    version
}

/// What a namespace holds: objects of the release by name, with their data.
fn live(site: &Site) -> BTreeMap<String, Value> {
    let path = format!("/api/v1/namespaces/{}/configmaps", site.namespace());
    let list = site.plane.get(&path).unwrap();
    let items = list["items"].as_array().unwrap().iter();
    items
        .map(|item| {
            (
                item["metadata"]["name"].as_str().unwrap().to_owned(),
                item.clone(),
            )
        })
        .filter(|(name, _)| name != "kube-root-ca.crt")
        .collect()
}

fn data(objects: &BTreeMap<String, Value>) -> String {
    let mut text = String::new();
    for (name, object) in objects {
        write!(text, "{name}={} ", object["data"]["key"].as_str().unwrap()).unwrap();
    }
    text
}

fn uid(objects: &BTreeMap<String, Value>, name: &str) -> Option<String> {
    objects
        .get(name)
        .map(|object| object["metadata"]["uid"].to_string())
}

fn job_uid(site: &Site, name: &str) -> Option<String> {
    let path = format!("/apis/batch/v1/namespaces/{}/jobs/{name}", site.namespace());
    site.plane
        .get(&path)
        .ok()
        .map(|job| job["metadata"]["uid"].to_string())
}

/// Hooks that have succeeded in the action that was interrupted, with the Jobs that ran them.
async fn succeeded_hooks(site: &Site) -> BTreeMap<String, Option<String>> {
    let records = site.records().await;
    let Some(newest) = records.last().map(|stored| stored.release.clone()) else {
        return BTreeMap::new();
    };
    let since = match newest.info.status {
        status if status.is_pending() => newest.info.last_deployed,
        Status::Uninstalling => newest.info.deleted,
        _ => return BTreeMap::new(),
    };
    let hooks = newest.hooks.iter().filter(|hook| {
        hook.last_run.phase == HookPhase::Succeeded && hook.last_run.started_at >= since
    });
    hooks
        .map(|hook| (hook.name.clone(), job_uid(site, &hook.name)))
        .collect()
}

/// A client in a process of its own, behind the proxy.
fn client(proxy: &FaultProxy<'_>, site: &Site, scenario: Scenario, log: &ScratchDir) -> Process {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args([
            "crash::client_process",
            "--exact",
            "--ignored",
            "--nocapture",
        ])
        .env("CRASH_SCENARIO", format!("{scenario:?}"))
        .env("CRASH_NAMESPACE", site.namespace())
        .env("KUBECONFIG", proxy.kubeconfig().unwrap());
    Process::spawn("client", &command, &log.path().join("log")).unwrap()
}

fn wait_for(process: &Process) -> bool {
    for _ in 0..6000 {
        if let Some(status) = process.controls().try_wait().unwrap() {
            return status.success();
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    panic!("the client does not end:\n{}", process.log());
}

#[ignore = "is started by the other tests as a process of its own"]
#[tokio::test]
async fn client_process() {
    let scenario = Scenario::parse(&std::env::var("CRASH_SCENARIO").unwrap());
    let namespace = std::env::var("CRASH_NAMESPACE").unwrap();
    let kubeconfig = PathBuf::from(std::env::var("KUBECONFIG").unwrap());
    let actor = Actor::new(&kubeconfig, &namespace, ClusterOptions::default());
    scenario.perform(&actor).await;
}

/// One run with a fault at one request, and what must hold afterwards.
struct Trial<'a> {
    plane: &'static ControlPlane,
    scenario: Scenario,
    expected: &'a str,
}

impl Trial<'_> {
    fn site(&self) -> Site {
        Site::full(&format!("{:?}", self.scenario).to_lowercase())
    }

    /// Counts the requests of a run without faults; returns what is live in the end, too.
    async fn learn(plane: &'static ControlPlane, scenario: Scenario) -> (usize, String) {
        let trial = Trial {
            plane,
            scenario,
            expected: "",
        };
        let site = trial.site();
        scenario.prepare(&site.actor).await;
        let proxy = FaultProxy::start(plane).unwrap();
        let log = ScratchDir::new("client").unwrap();
        let process = client(&proxy, &site, scenario, &log);
        assert!(wait_for(&process), "{}", process.log());
        assert_eq!(site.states().await, scenario.expected_states());
        (proxy.traffic().count(), data(&live(&site)))
    }

    async fn run(&self, fault_at: usize, is_before: bool) {
        let site = self.site();
        self.scenario.prepare(&site.actor).await;
        let before = live(&site);
        let proxy = FaultProxy::start(self.plane).unwrap();
        let victim = Victim::default();
        let fault = if is_before {
            Fault::KillBefore(victim.clone())
        } else {
            Fault::KillAfter(victim.clone())
        };
        proxy.traffic().fault_at(fault_at, fault);
        let log = ScratchDir::new("client").unwrap();
        let process = client(&proxy, &site, self.scenario, &log);
        victim.set(process.controls());
        wait_for(&process);
        let ran = succeeded_hooks(&site).await;

        self.scenario.perform(&site.actor).await;
        let place = format!(
            "{:?} killed {} request {fault_at}",
            self.scenario,
            if is_before { "before" } else { "after" }
        );
        self.check(&site, &place, &before).await;
        for (hook, job) in ran {
            let now = job_uid(&site, &hook);
            assert!(
                now.is_none() || now == job,
                "{place}: hook {hook} was run again"
            );
        }
    }

    async fn check(&self, site: &Site, place: &str, before: &BTreeMap<String, Value>) {
        assert_eq!(
            site.states().await,
            self.scenario.expected_states(),
            "{place}"
        );
        let after = live(site);
        assert_eq!(data(&after), self.expected, "{place}");
        for name in ["same", "changing"] {
            if let (Some(old), Some(new)) = (uid(before, name), uid(&after, name)) {
                assert_eq!(old, new, "{place}: {name} was made anew");
            }
        }
        if self.scenario != Scenario::Uninstall {
            let plan = site.plan(&site.history().await, None);
            assert!(!plan.has_mending(), "{place}: {plan:?}");
        }
    }
}

/// How many trials run at a time: they mostly wait for Jobs.
const THREADS: usize = 6;

/// Runs all points of one scenario.
fn enumerate(scenario: Scenario) {
    let plane = ControlPlane::shared_full().unwrap();
    let (count, expected) = block_on(Trial::learn(plane, scenario));
    let trial = Trial {
        plane,
        scenario,
        expected: &expected,
    };
    let next = AtomicUsize::new(0);
    let work = || {
        loop {
            let point = next.fetch_add(1, Ordering::Relaxed);
            if point >= 2 * count {
                break;
            }
            block_on(trial.run(1 + point / 2, point.is_multiple_of(2)));
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(work);
        }
    });
    println!("{scenario:?}: {count} requests, {} crash points", 2 * count);
}

fn block_on<T>(future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    runtime.unwrap().block_on(future)
}

#[test]
fn an_install_survives_a_crash_at_every_request() {
    enumerate(Scenario::Install);
}

#[test]
fn an_upgrade_survives_a_crash_at_every_request() {
    enumerate(Scenario::Upgrade);
}

#[test]
fn a_rollback_survives_a_crash_at_every_request() {
    enumerate(Scenario::Rollback);
}

#[test]
fn an_uninstall_survives_a_crash_at_every_request() {
    enumerate(Scenario::Uninstall);
}

#[test]
fn a_test_survives_a_crash_at_every_request() {
    enumerate(Scenario::Test);
}

/// Runs the client until it is killed at the given request of its own, and tells whether it was.
fn kill_at(site: &Site, scenario: Scenario, request: usize) -> bool {
    let proxy = FaultProxy::start(site.plane).unwrap();
    let victim = Victim::default();
    proxy
        .traffic()
        .fault_at(request, Fault::KillAfter(victim.clone()));
    let log = ScratchDir::new("client").unwrap();
    let process = client(&proxy, site, scenario, &log);
    victim.set(process.controls());
    !wait_for(&process)
}

/// A second client is killed at each of its requests in turn, on what the first has left; returns
/// how many those were.
async fn kill_twice(first: usize) -> usize {
    let scenario = Scenario::Upgrade;
    let mut second = 1;
    loop {
        let site = Site::full("again");
        scenario.prepare(&site.actor).await;
        assert!(kill_at(&site, scenario, first));
        let was_killed = kill_at(&site, scenario, second);
        scenario.perform(&site.actor).await;
        let place = format!("killed at {first} and then at {second}");
        assert_eq!(site.states().await, scenario.expected_states(), "{place}");
        if !was_killed {
            return second - 1;
        }
        second += 1;
    }
}

#[test]
fn a_crash_while_mending_a_crash_is_mended_too() {
    // After the record is there; among the objects; before the last writes.
    std::thread::scope(|scope| {
        let trials: Vec<_> = [11, 16, 22]
            .into_iter()
            .map(|first| scope.spawn(move || block_on(kill_twice(first))))
            .collect();
        for trial in trials {
            let points = trial.join().unwrap();
            assert!(points > 5);
            println!("{points} crash points in a recovery");
        }
    });
}

#[tokio::test]
async fn twenty_crashes_in_a_row_make_no_revisions() {
    let scenario = Scenario::Upgrade;
    let site = Site::full("twenty");
    scenario.prepare(&site.actor).await;
    for crash in 0..20 {
        // Each client gets a little further than discovery, the history and the record.
        kill_at(&site, scenario, 7 + crash % 9);
        assert!(site.history().await.revisions().len() <= 2);
    }
    scenario.perform(&site.actor).await;
    assert_eq!(site.states().await, scenario.expected_states());
}
