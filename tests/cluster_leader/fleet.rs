//! A fleet of releases, replicas that each are a user of their own, and the oracles.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use serde_json::Value;
use testkit::{
    AuditEntry, ControlPlane, Daemon, DaemonOptions, FaultProxy, GitOptions, GitRepository,
    GitServer, Options, is_ready, run,
};

/// How long anything may take on a loaded machine.
pub(crate) const LIMIT: Duration = Duration::from_secs(90);

pub(crate) const BINARY: &str = env!("CARGO_BIN_EXE_helm-operator");

/// Times of a lease that are short, and still long for a loaded machine.
pub(crate) const SHORT: [&str; 3] = [
    "--leader-election-lease-duration=5s",
    "--leader-election-renew-deadline=4s",
    "--leader-election-retry-period=250ms",
];

/// The longest that a takeover may take with these times: the lease, and what a loaded machine needs.
pub(crate) const SHORT_TAKEOVER: Duration = Duration::from_secs(15);

/// A control plane with an audit log, a git server, and releases of one chart.
pub(crate) struct Fleet {
    pub(crate) plane: ControlPlane,
    pub(crate) namespace: String,
    pub(crate) repository: GitRepository,
    pub(crate) size: usize,
    _git: GitServer,
    replicas: AtomicU32,
}

/// A daemon that is a user of its own, behind a proxy of its own.
pub(crate) struct Replica<'a> {
    pub(crate) daemon: Daemon,
    pub(crate) proxy: FaultProxy<'a>,
    pub(crate) user: String,
}

impl Fleet {
    /// Makes the fleet; each release renders `objects` ConfigMaps. Nobody works on it yet.
    pub(crate) fn new(size: usize, objects: usize) -> Self {
        let plane = ControlPlane::start(Options {
            audit: true,
            ..Options::default()
        })
        .unwrap();
        testkit::apply_crd(&plane).unwrap();
        let namespace = plane.namespace("fleet").unwrap();
        let git = GitServer::start(GitOptions::default()).unwrap();
        let repository = git.repository("charts").unwrap();
        let template = format!(
            "{{{{- range $i := until {objects} }}}}\n---\napiVersion: v1\nkind: ConfigMap\nmetadata:\n  \
             name: {{{{ $.Release.Name }}}}-{{{{ $i }}}}\ndata:\n  version: {{{{ $.Chart.Version | quote }}}}\n{{{{- end }}}}\n"
        );
        repository
            .write("charts/hello/templates/maps.yaml", template)
            .unwrap();
        let fleet = Self {
            plane,
            namespace,
            repository,
            size,
            _git: git,
            replicas: AtomicU32::new(0),
        };
        fleet.push("1.0.0");
        fleet
    }

    /// Applies the HelmReleases.
    pub(crate) fn apply(&self) {
        let url = self.repository.url();
        let manifests: Vec<String> = (0..self.size)
            .map(|number| {
                format!(
                    "apiVersion: helm.fluxcd.io/v1\nkind: HelmRelease\nmetadata:\n  name: r{number}\n  \
                     labels: {{half: \"{}\"}}\nspec:\n  releaseName: r{number}\n  \
                     chart: {{git: \"{url}\", path: charts/hello, ref: main}}\n",
                    number % 2
                )
            })
            .collect();
        testkit::apply(&self.plane, &self.namespace, &manifests.join("---\n")).unwrap();
    }

    /// Pushes a version of the chart and returns the commit.
    pub(crate) fn push(&self, version: &str) -> String {
        let chart = format!("apiVersion: v2\nname: hello\nversion: {version}\n");
        self.repository
            .write("charts/hello/Chart.yaml", chart)
            .unwrap();
        self.repository
            .commit(&format!("Release {version}"))
            .unwrap()
    }

