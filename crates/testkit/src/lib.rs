//! Real servers for tests: etcd and kube-apiserver, git, charts, a fault proxy.
