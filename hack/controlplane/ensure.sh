#!/usr/bin/env bash
# Builds the programs of the test cluster from Go modules, once, into a cache outside the clone.
#
# usage: hack/controlplane/ensure.sh [base|full]
#   base  etcd, kube-apiserver, kubectl and the stock helm (v4)
#   full  also kube-controller-manager, kube-scheduler, kwok and helm v3
#
# Prints the directory of the programs on stdout; progress goes to stderr.
# The cache is $HELM_OPERATOR_CACHE, or $XDG_CACHE_HOME/helm-operator, or ~/.cache/helm-operator.
set -euo pipefail

readonly KUBERNETES=v1.36.3 ETCD=v3.6.8 HELM4=v4.3.1 HELM3=v3.22.0 KWOK=v0.7.0

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cache=${HELM_OPERATOR_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/helm-operator}
bin=$cache/controlplane/$KUBERNETES-$ETCD-$HELM4/bin
set_name=${1:-base}

say() { printf '%s\n' "controlplane: $*" >&2; }

command -v go >/dev/null || {
    say "go is missing: install Go 1.26 or newer (https://go.dev/dl), or set KUBEBUILDER_ASSETS"
    exit 1
}
mkdir -p "$bin"

# One builder at a time: two test runs that start together must not build twice.
exec 9>"$bin/.lock"
flock 9

minor=${KUBERNETES#v1.}
minor=${minor%%.*}
readonly STAMP="-s -w -X k8s.io/component-base/version.gitVersion=$KUBERNETES -X k8s.io/component-base/version.gitMajor=1 -X k8s.io/component-base/version.gitMinor=$minor"

# build_tool NAME PACKAGE EXPECTED: builds a tool of hack/controlplane/go.mod.
build_tool() {
    local name=$1 package=$2 expected=$3
    [ -x "$bin/$name" ] && return 0
    say "building $name (about $expected the first time) …"
    (cd "$here" && go build -trimpath -ldflags "$STAMP" -o "$bin/.$name.new" "$package")
    mv "$bin/.$name.new" "$bin/$name"
}

# install_tool NAME PACKAGE@VERSION LDFLAGS EXPECTED: builds a program of a module of its own.
install_tool() {
    local name=$1 package=$2 flags=$3 expected=$4 scratch
    [ -x "$bin/$name" ] && return 0
    say "building $name (about $expected the first time) …"
    scratch=$(mktemp -d "$bin/.install.XXXXXX")
    (cd / && GOBIN=$scratch go install -trimpath -ldflags "-s -w $flags" "$package")
    mv "$scratch"/* "$bin/$name"
    rmdir "$scratch"
}

install_tool helm "helm.sh/helm/v4/cmd/helm@$HELM4" "-X helm.sh/helm/v4/internal/version.version=$HELM4" "2 minutes"
build_tool etcd go.etcd.io/etcd/server/v3 "1 minute"
build_tool kubectl k8s.io/kubernetes/cmd/kubectl "2 minutes"
build_tool kube-apiserver k8s.io/kubernetes/cmd/kube-apiserver "8 minutes"
if [ "$set_name" = full ]; then
    build_tool kube-controller-manager k8s.io/kubernetes/cmd/kube-controller-manager "2 minutes"
    build_tool kube-scheduler k8s.io/kubernetes/cmd/kube-scheduler "1 minute"
    install_tool kwok "sigs.k8s.io/kwok/cmd/kwok@$KWOK" "" "1 minute"
    install_tool helm3 "helm.sh/helm/v3/cmd/helm@$HELM3" "-X helm.sh/helm/v3/internal/version.version=$HELM3" "1 minute"
fi
printf '%s\n' "$bin"