    /// A replica that is started and not waited for.
    pub(crate) fn spawn(&self, flags: &[&str]) -> Replica<'_> {
        self.spawn_in(flags, &[])
    }

    /// The same with more variables of the environment.
    pub(crate) fn spawn_in(&self, flags: &[&str], environment: &[(String, String)]) -> Replica<'_> {
        let number = self.replicas.fetch_add(1, Ordering::Relaxed);
        let name = format!("replica-{number}");
        let kubectl = |arguments: &[&str]| {
            let mut command = self.plane.kubectl().unwrap();
            run(command.args(arguments)).unwrap();
        };
        kubectl(&["create", "serviceaccount", &name, "--namespace=default"]);
        let subject = format!("--serviceaccount=default:{name}");
        kubectl(&[
            "create",
            "clusterrolebinding",
            &name,
            "--clusterrole=cluster-admin",
            &subject,
        ]);
        let token = self.plane.service_account_token("default", &name).unwrap();
        let proxy = FaultProxy::start(&self.plane).unwrap();
        let kubeconfig = proxy.kubeconfig_for(&token).unwrap();
        let common = [
            "--leader-election=true",
            "--leader-election-namespace=default",
            "--git-poll-interval=1s",
            "--charts-sync-interval=10m",
            "--status-update-interval=1s",
            "--workers=4",
            "--shutdown-grace=5s",
        ];
        let unnamed = |flag: &&&str| {
            let name = flag.split('=').next();
            !flags.iter().any(|given| given.split('=').next() == name)
        };
        let mut all: Vec<&str> = common.iter().filter(unnamed).copied().collect();
        all.extend(flags);
        let mut options = DaemonOptions::local(BINARY, kubeconfig, &all);
        options.environment = environment.to_vec();
        Replica {
            daemon: Daemon::spawn(options).unwrap(),
            proxy,
            user: format!("system:serviceaccount:default:{name}"),
        }
    }

    /// A replica that is ready, leading or standing by.
    pub(crate) fn start(&self, flags: &[&str]) -> Replica<'_> {
        let replica = self.spawn(flags);
        replica.daemon.wait_until_ready().unwrap();
        replica
    }

    pub(crate) fn release(&self, number: usize) -> Value {
        let namespace = &self.namespace;
        let path = format!("/apis/helm.fluxcd.io/v1/namespaces/{namespace}/helmreleases/r{number}");
        self.plane.get(&path).unwrap()
    }

    /// Waits until every release is ready at a commit.
    pub(crate) fn wait_for(&self, commit: &str, replicas: &[&Replica<'_>]) {
        let end = Instant::now() + LIMIT;
        for number in 0..self.size {
            loop {
                let release = self.release(number);
                if release["status"]["revision"] == commit && is_ready(&release) {
                    break;
                }
                if Instant::now() > end {
                    let logs: Vec<String> = replicas.iter().map(|replica| replica.tail()).collect();
                    panic!(
                        "r{number} is not at {commit}: {:#}\n{}",
                        release["status"],
                        logs.join("\n")
                    );
                }
                std::thread::sleep(Duration::from_millis(50));
            }
        }
    }

    /// The holder of a Lease, as its record says.
    pub(crate) fn holder(&self, lease: &str) -> String {
        let path = format!("/apis/coordination.k8s.io/v1/namespaces/default/leases/{lease}");
        let lease = self.plane.get(&path).unwrap_or_default();
        lease["spec"]["holderIdentity"]
            .as_str()
            .unwrap_or_default()
            .to_owned()
    }

    /// How many revisions each release has had.
    pub(crate) fn revisions(&self) -> Vec<u64> {
        let of = |number| {
            let path = format!(
                "/api/v1/namespaces/{}/secrets?labelSelector=owner%3Dhelm%2Cname%3Dr{number}",
                self.namespace
            );
            let list = self.plane.get(&path).unwrap();
            let versions = list["items"].as_array().unwrap().iter();
            let versions = versions.map(|secret| secret["metadata"]["labels"]["version"].as_str());
            versions
                .map(|version| version.unwrap().parse::<u64>().unwrap())
                .max()
                .unwrap()
        };
        (0..self.size).map(of).collect()
    }

    /// O2: one revision of each release is deployed, the newest one; none is pending; there is no gap.
    pub(crate) fn check_histories(&self) {
        for number in 0..self.size {
            let path = format!(
                "/api/v1/namespaces/{}/secrets?labelSelector=owner%3Dhelm%2Cname%3Dr{number}",
                self.namespace
            );
            let list = self.plane.get(&path).unwrap();
            let mut records: Vec<(i64, String)> = list["items"]
                .as_array()
                .unwrap()
                .iter()
                .map(|secret| {
                    let labels = &secret["metadata"]["labels"];
                    let text = |key: &str| labels[key].as_str().unwrap().to_owned();
                    (text("version").parse().unwrap(), text("status"))
                })
                .collect();
            records.sort();
            let deployed = records.iter().filter(|(_, status)| status == "deployed");
            assert_eq!(deployed.count(), 1, "r{number}: {records:?}");
            assert_eq!(
                records.last().unwrap().1,
                "deployed",
                "r{number}: {records:?}"
            );
            let is_left = |status: &str| status.starts_with("pending") || status == "uninstalling";
            assert!(
                !records.iter().any(|(_, status)| is_left(status)),
                "r{number}: {records:?}"
            );
            let first = records.first().unwrap().0;
            let wanted: Vec<i64> = (first..first + records.len() as i64).collect();
            let found: Vec<i64> = records.iter().map(|(revision, _)| *revision).collect();
            assert_eq!(found, wanted, "r{number}");
        }
        let maps = format!("/api/v1/namespaces/{}/configmaps", self.namespace);
        let maps = self.plane.get(&maps).unwrap();
        let versions: BTreeSet<&str> = maps["items"]
            .as_array()
            .unwrap()
            .iter()
            .filter_map(|map| map["data"]["version"].as_str())
            .collect();
        assert_eq!(
            versions.len(),
            1,
            "objects of more than one version: {versions:?}"
        );
    }

    /// O5: every write that the API server has carried out was made by whoever wrote the Lease last. Returns the users
    /// that held it, in order, each as often as it took over.
    pub(crate) fn check_single_writer(&self, lease: &str) -> Vec<String> {
        // The log is written a little after the answers.
        std::thread::sleep(Duration::from_millis(200));
        terms(&self.plane.audit().unwrap(), lease)
    }

    /// The users that wrote below a path of the API.
    pub(crate) fn writers(&self, part: &str) -> BTreeSet<String> {
        let entries = self.plane.audit().unwrap();
        let done = entries
            .iter()
            .filter(|entry| is_write(entry) && entry.uri.contains(part));
        done.filter(|entry| is_replica(entry))
            .map(|entry| entry.user.clone())
            .collect()
    }
}

