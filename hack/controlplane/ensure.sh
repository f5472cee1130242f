#!/usr/bin/env bash
# Finds the programs of the test cluster, and builds those that are missing from Go modules, once, into a cache outside
# of the clone.
#
# usage: hack/controlplane/ensure.sh [base|full]
#   base  etcd, kube-apiserver, kubectl and the stock helm (v4)
#   full  also kube-controller-manager, kube-scheduler, kwok, helm v3 and an OCI registry
#
# Prints the directories of the programs on stdout, separated by colons as in PATH; progress goes to stderr.
# Programs in $KUBEBUILDER_ASSETS are used as they are and never built.
# The cache is $HELM_OPERATOR_CACHE, or $XDG_CACHE_HOME/helm-operator, or ~/.cache/helm-operator.
set -euo pipefail

readonly KUBERNETES=v1.36.3 ETCD=v3.6.8 HELM4=v4.3.1 HELM3=v3.22.0 KWOK=v0.7.0 REGISTRY=v3.1.0
readonly GO_MINOR=26

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cache=${HELM_OPERATOR_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/helm-operator}
bin=$cache/controlplane/$KUBERNETES-$ETCD-$HELM4/bin
assets=${KUBEBUILDER_ASSETS:-}

say() { printf '%s\n' "controlplane: $*" >&2; }

programs=(helm etcd kubectl kube-apiserver)
case ${1:-base} in
base) ;;
full) programs+=(kube-controller-manager kube-scheduler kwok helm3 registry) ;;
*)
    say "unknown set $1: use base or full"
    exit 2
    ;;
esac

found() { [ -x "$bin/$1" ] || { [ -n "$assets" ] && [ -x "$assets/$1" ]; }; }

missing() {
    local program
    for program in "${programs[@]}"; do
        found "$program" || printf '%s ' "$program"
    done
}

finish() {
    printf '%s\n' "${assets:+$assets:}$bin"
    exit 0
}

[ -n "$(missing)" ] || finish

require_go() {
    local version
    command -v go >/dev/null || {
        say "go is missing, needed to build $(missing)- install Go 1.$GO_MINOR or newer (https://go.dev/dl)"
        exit 1
    }
    version=$(go env GOVERSION)
    version=${version#go1.}
    [ "${version%%[!0-9]*}" -ge "$GO_MINOR" ] 2>/dev/null || {
        say "go is too old ($(go env GOVERSION)): install Go 1.$GO_MINOR or newer (https://go.dev/dl)"
        exit 1
    }
}

# One builder at a time: two test runs that start together must not build twice.
require_go
mkdir -p "$bin"
exec 9>"$bin/.lock"
flock --nonblock 9 || {
    say "another process is building the programs, waiting for it …"
    flock 9
}
[ -n "$(missing)" ] || finish
say "building $(missing)into $bin; this is done once"
# What an interrupted build left behind.
rm -rf "$bin"/.install.* "$bin"/.*.new

minor=${KUBERNETES#v1.}
minor=${minor%%.*}
readonly STAMP="-s -w -X k8s.io/component-base/version.gitVersion=$KUBERNETES -X k8s.io/component-base/version.gitMajor=1 -X k8s.io/component-base/version.gitMinor=$minor"

# quietly NAME COMMAND…: shows the output only if the command fails; then says so in one line at the end.
quietly() {
    local name=$1 log
    shift
    log=$(mktemp "$bin/.install.XXXXXX")
    "$@" >"$log" 2>&1 || {
        cat "$log" >&2
        say "building $name failed, see above; it needs the Go module proxy and about 4 GB of disk"
        exit 1
    }
    rm -f "$log"
}

# build_tool NAME PACKAGE EXPECTED: builds a tool of hack/controlplane/go.mod.
build_tool() {
    local name=$1 package=$2 expected=$3
    found "$name" && return 0
    say "building $name (about $expected on two cores) …"
    cd "$here"
    quietly "$name" go build -trimpath -ldflags "$STAMP" -o "$bin/.$name.new" "$package"
    mv "$bin/.$name.new" "$bin/$name"
}

# install_tool NAME PACKAGE@VERSION LDFLAGS EXPECTED: builds a program of a module of its own.
install_tool() {
    local name=$1 package=$2 flags=$3 expected=$4 scratch
    found "$name" && return 0
    say "building $name (about $expected on two cores) …"
    scratch=$(mktemp -d "$bin/.install.XXXXXX")
    cd /
    quietly "$name" env GOBIN="$scratch" GOFLAGS= go install -trimpath -ldflags "-s -w $flags" "$package"
    mv "$scratch"/* "$bin/$name"
    rmdir "$scratch"
}

build_one() {
    case $1 in
    helm) install_tool helm "helm.sh/helm/v4/cmd/helm@$HELM4" "-X helm.sh/helm/v4/internal/version.version=$HELM4" "2 minutes" ;;
    helm3) install_tool helm3 "helm.sh/helm/v3/cmd/helm@$HELM3" "-X helm.sh/helm/v3/internal/version.version=$HELM3" "1 minute" ;;
    kwok) install_tool kwok "sigs.k8s.io/kwok/cmd/kwok@$KWOK" "" "1 minute" ;;
    registry) install_tool registry "github.com/distribution/distribution/v3/cmd/registry@$REGISTRY" "" "1 minute" ;;
    etcd) build_tool etcd go.etcd.io/etcd/server/v3 "1 minute" ;;
    kube-apiserver) build_tool "$1" "k8s.io/kubernetes/cmd/$1" "8 minutes" ;;
    *) build_tool "$1" "k8s.io/kubernetes/cmd/$1" "2 minutes" ;;
    esac
}

for program in "${programs[@]}"; do
    build_one "$program"
done
finish
