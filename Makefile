# Everything that is needed is installed or built by the targets themselves. `make` alone prints what there is.
SHELL := /usr/bin/env bash -o pipefail
.SHELLFLAGS := -ec

IMG ?= collection-operator/manager:v$(VERSION)
RUNTIME_IMG ?= collection-operator/runtime:v$(VERSION)
RUNTIME_ARCHITECTURES ?= amd64,arm64,ppc64le,s390x
VERSION ?= 0.1.0
DEV_IMAGES := localhost/collection-operator

export PATH := $(CURDIR)/.devcluster/bin:$(PATH)
# Programs, tests and images are built in the same way, so that each package is compiled once. `make lint` vets it.
export CGO_ENABLED := 0
TEST_FLAGS := -trimpath -vet=off
DEVCLUSTER := .devcluster/bin/devcluster
TOOL := go tool -modfile=hack/tools/go.mod
# The chart's settings are the flags in the manager's help, without the defaults that it takes from the environment.
CHART := env -u GALAXY_URL -u PIP_INDEX_URL -u POD_NAME -u POD_NAMESPACE go run -trimpath ./cmd/manager --help | go run -C hack/chart -trimpath .

.DEFAULT_GOAL := help

##@ Use

.PHONY: help
help: ## Print this text.
	@awk 'BEGIN {FS = ":.*##"} /^[a-z0-9-]+:.*##/ {printf "  \033[36m%-18s\033[0m %s\n", $$1, $$2} /^##@/ {printf "\n%s\n", substr($$0, 5)}' $(MAKEFILE_LIST)

.PHONY: demo
demo: cluster-up images ## Set up a cluster on this machine and watch a collection become an operator (Linux, root).
	hack/demo.sh

.PHONY: deploy
deploy: ## Install the manager into the cluster of your kubeconfig: make deploy IMG=... RUNTIME_IMG=...
	hack/deploy.sh $(IMG) $(RUNTIME_IMG) $(RUNTIME_ARCHITECTURES)

.PHONY: bundle
bundle: ## Pack the operator for the Operator Lifecycle Manager: make bundle VERSION=... IMG=...@sha256:... RUNTIME_IMG=...@sha256:...
	@$(or $(KUBECTL),kubectl) kustomize config/manifests | go run ./hack/bundle bundle --version=$(VERSION) --image=$(IMG) \
	  --runtime-image=$(RUNTIME_IMG) --architectures=$(RUNTIME_ARCHITECTURES) --allow-tags=$(or $(ALLOW_TAGS),false) \
	  --created-at="$$(git log -1 --format=%cI)" --icon=config/manifests/icon.svg --output=bundle \
	  $(if $(MAINTAINER),--maintainer='$(MAINTAINER)')

.PHONY: chart
chart: ## Pack the Helm chart into bin/: make chart VERSION=... IMG=...@sha256:... RUNTIME_IMG=...@sha256:...
	@$(CHART) -output=$(CURDIR)/bin -version=$(VERSION) -image=$(IMG) -runtime-image=$(RUNTIME_IMG) -allow-tags=$(or $(ALLOW_TAGS),false)

.PHONY: catalog
catalog: ## Make a catalog that offers what `make bundle` packed: make catalog BUNDLE_IMG=...
	@go run ./hack/bundle catalog bundle --image=$(BUNDLE_IMG) --output=catalog

.PHONY: sbom
sbom: ## Write SPDX documents of what the images contain to sbom/: make sbom IMG=... RUNTIME_IMG=...
	@mkdir -p sbom
	go tool -modfile=hack/tools/sbom/go.mod syft scan -q $(IMG) -o spdx-json=sbom/manager.spdx.json
	go tool -modfile=hack/tools/sbom/go.mod syft scan -q $(RUNTIME_IMG) -o spdx-json=sbom/runtime.spdx.json

##@ Test

.PHONY: test
test: build devcluster ## Run unit tests, the engine's, and integration specs against real API servers (no root needed).
	hack/test-packages.sh
	$(DEVCLUSTER) build --control-plane
	hack/parts.sh 'unit=nice make test-unit' 'engine=nice -n 5 make test-engine' 'chart=nice make test-chart' 'integration=make test-integration'

# Prints the slowest tests of what gotestsum wrote down.
SLOWEST := echo "the slowest tests"; $(TOOL) gotestsum tool slowest --num 15 --jsonfile

