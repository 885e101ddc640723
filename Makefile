# Commands of this repository; `make help` lists them. They need Python 3.11 or later, make and curl 7.76 or later.
.DEFAULT_GOAL := help
SHELL := bash
PYTHON ?= python3
BIN := .venv/bin
JOB ?= examples/four-node.yaml
PORT ?= 8080

.PHONY: help
help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  \033[1m%-15s\033[0m %s\n", $$1, $$2}' $(MAKEFILE_LIST)

# pip installs only packages whose hash is in a lock. locks/build.txt has the packages that build the project itself.
PIP := pip install --quiet --disable-pip-version-check
LOCKED := $(PIP) --require-hashes --only-binary :all:

.venv/.run: pyproject.toml locks/serving.txt locks/build.txt
	@echo "Installing into .venv (once; one to three minutes)"
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or later is needed, this is " + sys.version)'
	@$(PYTHON) -m venv .venv
	@$(BIN)/$(LOCKED) --requirement locks/serving.txt --requirement locks/build.txt
	@$(BIN)/$(PIP) --no-deps --no-build-isolation --editable .
	@touch $@

.venv/.dev: .venv/.run locks/dev.txt
	@echo "Installing what tests and lint need"
	@$(BIN)/$(LOCKED) --requirement locks/dev.txt
	@touch $@

.PHONY: run
run: .venv/.run ## Serve previews on loopback, and print the preview of a job (JOB=path.yaml, PORT=8080)
	@test -r "$(JOB)" || { echo "the file $(JOB) cannot be read; try: make run JOB=examples/four-node.yaml" >&2; exit 1; }
	@$(BIN)/python -c 'import socket; socket.create_server(("127.0.0.1", $(PORT))).close()' 2>/dev/null \
	    || { echo "port $(PORT) cannot be used on 127.0.0.1; try: make run JOB=$(JOB) PORT=9080" >&2; exit 1; }
	@$(BIN)/ultraserver-webhook serve-preview --port $(PORT) --log-level warning --log-format text & server=$$!; \
	trap 'kill $$server 2>/dev/null; wait $$server; exit 0' INT TERM; \
	ask() { curl --noproxy '*' --silent "$$@"; }; at=http://127.0.0.1:$(PORT); \
	{ ask --output /dev/null --retry 20 --retry-delay 1 --retry-connrefused $$at/readyz || { echo "no answer at $$at" >&2; false; } \
	    && ask --show-error --fail-with-body --header 'Accept: text/x-diff' --data-binary @- $$at/v1/preview < "$(JOB)"; } \
	    || { echo; kill $$server 2>/dev/null; exit 1; }; \
	printf '\nOpen %s in a browser, or preview a job in another terminal with\ncurl --data-binary @FILE %s/v1/preview. Ctrl-C stops it.\n' $$at $$at; \
	wait $$server

.PHONY: coverage
coverage: .venv/.dev ## Run the quick tests with branch coverage, which takes twice the time
	@$(PYTEST) -m quick --cov --cov-report term $(ARGS)

# If a test or a fixture hangs, the process prints its stack and ends after ten minutes. The time limit of a test does not include its
# fixtures. With TIER, a test fails if its programs are missing; without TIER, it is skipped.
PYTEST = $(BIN)/pytest --numprocesses 2 --dist load -o faulthandler_timeout=600 -o faulthandler_exit_on_timeout=true \
    --max-worker-restart 1
TIER = REQUIRE_CLUSTER=1 REQUIRE_NODES=1 REQUIRE_SSHD=1 $(PYTEST)

.PHONY: test
test: .venv/.dev ## Run the quick tests, which need no root and no program that is built from source (ARGS: arguments for pytest)
	@$(PYTEST) -m quick $(ARGS)

.PHONY: test-plane
test-plane: cluster-tools ## Run the tests on a real control plane, with real operators, Kueue, sshd and Open MPI
	@$(TIER) -m plane $(ARGS)

.PHONY: test-nodes
test-nodes: can-have-nodes node-tools helm images sbom release-before ## Run the tests on real nodes (needs root)
	@$(BIN)/python -m testbed.release.release --dirty --keep
	@$(TIER) -m nodes $(ARGS)

.PHONY: test-soak
test-soak: cluster-tools can-have-nodes node-tools images sbom release-before ## Run the tests that take hours, use random seeds or need a busy machine, and write a record into dist/soak
	@for version in 1.34 1.35 1.37; do KUBERNETES=$$version $(BIN)/python -m testbed.kits.build cluster-tools kueue || exit; done
	@$(BIN)/python -m testbed.release.release --dirty --keep
	@$(BIN)/python -m tests.soak $(ARGS)

.PHONY: lint
lint: .venv/.dev ## Check style, types and the direction of imports
	@$(BIN)/ruff format --check
	@$(BIN)/ruff check
	@$(BIN)/mypy
	@$(BIN)/lint-imports --no-logo
	@$(BIN)/hadolint Dockerfile
	@$(BIN)/ultraserver-webhook rules lint
	@$(BIN)/python -m tests.docs.prose
	@! git grep -nE '^(<<<<<<<|>>>>>>>) ' -- ':!*.lock'
	@range=$(FIRST)..HEAD; git cat-file -e $(FIRST) 2>/dev/null \
	    || { range=HEAD; echo "only some subjects of commits are checked: this clone is shallow (git fetch --unshallow)" >&2; }; \
	    git log --no-merges --format=%s $$range | awk 'length > 72 {print "subject of a commit over 72 characters: " $$0; bad = 1} END {exit bad}'

# The last commit whose subject is not checked.
FIRST = ab2d2d959d8dd3a34920a387aa89cc5170fa6a55

.PHONY: format
format: .venv/.dev ## Format the code
	@$(BIN)/ruff format --quiet
	@$(BIN)/ruff check --fix --quiet

# The locks name the extras of packages, such as gunicorn[gevent]. Otherwise pip would take the newest version of a package with extras,
# for which a lock has no hash.
LOCK = $(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-annotate --no-strip-extras \
    --custom-compile-command 'make lock'

.PHONY: lock
lock: .venv/.dev ## Write the packages of pyproject.toml into locks/, with hashes (ARGS=--upgrade: the newest versions)
	@$(LOCK) pyproject.toml --all-extras --output-file locks/dev.txt $(ARGS)
	@$(LOCK) pyproject.toml --constraint locks/dev.txt --output-file locks/serving.txt
	@$(LOCK) pyproject.toml --constraint locks/dev.txt --extra controllers --output-file locks/controllers.txt
	@$(BIN)/python -c 'import tomllib; print(*tomllib.load(open("pyproject.toml", "rb"))["build-system"]["requires"], sep="\n")' \
	    | $(LOCK) - --constraint locks/dev.txt --output-file locks/build.txt

.PHONY: manifests
manifests: helm ## Write manifests/install.yaml: the chart with its default values, as Helm renders it
	@$(BIN)/python -m testbed.chart

.PHONY: cluster-tools
cluster-tools: .venv/.dev ## Build etcd, the API server, scheduler, controller manager, kubectl, mpi-operator, Helm, Kueue and the controllers of other kinds (takes minutes, once)
	@$(BIN)/python -m testbed.kits.build

# Builds the control plane without the controllers of other kinds of job.
.PHONY: control-plane
control-plane: .venv/.dev
	@$(BIN)/python -m testbed.kits.build cluster-tools

.PHONY: helm
helm: .venv/.dev
	@$(BIN)/python -m testbed.kits.build helm

# This check runs before the builds, because the builds take minutes.
.PHONY: can-have-nodes
can-have-nodes: .venv/.dev
	@$(BIN)/python -c 'import sys; from testbed.images import product; from testbed.nodes import namespaces; \
	    why = namespaces.why_unusable() or product.unbuildable(); sys.exit(why and f"no real nodes here: {why}" or 0)'

.PHONY: node-tools
node-tools: control-plane ## Build the programs of real nodes: control plane, kubelet, containerd, kube-proxy, CoreDNS (takes minutes, once)
	@$(BIN)/python -m testbed.kits.nodes

.PHONY: images
images: .venv/.dev ## Build the images of the product and of a job with buildah, on a base from debootstrap (needs root)
	@$(BIN)/python -m testbed.images.product

.PHONY: cluster
cluster: $(if $(NODES),can-have-nodes node-tools images,control-plane) ## Start a control plane with 24 UltraServers and the webhook, for kubectl; Ctrl-C stops it (NODES=4: four real nodes; DRIVER=4: four more with a DRA driver)
	@$(BIN)/python -m testbed.$(if $(NODES),nodes --nodes $(NODES) --driver $(or $(DRIVER),0),plane)

.PHONY: demo
demo: can-have-nodes node-tools images ## Start four real nodes, install the product, run a plain job and print its topology (needs root)
	@$(BIN)/python -m testbed.nodes.demo

.PHONY: sbom
sbom: dist/sbom.cdx.json ## Write the bill of materials of the installed packages: dist/sbom.cdx.json
	@echo dist/sbom.cdx.json

dist/sbom.cdx.json: pyproject.toml locks/controllers.txt .venv/.dev
	@mkdir -p dist
	@$(PYTHON) -m venv dist/.sbom && dist/.sbom/bin/$(LOCKED) --requirement locks/controllers.txt
	@$(BIN)/python -m hatchling build --target wheel --directory dist/.sbom/wheel 2> /dev/null
	@dist/.sbom/bin/$(PIP) --no-deps dist/.sbom/wheel/*.whl && dist/.sbom/bin/pip uninstall --quiet --yes pip setuptools
	@$(BIN)/cyclonedx-py environment --pyproject pyproject.toml --output-reproducible --output-file $@ dist/.sbom
	@rm -rf dist/.sbom

.PHONY: release
release: helm images sbom ## Write a release into dist/release-VERSION; needs a soak record of its commit (DIRTY=1: without a record; RELEASE_KEY=FILE: signed)
	@$(BIN)/python -m testbed.release.release $(if $(DIRTY),--dirty) $(if $(RELEASE_KEY),--key "$(RELEASE_KEY)")

.PHONY: release-before
release-before: control-plane helm ## Build the previous release, from which tests upgrade (takes minutes, once)
	@$(BIN)/python -m testbed.release.release --before

.PHONY: clean
clean: ## Remove all built files except soak records and ~/.cache/ultraserver-webhook
	@rm -rf .venv .dev .mypy_cache .ruff_cache .pytest_cache .hypothesis .coverage build $(filter-out dist/soak,$(wildcard dist/*))
