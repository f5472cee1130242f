//! Helm releases in a Kubernetes cluster: storage, apply, wait and the actions.
