# Everything that is needed is installed or built by the targets themselves. `make` alone prints what there is.
SHELL := /usr/bin/env bash -o pipefail
.SHELLFLAGS := -ec

IMG ?= collection-operator/manager:v$(VERSION)
RUNTIME_IMG ?= collection-operator/runtime:v$(VERSION)
RUNTIME_ARCHITECTURES ?= amd64,arm64,ppc64le,s390x
VERSION ?= 0.1.0
DEV_IMAGES := localhost/collection-operator

export PATH := $(CURDIR)/.devcluster/bin:$(PATH)
# Programs, tests, linters and images are built in the same way, so that each package is compiled once. `make lint` vets it.
export CGO_ENABLED := 0
export GOFLAGS := -trimpath -buildvcs=false
# Beside specs, with what they leave of the processor, a package may take many times as long as alone.
TEST_FLAGS := -vet=off -timeout 40m
DEVCLUSTER := .devcluster/bin/devcluster
TOOL := go tool -modfile=hack/tools/go.mod
# The chart's settings are the flags in the manager's help, without the defaults that it takes from the environment.
CHART := env -u GALAXY_URL -u PIP_INDEX_URL -u POD_NAME -u POD_NAMESPACE go run ./cmd/manager --help | go run -C hack/chart .

.DEFAULT_GOAL := help

##@ Use

.PHONY: help
help: ## Print this text.
	@awk 'BEGIN {FS = ":.*##"} /^[a-z0-9-]+:.*##/ {printf "  \033[36m%-18s\033[0m %s\n", $$1, $$2} /^##@/ {printf "\n%s\n", substr($$0, 5)}' $(MAKEFILE_LIST)

.PHONY: demo
demo: devcluster ## Set up a cluster on this machine and watch a collection become an operator (Linux, root).
	$(DEVCLUSTER) up --images --only manager,runtime,ssh-target
	go build -o bin/ ./cmd/kubectl-collection
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

# What `make test` reports: the seconds of each part, and what Ginkgo and gotestsum write of each spec.
REPORTS := $(CURDIR)/.devcluster/log/reports
GOTESTSUM = $(TOOL) gotestsum --format standard-quiet --jsonfile $(REPORTS)/$@.test.json --
# The versions of what tests run: Go keeps a result for them.
WITH_VERSIONS = ENGINE_VERSIONS=$$(hack/test-packages.sh versions)

# Specs take the time, and wait for much of it: what they do not depend on gives way to them.
.PHONY: test
test: build devcluster ## Prove a change: linters, generated files, tests beside the code, the engine, specs against API servers, stories on a node (Linux, root).
	rm -rf $(REPORTS) && mkdir -p $(REPORTS)
	hack/test-packages.sh
	code=0; REPORTS=$(REPORTS) hack/parts.sh \
	  'test-api=make test-api' 'test-stories=make test-stories' 'test-olm=make test-olm' -- \
	  'build=nice $(DEVCLUSTER) build --olm --images' 'generated=nice hack/generated.sh' 'lint=nice make lint' \
	  'test-unit=nice make test-unit' 'test-engine=nice make test-engine' || code=1; \
	go run ./hack/proof $(REPORTS) || code=1; exit $$code

.PHONY: test-full
test-full: build devcluster ## Prove everything else too, or PARTS="olm audit" of it; what passed with the same inputs is not repeated.
	hack/test-packages.sh
	hack/test-full.sh $(PARTS)

.PHONY: test-unit
test-unit: ## Run the tests beside the code.
	@mkdir -p $(REPORTS)
	$(WITH_VERSIONS) $(GOTESTSUM) $(TEST_FLAGS) $$(go list ./... | grep -v -e /test/integration -e /internal/run/engine -e /internal/author/localrun -e /internal/author/scenario/suite)
	go test -C hack/devcluster $(TEST_FLAGS) .

# They wait for SSH servers and package indexes most of the time. Without this clone's PATH, Go keeps a result for all clones.
.PHONY: test-engine
test-engine: ## Run the tests of the runtime's engine, Ansible without a cluster: ARGS="-run TestPassword".
	@mkdir -p $(REPORTS)
	PATH="$(subst $(CURDIR)/.devcluster/bin:,,$(PATH))" $(WITH_VERSIONS) $(GOTESTSUM) $(TEST_FLAGS) -parallel 6 $(ARGS) ./internal/run/engine ./internal/author/localrun ./internal/author/scenario/suite

