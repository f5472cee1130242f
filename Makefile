# Everything a developer types. `make help` lists it.
#
# Compiled code and the programs of the test cluster live in a cache outside of the clone, so that they survive a clean
# clone: $HELM_OPERATOR_CACHE, or $XDG_CACHE_HOME/helm-operator, or ~/.cache/helm-operator.

XDG_CACHE_HOME ?= $(HOME)/.cache
HELM_OPERATOR_CACHE ?= $(XDG_CACHE_HOME)/helm-operator
CARGO_TARGET_DIR ?= $(HELM_OPERATOR_CACHE)/target
export HELM_OPERATOR_CACHE CARGO_TARGET_DIR

# A clean clone can use nothing of an incremental build: it would cost time and half of the disk.
ifdef CI
export CARGO_INCREMENTAL = 0
endif

# Built together with the whole workspace: the dependencies are compiled once, with one set of features. cargo shows
# its progress when there is much to do.
BUILT = $(wildcard $(CARGO_TARGET_DIR)/debug/xtask)
XTASK = cargo build $(if $(BUILT),--quiet) --locked --workspace --bin xtask --bin helm-operator && $(CARGO_TARGET_DIR)/debug/xtask

.PHONY: help
help: ## Lists the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: build
build: prerequisites ## Builds the release binary, target/release/helm-operator
	cargo build --release --locked --package helm-operator
	@mkdir -p target/release && ln -sfn $(CARGO_TARGET_DIR)/release/helm-operator target/release/helm-operator

.PHONY: check
check: prerequisites ## Formatting, lints, habits
	cargo fmt --all --check
	cargo clippy $(if $(BUILT),--quiet) --locked --workspace --all-targets -- -D warnings
	@$(XTASK) tidy

.PHONY: test
test: first-run check cluster ## Formatting, lints and all tests of the usual build
	@$(XTASK) test

# Not a part of `test`: the daemon is compiled twice more with other features. CI runs it behind `test`.
.PHONY: features
features: cluster ## Lints and tests of what the usual build leaves out: traces (otel) and profiles (profiling)
	cargo clippy --locked --package helm-operator --features otel,profiling --all-targets -- -D warnings
	cargo test --locked --package helm-operator --features otel,profiling --test cluster_traces --test cluster_profiles

.PHONY: cluster
cluster: prerequisites ## Builds the programs of the test cluster; the first time takes about 15 minutes
	@hack/controlplane/ensure.sh full >/dev/null

.PHONY: demo
demo: first-run cluster ## An install and an upgrade by a push, shown in a throw-away cluster (or in that of $KUBECONFIG)
	@$(XTASK) demo

.PHONY: bench
bench: cluster ## Speed against the stock helm
	@$(XTASK) bench

.PHONY: golden
golden: cluster ## Writes what the golden tests expect anew, with the stock helm
	@$(XTASK) golden

.PHONY: crd
crd: ## Writes crds/, its copy in the chart, and deploy/install.yaml
	@$(XTASK) crd

.PHONY: first-run
first-run:
	@$(if $(BUILT),true,echo "The first run compiles everything: about 30 minutes on two cores. Later runs take minutes.")

.PHONY: prerequisites
prerequisites:
	@hack/prerequisites.sh