.PHONY: test-unit
test-unit:
	@mkdir -p .devcluster/log
	$(TOOL) gotestsum --format standard-quiet --jsonfile .devcluster/log/unit.json -- $(TEST_FLAGS) $$(go list ./... | grep -v -e /test/integration -e /internal/engine -e /internal/localrun -e /internal/scenario/suite)
	@$(SLOWEST) .devcluster/log/unit.json
	cd hack/devcluster && go test .
	cd hack/devcluster/components/kubernetes-oldest && go test $(TEST_FLAGS) .
	cd hack/monitoring && go test -vet=off .

.PHONY: helm
helm:
	go build -C hack/chart -trimpath -o $(CURDIR)/.devcluster/bin/helm helm.sh/helm/v3/cmd/helm

# Helm installs the chart in a control plane of its own.
.PHONY: test-chart
test-chart: devcluster helm
	$(DEVCLUSTER) control-plane -- env CHART_INSTALLATION=true go test -C hack/chart $(TEST_FLAGS) -count=1 .

# Its tests wait for SSH servers and package indexes most of the time.
.PHONY: test-engine
test-engine:
	@mkdir -p .devcluster/log
	$(TOOL) gotestsum --format standard-quiet --jsonfile .devcluster/log/engine.json -- $(TEST_FLAGS) -count=1 -parallel 6 -timeout 30m ./internal/engine ./internal/localrun ./internal/scenario/suite
	@$(SLOWEST) .devcluster/log/engine.json

GINKGO := $(TOOL) ginkgo --no-color --fail-on-empty --timeout 60m --trimpath --vet=off

# Each process has a control plane and a manager of its own.
INTEGRATION_PROCS ?= 4
.PHONY: test-integration
test-integration: export DEVCLUSTER_GOGC ?= 400
test-integration:
	$(GINKGO) --procs=$(INTEGRATION_PROCS) --label-filter '!flood && !scale' $(ARGS) ./test/integration

.PHONY: test-oldest
test-oldest: export KUBEBUILDER_ASSETS := $(CURDIR)/.devcluster/bin/oldest
test-oldest: build devcluster ## Run integration specs, and install the Helm chart, on the oldest supported version of Kubernetes.
	$(DEVCLUSTER) build --control-plane --oldest
	$(MAKE) test-chart test-integration

# The processes share the cluster, and each container of specs has namespaces of its own.
E2E_PROCS ?= 5
E2E := $(GINKGO) --procs=$(E2E_PROCS) --tags e2e

.PHONY: e2e
e2e: export DEVCLUSTER_GOGC ?= 400
e2e: cluster-up images ## Run the end-to-end specs on a real node, without and then with OLM (Linux, root).
	$(E2E) --label-filter '!olm && !bench' $(ARGS) ./test/e2e
	$(DEVCLUSTER) up --olm
	COMPONENTS=olm $(E2E) --label-filter 'olm && !times && !upgrades' $(ARGS) ./test/e2e

.PHONY: attacks
attacks: build devcluster cluster-up images ## Try the attacks of docs/security.md and print what was seen (Linux, root).
	$(GINKGO) --procs=$(INTEGRATION_PROCS) --label-filter attack ./test/integration
	$(E2E) --label-filter attack ./test/e2e

.PHONY: chaos
chaos: cluster-up images ## Kill the manager, operators, the API server and a system at random, CHAOS times (Linux, root).
	CHAOS=$(or $(CHAOS),100) $(E2E) --procs=1 --label-filter chaos ./test/e2e

UPGRADES := $(GINKGO) --tags e2e --procs=2 --focus 'An upgrade under living|An upgrade in four|A migration' $(ARGS)
.PHONY: upgrades
upgrades: export UPGRADE_RESOURCES ?= 50
upgrades: cluster-up images ## Upgrade, migrate and go back under UPGRADE_RESOURCES custom resources, without and then with OLM (Linux, root).
	$(UPGRADES) --label-filter '!olm' ./test/e2e
	$(DEVCLUSTER) up --olm
	COMPONENTS=olm $(UPGRADES) --label-filter olm ./test/e2e
	SCHEMA_CHANGES=all $(GINKGO) --focus 'The judge of an upgrade' ./test/integration

.PHONY: caps
caps: cluster-up images ## Run CAPS custom resources against two systems with four places each (Linux, root).
	CAPS=$(or $(CAPS),200) $(E2E) --procs=1 --label-filter caps ./test/e2e

.PHONY: flood
flood: build devcluster ## Flood the manager with hostile objects and downloads, and draw its memory: FLOOD=0.1 for a small one.
	$(DEVCLUSTER) build --control-plane
	FLOOD=$(or $(FLOOD),1) FLOOD_OUTPUT=$(or $(FLOOD_OUTPUT),$(CURDIR)/docs/benchmarks) $(GINKGO) --label-filter flood ./test/integration