.PHONY: test-api
test-api: devcluster ## Run the specs against API servers: ARGS="--focus 'some text'".
	hack/specs.sh api test-api --label-filter '!flood && !scale && !soak' $(ARGS)

.PHONY: test-stories
test-stories: devcluster ## Run the stories on a real node (Linux, root).
	hack/specs.sh node test-stories --label-filter 'story && !olm' $(ARGS)

.PHONY: test-olm
test-olm: devcluster ## Run the story with the Operator Lifecycle Manager (Linux, root).
	hack/specs.sh olm test-olm --label-filter 'story && olm' $(ARGS)

.PHONY: test-mutants
test-mutants: devcluster ## Put known faults into the code one at a time, and fail if the tests of a package miss one: ARGS="-run Lease".
	$(DEVCLUSTER) build --control-plane
	go run ./hack/mutants $(ARGS)

.PHONY: test-monitoring
test-monitoring: ## Test the alerts and the dashboard with Prometheus' engine.
	go test -C hack/monitoring $(TEST_FLAGS) .

.PHONY: helm
helm:
	go build -C hack/chart -o $(CURDIR)/.devcluster/bin/helm helm.sh/helm/v3/cmd/helm

.PHONY: test-chart
test-chart: devcluster helm ## Compare the Helm chart with kustomize, and install it in a control plane of its own.
	$(DEVCLUSTER) control-plane -- env CHART_INSTALLATION=true go test -C hack/chart $(TEST_FLAGS) -count=1 .

.PHONY: test-oldest
test-oldest: export KUBEBUILDER_ASSETS := $(CURDIR)/.devcluster/bin/oldest
test-oldest: build devcluster ## Run the specs, and install the Helm chart, on the oldest supported version of Kubernetes.
	go test -C hack/devcluster/components/kubernetes-oldest $(TEST_FLAGS) .
	$(DEVCLUSTER) build --control-plane --oldest
	$(MAKE) test-chart
	hack/specs.sh api test-oldest --label-filter '!flood && !scale && !soak' $(ARGS)

.PHONY: test-architectures
test-architectures: ## Build the programs for ppc64le and s390x; run unit tests of pure packages on an emulated s390x (Debian).
	hack/test-architectures.sh

.PHONY: attacks
attacks: build devcluster ## Try the attacks of docs/security.md and print what was seen (Linux, root).
	hack/specs.sh api attacks-api --label-filter attack
	go test $(TEST_FLAGS) -count=1 -v ./internal/run/runner -run Specs -ginkgo.label-filter=attack
	hack/specs.sh node attacks-node --label-filter attack

.PHONY: chaos
chaos: devcluster ## Kill the manager, operators, the API server and a system at random, CHAOS times (Linux, root).
	CHAOS=$(or $(CHAOS),100) E2E_PROCS=1 hack/specs.sh node chaos --label-filter chaos

UPGRADES := --focus 'An upgrade under living|An upgrade in four|A migration' $(ARGS)
.PHONY: upgrades
upgrades: export UPGRADE_RESOURCES ?= 50
upgrades: export E2E_PROCS = 2
upgrades: devcluster ## Upgrade, migrate and go back under UPGRADE_RESOURCES custom resources, without and then with OLM (Linux, root).
	hack/specs.sh node upgrades $(UPGRADES) --label-filter '!olm'
	hack/specs.sh olm upgrades-olm $(UPGRADES) --label-filter olm
	SCHEMA_CHANGES=all hack/specs.sh api upgrades-api --focus 'The judge of an upgrade'

.PHONY: caps
caps: devcluster ## Run CAPS custom resources against two systems with four places each (Linux, root).
	CAPS=$(or $(CAPS),200) E2E_PROCS=1 hack/specs.sh node caps --label-filter caps

.PHONY: flood
flood: build devcluster ## Flood the manager with hostile objects and downloads, and draw its memory: FLOOD=0.1 for a small one.
	FLOOD=$(or $(FLOOD),1) FLOOD_OUTPUT=$(or $(FLOOD_OUTPUT),$(CURDIR)/docs/benchmarks) INTEGRATION_PROCS=1 hack/specs.sh api flood --label-filter flood

.PHONY: fuzz
fuzz: ## Fuzz every parser for FUZZTIME each.
	hack/fuzz.sh $(or $(FUZZTIME),30s)

# What each benchmark measured, for docs/benchmarks.md.
BENCH_FILES := $(CURDIR)/docs/benchmarks