fn is_replica(entry: &AuditEntry) -> bool {
    entry
        .user
        .starts_with("system:serviceaccount:default:replica-")
}

fn is_write(entry: &AuditEntry) -> bool {
    let verbs = ["create", "update", "patch", "delete", "deletecollection"];
    let is_review = entry.uri.contains("reviews") || entry.uri.contains("/token");
    verbs.contains(&entry.verb.as_str()) && (200..300).contains(&entry.code) && !is_review
}

fn terms(entries: &[AuditEntry], lease: &str) -> Vec<String> {
    let mut terms: Vec<String> = Vec::new();
    for entry in entries
        .iter()
        .filter(|entry| is_replica(entry) && is_write(entry))
    {
        if entry.uri.contains("/leases") {
            let is_this = entry.verb == "create" || entry.uri.contains(&format!("/leases/{lease}"));
            if is_this && terms.last() != Some(&entry.user) {
                terms.push(entry.user.clone());
            }
            continue;
        }
        assert_eq!(
            Some(&entry.user),
            terms.last(),
            "a write by who does not hold the lease: {} {}; terms: {terms:?}",
            entry.verb,
            entry.uri
        );
    }
    terms
}

impl Replica<'_> {
    pub(crate) fn tail(&self) -> String {
        let log = self.daemon.log();
        let lines: Vec<&str> = log.lines().collect();
        let tail = lines[lines.len().saturating_sub(25)..].join("\n");
        format!("log of {}:\n{tail}", self.user)
    }

    /// Waits until it has made `count` writes besides those of its Lease.
    pub(crate) fn wait_for_writes(&self, count: usize) {
        let writes = |exchanges: &[testkit::Exchange]| {
            exchanges
                .iter()
                .filter(|exchange| exchange.write.is_some())
                .count()
                >= count
        };
        self.proxy.traffic().wait_until(LIMIT, writes).unwrap();
    }

    /// Waits until it has a mirror of the git repository.
    pub(crate) fn wait_for_mirror(&self) {
        let is_ready = |line: &str| {
            line.starts_with("helm_operator_git_mirror_ready{") && line.ends_with(" 1")
        };
        let mirrored = || {
            let metrics = self.daemon.get("/metrics");
            metrics.is_ok_and(|(_, text)| text.lines().any(is_ready))
        };
        self.daemon.process().wait_until(LIMIT, mirrored).unwrap();
    }

    /// Waits until it has seen who holds the Lease: it asks again when it has read the first answer.
    pub(crate) fn wait_until_standing_by(&self) {
        let looked = |exchanges: &[testkit::Exchange]| {
            let looks = exchanges.iter().filter(|it| it.path.contains("/leases/"));
            looks.filter(|it| it.status == Some(200)).count() >= 2
        };
        self.proxy.traffic().wait_until(LIMIT, looked).unwrap();
    }

    /// Waits until it leads.
    pub(crate) fn wait_until_leading(&self, limit: Duration) -> Duration {
        let started = Instant::now();
        let leads = || {
            self.daemon.get("/metrics").is_ok_and(|(_, text)| {
                text.contains("leader_election_master_status{name=\"helm-operator\"} 1")
            })
        };
        if let Err(error) = self.daemon.process().wait_until(limit, leads) {
            panic!("{error:#}");
        }
        started.elapsed()
    }
}

#[test]
fn the_oracle_sees_a_second_writer() {
    let entry = |user: u32, verb: &str, uri: &str| AuditEntry {
        verb: verb.to_owned(),
        uri: uri.to_owned(),
        user: format!("system:serviceaccount:default:replica-{user}"),
        impersonated: None,
        agent: String::new(),
        code: 200,
    };
    let lease = "/apis/coordination.k8s.io/v1/namespaces/default/leases";
    let held = format!("{lease}/helm-operator");
    let good = [
        entry(0, "create", lease),
        entry(0, "patch", "/api/v1/namespaces/a/configmaps/b"),
        entry(1, "update", &held),
        entry(0, "get", "/api/v1/namespaces/a/configmaps/b"),
        entry(1, "delete", "/api/v1/namespaces/a/configmaps/b"),
    ];
    assert_eq!(terms(&good, "helm-operator").len(), 2);
    let mut bad = good.to_vec();
    bad.push(entry(0, "patch", "/api/v1/namespaces/a/configmaps/b"));
    let seen = std::panic::catch_unwind(|| terms(&bad, "helm-operator"));
    assert!(seen.is_err());
}