.PHONY: fuzz
fuzz: ## Fuzz every parser for FUZZTIME each.
	hack/fuzz.sh $(or $(FUZZTIME),30s)

# What each benchmark measured, for docs/benchmarks.md.
BENCH_FILES := $(CURDIR)/docs/benchmarks

.PHONY: bench
bench: bench-archives bench-node bench-olm ## Measure archives, operators on a node, and installations beside kubectl apply (Linux, root).

.PHONY: bench-archives
bench-archives: ## Measure the way from an archive to its objects: time and memory.
	go run ./test/bench -runs $(or $(RUNS),9)

.PHONY: bench-node
bench-node: cluster-up images ## Measure what operators cost on a node: BENCH_PODS of them together (Linux, root).
	BENCH_OUTPUT=$(BENCH_FILES)/node $(GINKGO) --tags e2e --label-filter bench ./test/e2e
	go run ./test/bench figures $(BENCH_FILES)/node

.PHONY: bench-scale
bench-scale: build devcluster helm ## Measure many collections on a control plane, beside kubectl apply: BENCH_N="10 100".
	$(DEVCLUSTER) build --control-plane
	hack/bench-scale.sh

.PHONY: bench-olm
bench-olm: cluster-up images ## Measure how long OLM takes to install a collection, beside kubectl apply (Linux, root).
	$(DEVCLUSTER) up --olm
	BENCH_OUTPUT=$(BENCH_FILES)/node COMPONENTS=olm $(GINKGO) --tags e2e --label-filter times ./test/e2e
	go run ./test/bench figures $(BENCH_FILES)/node

.PHONY: test-architectures
test-architectures: ## Build the programs for ppc64le and s390x; run unit tests of pure packages on an emulated s390x (Debian).
	hack/test-architectures.sh

##@ Change

.PHONY: build
build: ## Build the manager, kubectl-collection and zoscb-encrypt into bin/.
	go build -trimpath -o bin/ ./cmd/manager ./cmd/kubectl-collection ./cmd/zoscb-encrypt

.PHONY: generate
generate: ## Regenerate deep copies, CRDs, RBAC, golden files and the Helm chart.
	$(TOOL) controller-gen object paths=./api/...
	$(TOOL) controller-gen crd paths=./api/v2beta1 paths=./api/v2beta2 output:crd:dir=config/crd/bases
	$(TOOL) controller-gen crd paths=./api/operands/... output:crd:dir=config/components/operands/crd
	$(TOOL) controller-gen rbac:roleName=collection-operator-manager paths=./internal/controller/... output:rbac:dir=config/rbac
	go test $(TEST_FLAGS) ./internal/render ./internal/collection ./internal/galaxy ./internal/lint ./internal/explain ./cmd/kubectl-collection ./cmd/manager -update
	$(CHART) -output=$(CURDIR)/charts

.PHONY: dashboard
dashboard: build devcluster ## Draw the picture of the dashboard in docs/operations.md from metrics of the integration specs.
	$(DEVCLUSTER) build --control-plane
	METRICS_OUTPUT=$(CURDIR)/hack/monitoring/testdata/recorded.prom $(GINKGO) --focus "metrics of runs" ./test/integration
	cd hack/monitoring && go test -vet=off . -update

.PHONY: lint
lint: ## Run the linters.
	hack/lint.sh

.PHONY: audit
audit: ## Check the licences of what we link, and known vulnerabilities if the database can be reached.
	hack/audit.sh

.PHONY: generated
generated: generate ## Fail if anything generated is out of date.
	@git diff --exit-code && test -z "$$(git ls-files --others --exclude-standard charts)" || { echo "generated files are out of date: run make generate and commit"; exit 1; }

.PHONY: verify
verify: lint generated ## Run the linters and fail if anything generated is out of date.

##@ Cluster on this machine

.PHONY: devcluster
devcluster:
	go build -C hack/devcluster -o $(CURDIR)/$(DEVCLUSTER) .

.PHONY: cluster-up
cluster-up: devcluster ## Build and start a real cluster from package registries alone, or repair it (Linux, root).
	$(DEVCLUSTER) up

.PHONY: images
images: devcluster ## Assemble the images and import them into the cluster, without registry or Docker.
	$(DEVCLUSTER) images

.PHONY: cluster-down
cluster-down: devcluster ## Stop the cluster and clean up after it. What was built is kept.
	$(DEVCLUSTER) down