.PHONY: bench
bench: bench-archives bench-runs bench-node bench-olm ## Measure archives, operators on a node, and installations beside kubectl apply (Linux, root).

.PHONY: bench-archives
bench-archives: ## Measure the way from an archive to its objects: time and memory.
	go run ./test/bench -runs $(or $(RUNS),9)

.PHONY: bench-runs
bench-runs: devcluster ## Measure what the gate adds to a run of Ansible, and what a call costs that runs nothing (Debian).
	$(DEVCLUSTER) build --control-plane
	go test $(TEST_FLAGS) -count=1 -v ./internal/run/runner -run Specs -ginkgo.label-filter=bench

.PHONY: bench-node
bench-node: devcluster ## Measure what operators cost on a node: BENCH_PODS of them together (Linux, root).
	BENCH_OUTPUT=$(BENCH_FILES)/node E2E_PROCS=1 hack/specs.sh node bench --label-filter bench
	go run ./test/bench figures $(BENCH_FILES)/node

.PHONY: bench-scale
bench-scale: build devcluster helm ## Measure many collections on a control plane, beside kubectl apply: BENCH_N="10 100".
	$(DEVCLUSTER) build --control-plane
	hack/bench-scale.sh

.PHONY: bench-olm
bench-olm: devcluster ## Measure how long OLM takes to install a collection, beside kubectl apply (Linux, root).
	BENCH_OUTPUT=$(BENCH_FILES)/node E2E_PROCS=1 hack/specs.sh olm bench-olm --label-filter times
	go run ./test/bench figures $(BENCH_FILES)/node

##@ Change

.PHONY: build
build: ## Build the manager, kubectl-collection and zoscb-encrypt into bin/.
	go build -o bin/ ./cmd/manager ./cmd/kubectl-collection ./cmd/zoscb-encrypt

# Tests that write no file and run Ansible or Go.
NOT_GOLDEN := TestFilesOfAnsibleGalaxy|TestInitRuns|TestInitPassesItsOwnWorkflow|TestAnsibleTakesArchives|TestBuildIsThatOfAnsible|TestWatchTellsWhatCounts

.PHONY: generate
generate: ## Regenerate deep copies, CRDs, RBAC, golden files and the Helm chart.
	$(TOOL) controller-gen object paths=./api/...
	$(TOOL) controller-gen crd paths=./api/v2beta1 paths=./api/v2beta2 output:crd:dir=config/crd/bases
	$(TOOL) controller-gen crd paths=./api/operands/... output:crd:dir=config/components/operands/crd
	$(TOOL) controller-gen rbac:roleName=collection-operator-manager paths=./internal/controller/... output:rbac:dir=config/rbac
	go test $(TEST_FLAGS) -skip '$(NOT_GOLDEN)' ./internal/collection/render ./internal/collection/model ./internal/author/galaxy ./internal/author/lint ./internal/collection/explain ./internal/cli/kube ./internal/cli/author ./internal/cli/runs ./internal/cli/deliver ./internal/manager -update
	$(CHART) -output=$(CURDIR)/charts

.PHONY: dashboard
dashboard: devcluster ## Draw the picture of the dashboard in docs/operations.md from metrics of the integration specs.
	METRICS_OUTPUT=$(CURDIR)/hack/monitoring/testdata/recorded.prom INTEGRATION_PROCS=1 hack/specs.sh api dashboard --focus "metrics of runs"
	cd hack/monitoring && go test -vet=off . -update

.PHONY: lint
lint: ## Run the linters.
	hack/lint.sh

.PHONY: audit
audit: ## Check the licences of what we link, and known vulnerabilities if the database can be reached.
	hack/audit.sh

.PHONY: verify
verify: lint ## Run the linters and fail if anything generated is out of date.
	hack/generated.sh

##@ Cluster on this machine

.PHONY: devcluster
devcluster:
	@go build -C hack/devcluster -o $(CURDIR)/$(DEVCLUSTER) .

.PHONY: cluster-up
cluster-up: devcluster ## Build and start a real cluster from package registries alone, or repair it (Linux, root).
	$(DEVCLUSTER) up

.PHONY: images
images: devcluster ## Assemble the images and import them into the cluster, without registry or Docker.
	$(DEVCLUSTER) images

.PHONY: cluster-down
cluster-down: devcluster ## Stop the cluster and clean up after it. What was built is kept.
	$(DEVCLUSTER) down
