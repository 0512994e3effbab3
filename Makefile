# One word for each intent; `make help` lists them. Everything runs in .venv, which is made when first needed.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
SOURCES := $(shell find kscheduler -name '*.pyx' -o -name '*.pxd')

# Of searches and campaigns.
MINUTES ?= 30
SEED ?= 1
FAULTS ?=

# Test processes: one for each core, but no more than four, since each starts a control plane. 0 runs all tests in one.
WORKERS ?= auto
PYTEST := $(BIN)/python -m pytest -n $(WORKERS) --maxprocesses 4 --dist loadfile --no-loadscope-reorder --max-worker-restart 0

# Without it every process compiles its modules again, and pytest rewrites the assertions of 500 modules: 10 s.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help build debug demo demo-metrics demo-wasm guests new-plugin wasmer test hunt test-fast check lint types stubs stubs-write contracts format bench campaign profile controlplane lock clean

help: ## list the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 16

$(VENV)/.dependencies: requirements.lock
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -r requirements.lock
	@touch $@

$(VENV)/.built: $(VENV)/.dependencies setup.py pyproject.toml $(SOURCES)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-build-isolation --no-deps --editable .
	@touch $@

build: $(VENV)/.built ## set up .venv and compile the kernels

debug: $(VENV)/.dependencies ## compile the kernels with every check on, and annotated HTML under build/cython
	KSCHEDULER_DEBUG=1 $(BIN)/python setup.py --quiet build_ext --inplace --force
	@rm -f $(VENV)/.built

demo: build ## schedule 50,000 pods on a simulated cluster of 5,000 nodes and write report.html
	$(BIN)/kscheduler simulate --nodes 5000 --pods 50000 --arrival poisson:500 --seed 1 --html report.html --output report.json

demo-metrics: build ## compare placing by real load with placing by requests, simulated; plots in build/demo-metrics
	$(BIN)/python -m perf.real_load

demo-wasm: build ## compile a plugin in C, serve it by http, and schedule with it
	$(BIN)/python plugins/demo_wasm.py

guests: build ## compile the example plugins into build/guests: C, Go, AssemblyScript, Rust
	$(BIN)/python plugins/build_guests.py
	$(BIN)/python plugins/sdk/build_examples.py

new-plugin: build ## start a plugin in Python: NAME=PreferTeam, with its test and a configuration, below plugins/
	$(BIN)/python plugins/new_plugin.py "$(NAME)" plugins

wasmer: build ## build libwasmer, the other wasm engine, into the user's cache: 11 minutes of CPU, once (needs Rust 1.95)
	$(BIN)/python -m kscheduler.wasm.wasmer.build

# The same order of sets in each run; a hunt draws it.
test test-fast: export PYTHONHASHSEED := 0
test: build ## everything: checks, unit tests, and tests on a real control plane (needs Go); WORKERS=2 tests at a time
	@$(MAKE) --no-print-directory --jobs 2 --output-sync check
	$(PYTEST)

hunt: build ## search for faults with fresh seeds for MINUTES=30, or again with SEEDS=1,2 (needs Go)
	$(BIN)/python -m tests.hunt --minutes $(MINUTES) $(if $(SEEDS),--seeds $(SEEDS))

test-fast: build ## the unit tests alone
	$(PYTEST) -m "not slow and not controlplane"

check: lint types stubs contracts ## ruff, mypy, stubtest and import contracts

lint: build
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: build
	$(BIN)/mypy

stubs: build
	$(BIN)/python -m tests.fast.stubs
	$(BIN)/python -m mypy.stubtest --allowlist tests/stubtest-allowlist.txt \
	  $$(find kscheduler -name '*.pyx' | sed 's/\.pyx$$//; s,/,.,g')

stubs-write: build ## write the kernels' stubs from their references
	$(BIN)/python -m tests.fast.stubs --write

contracts: build
	$(BIN)/lint-imports --no-logo

format: build ## put the sources into shape
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: build ## compare with kube-scheduler on a real control plane (needs Go)
	$(BIN)/python -m perf.compare_kube_scheduler

campaign: build ## faults between scheduler and apiserver, and an outside judge: MINUTES=30 SEED=1 FAULTS=kill,freeze (needs Go)
	$(BIN)/python -m tests.campaign --minutes $(MINUTES) --seed $(SEED) --faults "$(FAULTS)"

profile: build ## flame graph, event-loop lag and allocations under load, into build/profile
	$(BIN)/python -m perf.profile

controlplane: build ## start etcd and kube-apiserver, print their kubeconfig, run until Ctrl-C (needs Go)
	$(BIN)/python -m tests.controlplane.harness

lock: $(VENV)/.dependencies ## resolve the development dependencies again
	$(BIN)/python -m pip install --quiet uv
	$(BIN)/uv pip compile --quiet --universal --python-version 3.10 --extra dev --no-header pyproject.toml -o requirements.lock

clean: ## remove what the targets above made
	rm -rf $(VENV) build *.egg-info report.html report.json
	find kscheduler -name '*.so' -delete
