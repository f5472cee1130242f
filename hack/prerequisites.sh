#!/usr/bin/env bash
# Says in one line each what this machine lacks; exits with 1 if it lacks anything.
#
# usage: hack/prerequisites.sh
set -euo pipefail

readonly RUST=1.95 GO=1.26 GIT=2.30
missing=0

lacks() {
    printf '%s\n' "missing: $*" >&2
    missing=1
}

# at_least WANTED FOUND: compares versions part by part.
at_least() { [ "$(printf '%s\n%s\n' "$1" "$2" | sort --version-sort | head -n 1)" = "$1" ]; }

# require NAME WANTED COMMAND HOW: COMMAND prints the version somewhere in its first line.
require() {
    local name=$1 wanted=$2 how=$4 found
    command -v "${3%% *}" >/dev/null || {
        lacks "$name $wanted or newer ($how)"
        return
    }
    found=$($3 2>/dev/null | head -n 1 | grep -oE '[0-9]+(\.[0-9]+)+' | head -n 1) || found=unknown
    at_least "$wanted" "$found" || lacks "$name $wanted or newer, this is $found ($how)"
}

require Rust "$RUST" "rustc --version" "https://rustup.rs"
require cargo "$RUST" "cargo --version" "https://rustup.rs"
require git "$GIT" "git --version" "apt-get install git"
# Programs of the test cluster that are given need no Go to build them.
if [ -z "${KUBEBUILDER_ASSETS:-}" ]; then
    require Go "$GO" "go version" "https://go.dev/dl"
fi
for program in cc flock; do
    command -v "$program" >/dev/null || lacks "$program (apt-get install gcc libc6-dev util-linux)"
done
for component in rustfmt cargo-clippy; do
    command -v "$component" >/dev/null || lacks "$component (rustup component add rustfmt clippy)"
done
exit "$missing"
