//! The command lines of the servers.

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result};
use serde_json::json;

use super::Options;
use super::api::Api;
use super::files::Files;
use crate::ports::free_ports;
use crate::process::Process;
use crate::tools::Tools;

/// A loaded machine may take long; a server that fails is noticed at once, not after this time.
pub(super) const START_LIMIT: Duration = Duration::from_secs(120);

#[derive(Debug)]
pub(super) struct Ports {
    etcd: u16,
    etcd_peers: u16,
    pub(super) api_server: u16,
}

impl Ports {
    pub(super) fn pick() -> Result<Self> {
        let [etcd, etcd_peers, api_server] = free_ports()?;
        Ok(Self {
            etcd,
            etcd_peers,
            api_server,
        })
    }

    fn etcd_url(&self) -> String {
        format!("http://127.0.0.1:{}", self.etcd)
    }
}

/// etcd on a directory of its own. It does not sync to disk: a test needs no durability across a power cut.
pub(super) fn etcd(tools: &Tools, files: &Files, ports: &Ports) -> Result<Process> {
    let clients = ports.etcd_url();
    let peers = format!("http://127.0.0.1:{}", ports.etcd_peers);
    let mut command = tools.command("etcd")?;
    command.args([
        files.flag("data-dir", "etcd"),
        format!("--listen-client-urls={clients}"),
        format!("--advertise-client-urls={clients}"),
        format!("--listen-peer-urls={peers}"),
        format!("--initial-advertise-peer-urls={peers}"),
        format!("--initial-cluster=default={peers}"),
        "--unsafe-no-fsync".to_owned(),
        "--log-level=warn".to_owned(),
    ]);
    // The API server waits for etcd by itself, so nobody waits here.
    Process::spawn("etcd", &command, &log(files, "etcd"))
}

pub(super) fn api_server(
    tools: &Tools,
    files: &Files,
    ports: &Ports,
    options: &Options,
    api: &Api,
) -> Result<Process> {
    let mut command = tools.command("kube-apiserver")?;
    command.args([
        format!("--etcd-servers={}", ports.etcd_url()),
        "--bind-address=127.0.0.1".to_owned(),
        format!("--secure-port={}", ports.api_server),
        files.flag("cert-dir", "certificates"),
        files.flag("tls-cert-file", "server.crt"),
        files.flag("tls-private-key-file", "server.key"),
        files.flag("token-auth-file", "tokens.csv"),
        files.flag("service-account-signing-key-file", "service-account.key"),
        files.flag("service-account-key-file", "service-account.pub"),
        "--service-account-issuer=https://kubernetes.default.svc".to_owned(),
        "--authorization-mode=RBAC".to_owned(),
        "--allow-privileged=true".to_owned(),
        // A /24 holds only 254 services, too few for a hundred releases of a few services each.
        "--service-cluster-ip-range=10.96.0.0/16".to_owned(),
        // A loopback address is not allowed as endpoint of the service `kubernetes`; nobody uses it here.
        "--endpoint-reconciler-type=none".to_owned(),
    ]);
    if !options.full {
        // It would wait for default service accounts, which the controller-manager makes.
        command.arg("--disable-admission-plugins=ServiceAccount");
    }
    if options.audit {
        command.arg(files.flag("audit-policy-file", "audit-policy.json"));
        command.arg(format!("--audit-log-path={}", files.audit_log().display()));
        command.arg("--audit-log-mode=blocking");
    }
    command.args(&options.api_server_flags);
    let server = Process::spawn("kube-apiserver", &command, &log(files, "kube-apiserver"))?;
    server.wait_until(START_LIMIT, || api.text("/readyz").is_ok())?;
    Ok(server)
}

/// The controllers, the scheduler, and kwok in the place of a kubelet.
pub(super) fn controllers(tools: &Tools, files: &Files) -> Result<Vec<Process>> {
    let start = |name: &str, arguments: &[String]| -> Result<Process> {
        let mut command: Command = tools.command(name)?;
        command
            .env("HOME", files.home())
            .arg(files.flag("kubeconfig", "kubeconfig"));
        command.args(arguments);
        Process::spawn(name, &command, &log(files, name))
    };
    // One replica each, no port of their own, no throttle of the client side.
    let common = [
        "--leader-elect=false",
        "--secure-port=0",
        "--kube-api-qps=1000",
    ]
    .map(str::to_owned);
    let of_controllers = [
        // Nobody renews the Lease of the node: without this it is taken for lost after 50 seconds, and its pods for not
        // ready.
        "--node-monitor-grace-period=24h".to_owned(),
        files.flag("service-account-private-key-file", "service-account.key"),
        files.flag("root-ca-file", "ca.crt"),
        "--kube-api-burst=2000".to_owned(),
    ];
    let burst = ["--kube-api-burst=2000".to_owned()];
    let nodes = [
        "--manage-all-nodes=true".to_owned(),
        "--cidr=10.244.0.1/16".to_owned(),
    ];
    Ok(vec![
        start(
            "kube-controller-manager",
            &[common.as_slice(), &of_controllers].concat(),
        )?,
        start("kube-scheduler", &[common.as_slice(), &burst].concat())?,
        start("kwok", &nodes)?,
    ])
}

/// The one node; kwok makes it ready.
pub(super) fn add_node(api: &Api) -> Result<()> {
    let node = json!({
        "metadata": {
            "name": "node-1",
            "labels": { "kubernetes.io/hostname": "node-1", "kubernetes.io/os": "linux" },
        },
        "status": {
            "allocatable": { "cpu": "64", "memory": "256Gi", "pods": "1000" },
            "capacity": { "cpu": "64", "memory": "256Gi", "pods": "1000" },
        },
    });
    api.post("/api/v1/nodes", node)
        .context("adding the node")
        .map(drop)
}

fn log(files: &Files, name: &str) -> PathBuf {
    files.path(&format!("{name}.log"))
}
