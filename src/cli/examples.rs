//! What the help of each verb shows behind its flags: command lines to start from, and what the exit code says.
//!
//! The tests of the command line parse every one of them.

/// `helm-operator` itself.
pub(super) const ALL: &str = "\
Examples:
  # Run the daemon
  helm-operator run --git-poll-interval 5m --workers 4

  # Render a HelmRelease from a checkout, without a cluster
  helm-operator template -f releases/podinfo.yaml --chart-dir .

  # What will the next sync change? Then let it happen now
  helm-operator diff podinfo -n demo
  helm-operator sync podinfo -n demo

Exit code 0: done. 1: it failed, as the last lines on standard error say. `run` gives 2 for wrong flags, and `diff` 1 for
a difference and 2 for a failure.";

/// `run`.
pub(super) const RUN: &str = "\
Examples:
  # Outside of a cluster, with charts from local repositories
  helm-operator run --kubeconfig ~/.kube/config --git-allow-local

  # One namespace, one of two replicas, a poll each night at three
  helm-operator run --allow-namespace demo --leader-election --git-poll-interval '0 3 * * *'

Exit code 0: it was told to stop, and has ended what it was doing. 1: it could not start or go on. 2: flags that cannot
be read.";

/// `crd`.
pub(super) const CRD: &str = "\
Examples:
  helm-operator crd | kubectl apply --server-side -f -

Exit code 0: printed. 1: standard output is closed.";

/// `version`.
pub(super) const VERSION: &str = "\
Examples:
  helm-operator version

Exit code 0: printed. 1: standard output is closed.";

/// `template`.
pub(super) const TEMPLATE: &str = "\
Examples:
  # A chart with two layers of values
  helm-operator template web ./charts/web -n demo -f values.yaml --set image.tag=v2

  # One template of it, for a newer Kubernetes
  helm-operator template ./charts/web -s templates/deployment.yaml --kube-version 1.36

  # A chart of a repository, and one of a registry
  helm-operator template podinfo --repo https://charts.example.com --version '~6.5'
  helm-operator template oci://registry.example.com/charts/podinfo:6.5.0

  # What a HelmRelease will deploy, from the checkout that it names
  helm-operator template -f releases/podinfo.yaml --chart-dir .

Exit code 0: rendered. 1: it failed.";

/// `lint`.
pub(super) const LINT: &str = "\
Examples:
  helm-operator lint charts/* --strict --set image.tag=v2

Exit code 0: there are no errors, and with --strict no warnings. 1: there are.";

/// `show`.
pub(super) const SHOW: &str = "\
Examples:
  # The default values of a chart, and one of them
  helm-operator show values ./charts/web
  helm-operator show values ./charts/web --jsonpath '{.image.tag}'

  # What a chart of a registry says about itself
  helm-operator show chart oci://registry.example.com/charts/podinfo --version 6.5.0

Exit code 0: printed. 1: the chart cannot be had, or is none.";

/// `package`.
pub(super) const PACKAGE: &str = "\
Examples:
  helm-operator package ./charts/web -d dist --version 1.2.3 --app-version v2

  # The same bytes each time
  SOURCE_DATE_EPOCH=1700000000 helm-operator package ./charts/web

Exit code 0: written. 1: the chart is invalid, or cannot be written.";

/// `pull`.
pub(super) const PULL: &str = "\
Examples:
  helm-operator pull podinfo --repo https://charts.example.com --version '~6.5'
  helm-operator pull oci://registry.example.com/charts/podinfo --untar

Exit code 0: written. 1: it cannot be had, verified or written.";

/// `search`.
pub(super) const SEARCH: &str = "\
Examples:
  helm-operator search podinfo --repo https://charts.example.com --versions
  helm-operator search oci://registry.example.com/charts/podinfo -o json

Exit code 0: printed. 1: there is no such chart or version, or no answer.";

/// `dependency`.
pub(super) const DEPENDENCY: &str = "\
Examples:
  # Is everything in charts/ that Chart.yaml names?
  helm-operator dependency list ./charts/web

  # Fetch what Chart.lock says; take newer versions that fit, and write Chart.lock
  helm-operator dependency build ./charts/web
  helm-operator dependency update ./charts/web

Exit code 0: done. 1: it failed; a failed download leaves charts/ as it was.";

/// `history`.
pub(super) const HISTORY: &str = "\
Examples:
  helm-operator history podinfo -n demo --max 10 -o json

Exit code 0: printed. 1: there is no such release, or no answer.";

/// `status`.
pub(super) const STATUS: &str = "\
Examples:
  # The release and its objects, as they are
  helm-operator status podinfo -n demo

  # An earlier revision, as it was recorded
  helm-operator status podinfo -n demo --revision 3 --record-only -o yaml

Exit code 0: printed, whatever the status is. 1: there is no such release, or no answer.";

/// `get`.
pub(super) const GET: &str = "\
Examples:
  # What revision 3 has applied
  helm-operator get manifest podinfo -n demo --revision 3

  # All values, the chart's own among them
  helm-operator get values podinfo -n demo --all -o json

Exit code 0: printed. 1: there is no such release, or no answer.";

/// `rollback`.
pub(super) const ROLLBACK: &str = "\
Examples:
  # To the last revision that was deployed before; to revision 3, and wait until it is ready
  helm-operator rollback podinfo -n demo
  helm-operator rollback podinfo 3 -n demo --wait --timeout 10m0s

Exit code 0: rolled back. 1: it failed; `history` tells what was done.";

/// `uninstall`.
pub(super) const UNINSTALL: &str = "\
Examples:
  helm-operator uninstall podinfo -n demo --wait

  # Keep the records, so that `rollback` can bring it back
  helm-operator uninstall podinfo -n demo --keep-history

Exit code 0: all are uninstalled. 1: one of them failed, and those behind it were not tried.";

/// `test`.
pub(super) const TEST: &str = "\
Examples:
  helm-operator test podinfo -n demo --logs
  helm-operator test podinfo -n demo --filter '!name=slow'

Exit code 0: all tests passed. 1: one failed, or could not be run.";

/// `diff`.
pub(super) const DIFF: &str = "\
Examples:
  helm-operator diff podinfo -n demo --context 1

Exit code 0: there is no difference. 1: there is one. 2: that cannot be told, or wrong flags.";

/// `sync`.
pub(super) const SYNC: &str = "\
Examples:
  # From a workstation, through a port-forward to the daemon
  kubectl -n helm-operator port-forward deploy/helm-operator 3030 &
  helm-operator sync podinfo -n demo --timeout 10m0s

  # All git remotes
  helm-operator sync -o json

Exit code 0: the release is ready, or all mirrors are. 1: something failed, was suspended or was not done in time
(with -o json or yaml the document is printed nevertheless), or there is no such HelmRelease or no answer.";

/// `sources`.
pub(super) const SOURCES: &str = "\
Examples:
  kubectl -n helm-operator exec deploy/helm-operator -- helm-operator sources
  helm-operator sources --server http://127.0.0.1:3030 -o json

Exit code 0: the daemon has answered, whatever the states are. 1: it has not.";

/// `values`.
pub(super) const VALUES: &str = "\
Examples:
  helm-operator values podinfo -n demo

  # Which ConfigMap, Secret, file or URL has set each of them?
  helm-operator values podinfo -n demo --origin

Exit code 0: printed. 1: a source cannot be read.";

/// `approve`.
pub(super) const APPROVE: &str = "\
Examples:
  # Look at the change, then let it pass
  helm-operator diff podinfo -n demo
  helm-operator approve podinfo -n demo

Exit code 0: written. 1: nothing waits, or it could not be written.";
