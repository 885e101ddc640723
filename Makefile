# Everything a person does with this repository. `make help` lists it; only Python 3.11+ and make are needed.
.DEFAULT_GOAL := help
SHELL := bash
PYTHON ?= python3
BIN := .venv/bin
JOB ?= examples/four-node.yaml
PORT ?= 8443
CERTS := .dev/certs

.PHONY: help
help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  \033[1m%-15s\033[0m %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.venv/.run: pyproject.toml constraints.txt
	@echo "Installing into .venv (once; half a minute)"
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or later is needed, this is " + sys.version)'
	@$(PYTHON) -m venv .venv
	@$(BIN)/pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable .
	@touch $@

.venv/.dev: .venv/.run
	@echo "Installing what tests and lint need"
	@$(BIN)/pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[dev]'
	@touch $@

.PHONY: run
run: .venv/.run ## Serve on loopback, send it a job and show what comes back (JOB=path.yaml, PORT=8443)
	@$(BIN)/python -m certs dev --dir $(CERTS)
	@$(BIN)/python -c 'import socket; socket.create_server(("127.0.0.1", $(PORT))).close()' 2>/dev/null \
	    || { echo "port $(PORT) cannot be used on 127.0.0.1; try: make run PORT=9443" >&2; exit 1; }
	@$(BIN)/ultraserver-webhook serve --host 127.0.0.1 --port $(PORT) --preview --log-format text \
	    --tls-cert $(CERTS)/tls.crt --tls-key $(CERTS)/tls.key & server=$$!; \
	trap 'kill $$server 2>/dev/null; wait $$server; exit 0' INT TERM; \
	$(BIN)/ultraserver-webhook review "$(JOB)" --url https://127.0.0.1:$(PORT)/mutate --ca $(CERTS)/ca.crt --wait 20 \
	    || { kill $$server 2>/dev/null; exit 1; }; \
	printf '\nServing on https://127.0.0.1:%s (CA: %s). Ctrl-C stops it.\n' $(PORT) $(CERTS)/ca.crt; \
	wait $$server

.PHONY: test
test: .venv/.dev ## Run every test: unit, property, HTTP and, where they are built, the control plane, real nodes and images
	@$(BIN)/pytest --numprocesses auto --dist load -m "not bench$(if $(ARGS),, and not alone)" --cov --cov-report term $(ARGS)
	@$(if $(ARGS),,$(BIN)/pytest -m alone --cov --cov-append --cov-report term)

.PHONY: lint
lint: .venv/.dev ## Check style, types and the direction of imports
	@$(BIN)/ruff format --check
	@$(BIN)/ruff check
	@$(BIN)/mypy
	@$(BIN)/lint-imports --no-logo
	@$(BIN)/hadolint Dockerfile
	@$(BIN)/ultraserver-webhook rules lint

.PHONY: format
format: .venv/.dev ## Format the code
	@$(BIN)/ruff format --quiet
	@$(BIN)/ruff check --fix --quiet

.PHONY: cluster-tools
cluster-tools: .venv/.dev ## Build etcd, the API server, scheduler, controller manager, kubectl, mpi-operator, Kueue and other kinds' controllers (minutes, once)
	@$(BIN)/python -m tests.cluster.tools.build

# Without the controllers of other kinds of job.
.PHONY: control-plane
control-plane: .venv/.dev
	@$(BIN)/python -m tests.cluster.tools.build cluster-tools

# Asked first, and not after minutes of building.
.PHONY: can-have-nodes
can-have-nodes: .venv/.dev
	@$(BIN)/python -c 'import sys; from tests.cluster.realnodes import namespaces, product; \
	    why = namespaces.unusable() or product.unbuildable(); sys.exit(why and f"no real nodes here: {why}" or 0)'

.PHONY: node-tools
node-tools: control-plane ## Build what real nodes run: control plane, kubelet, containerd, kube-proxy, CoreDNS (minutes, once)
	@$(BIN)/python -m tests.cluster.realnodes.build

.PHONY: images
images: .venv/.dev ## Build the product's images and a job's with buildah, on a base from debootstrap (needs root)
	@$(BIN)/python -m tests.cluster.realnodes.product

.PHONY: cluster
cluster: $(if $(NODES),can-have-nodes node-tools images,control-plane) ## Start a control plane with 24 UltraServers and the webhook, for kubectl; Ctrl-C stops it (NODES=4: real nodes)
	@$(BIN)/python -m tests.cluster$(if $(NODES),.realnodes --nodes $(NODES))

.PHONY: demo
demo: can-have-nodes node-tools images ## Four real nodes: install the product, run a plain job on them and show what it was told (needs root)
	@$(BIN)/python -m tests.cluster.realnodes.demo

.PHONY: sbom
sbom: dist/sbom.cdx.json ## Write the bill of materials of what is installed to run it: dist/sbom.cdx.json
	@echo dist/sbom.cdx.json

dist/sbom.cdx.json: pyproject.toml constraints.txt .venv/.dev
	@mkdir -p dist
	@$(PYTHON) -m venv dist/.sbom && dist/.sbom/bin/pip install --quiet --disable-pip-version-check \
	    --constraint constraints.txt '.[controllers]' && dist/.sbom/bin/pip uninstall --quiet --yes pip setuptools
	@$(BIN)/cyclonedx-py environment --pyproject pyproject.toml --output-reproducible --output-file $@ dist/.sbom
	@rm -rf dist/.sbom

.PHONY: release
release: control-plane images sbom ## Write a release: packages, images, manifests, checksums: dist/release-VERSION (DIRTY=1: not of a commit)
	@$(BIN)/python -m tests.cluster.realnodes.release $(if $(DIRTY),--dirty)

.PHONY: release-before
release-before: control-plane ## Build the release before this one, which a test upgrades from (minutes, once)
	@$(BIN)/python -m tests.cluster.realnodes.release --before

.PHONY: clean
clean: ## Remove what can be made again, .cache excepted: programs and images of tests
	@rm -rf .venv .dev .mypy_cache .ruff_cache .pytest_cache .hypothesis .coverage dist build
