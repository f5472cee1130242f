//! Real servers for tests: etcd and kube-apiserver, git over HTTP, a fault proxy.
//!
//! Nothing here pretends to be the server that it stands for. Everything runs on loopback, on free ports, in a
//! directory of its own, and is gone when the test process is gone, however it died.
//!
//! The functions block the calling thread and may be called from sync and async tests alike: the servers answer from
//! threads of their own.

mod background;
mod charts;
mod controlplane;
mod daemon;
mod disk;
mod git;
mod http;
mod pki;
mod ports;
mod process;
mod proxy;
mod registry;
mod rig;
mod run;
mod scratch;
mod signing;
mod token;
mod tools;

pub use charts::{ChartAnswer, ChartRequest, ChartServer, chart_archive};
pub use controlplane::{AuditEntry, Backup, ControlPlane, Options, RequestCounts};
pub use daemon::{Daemon, DaemonOptions};
pub use disk::SmallDisk;
pub use git::{GitOptions, GitRepository, GitServer};
pub use http::{Exchange, Fault, Traffic, Victim};
pub use pki::{Authority, Identity};
pub use ports::free_ports;
pub use process::{Controls, Process};
pub use proxy::FaultProxy;
pub use registry::{Registry, RegistryOptions, blob_path};
pub use rig::{Rig, apply, apply_crd, is_ready};
pub use run::run;
pub use scratch::ScratchDir;
pub use signing::{CosignKey, GpgKey, SignedChart, push_file};
pub use token::{Lifetime, TokenRequest, TokenServer};
pub use tools::{ToolSet, Tools, repository};
