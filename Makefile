# One word for each intent; `make help` lists them. Everything runs in .venv, which is made when first needed.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
SOURCES := $(shell find kscheduler -name '*.pyx' -o -name '*.pxd')

# The release of Kubernetes that the control plane and its comparisons are of; for comparisons, all if empty.
KUBERNETES ?=

# Of searches and campaigns.
MINUTES ?= 30
SEED ?= 1
FAULTS ?=

# Test processes: two more than there are cores, because many tests wait for a control plane, but no more than four, since
# each starts one. 0 runs all tests in one.
WORKERS ?= $(shell expr $$(nproc) + 2)

# In CI a test that fails is run once more, at most three in a run, and the end of the run shows each with its first failure:
# hundreds of tests start real servers, on a machine whose other work can hold one up anywhere. What fails twice is a fault.
# Nowhere else: who works on the code is to see at once what fails.
SECOND_TRY := $(if $(filter 1 true,$(CI)),--reruns 1 --max-suite-reruns 3 --rerun-show-tracebacks)
PYTEST := $(BIN)/python -m pytest -n $(WORKERS) --maxprocesses 4 --dist loadfile --no-loadscope-reorder --max-worker-restart 0 $(SECOND_TRY)

# With CHANGED=1 only the modules that the change can break: there may be none, or none with the marker (exit code 5).
CHANGED ?=
run_changed = tests=$$($(BIN)/python -m tests.support.changed) || exit 1; test -z "$$tests" || $(PYTEST) $(1) $$tests || test $$? -eq 5
run_tests = $(if $(CHANGED),@$(run_changed),$(PYTEST) $(1))

# Without it every process compiles its modules again, and pytest rewrites the assertions of 500 modules: 10 s.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help build dev debug demo demo-metrics demo-gangs demo-wasm guests new-plugin wasmer test hunt gang-faults gang-restarts parity parity-devices parity-gangs parity-queues test-fast test-newest check lint types stubs stubs-write contracts format bench bench-counts campaign profile controlplane lock vendor clean wheels chart docs man image image-lock release release-pythons

help: ## list the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 16

PIP_INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check

# What building and running need; what tests and checks need besides is installed when they are first run.
$(VENV)/.runtime: requirements-runtime.lock
	@$(PYTHON) deploy/build_tools.py
	$(PYTHON) -m venv $(VENV)
	$(PIP_INSTALL) -r requirements-runtime.lock
	@touch $@

$(VENV)/.dependencies: requirements.lock $(VENV)/.runtime
	$(PIP_INSTALL) -r requirements.lock
	@touch $@

$(VENV)/.built: $(VENV)/.runtime setup.py pyproject.toml $(SOURCES)
	$(PIP_INSTALL) --no-build-isolation --no-deps --editable .
	@touch $@

build: $(VENV)/.built ## set up .venv and compile the kernels

dev: build $(VENV)/.dependencies ## what tests and checks need, besides

debug: $(VENV)/.runtime ## compile the kernels with every check on, and annotated HTML under build/cython
	KSCHEDULER_DEBUG=1 $(BIN)/python setup.py --quiet build_ext --inplace --force
	@rm -f $(VENV)/.built

# Where nobody looks at a terminal it only names the page's file.
demo: build ## simulate 38 hours of a busy cluster, and show its page until Ctrl-C
	$(BIN)/kscheduler simulate --workload perf/demo.yaml --max-time 136800 --decisions 500 --html report.html --output report.json
	@if [ -t 0 ] && [ -t 1 ]; then exec $(BIN)/kscheduler ui report.json; else echo "the page is at file://$(CURDIR)/report.html"; fi

demo_gangs = $(BIN)/kscheduler simulate --workload perf/gangs/workload.yaml $(2) --decisions 100 --output build/demo-gangs/$(1).json --html build/demo-gangs/$(1).html

demo-metrics: build ## compare placing by real load with placing by requests, simulated; plots in build/demo-metrics
	$(BIN)/python -m perf.real_load
	@echo "all runs side by side: file://$(CURDIR)/build/demo-metrics/index.html"

demo-gangs: build ## two trainings on a cluster with room for one: under the default profile, and as gangs; pages in build/demo-gangs
	@mkdir -p build/demo-gangs
	$(call demo_gangs,default)
	$(call demo_gangs,coscheduling,--config perf/gangs/coscheduling.yaml)
	@cd build/demo-gangs && ../../$(BIN)/kscheduler compare default.json coscheduling.json --html compared.html >/dev/null
	@echo "both runs side by side: file://$(CURDIR)/build/demo-gangs/compared.html"

demo-wasm: dev ## compile a plugin in C, serve it by http, and schedule with it
	$(BIN)/python plugins/demo_wasm.py

guests: dev ## compile the example plugins into build/guests: C, Go, AssemblyScript, Rust
	$(BIN)/python plugins/build_guests.py
	$(BIN)/python plugins/sdk/build_examples.py

new-plugin: dev ## start a plugin in Python: NAME=PreferTeam, with its test and a configuration, below plugins/
	$(BIN)/python plugins/new_plugin.py "$(NAME)" plugins

wasmer: build ## build libwasmer, the other wasm engine, into the user's cache: 11 minutes of CPU, once (needs Rust 1.95)
	$(BIN)/python -m kscheduler.wasm.wasmer.build

# The same order of sets in each run; a hunt draws it.
test test-fast parity: export PYTHONHASHSEED := 0
test: dev ## everything: checks, unit tests, tests on a real control plane (needs Go); CHANGED=1: what a change can break; WORKERS=2
	@$(MAKE) --no-print-directory --jobs 2 --output-sync check
	$(call run_tests)

hunt: dev ## search for faults with fresh seeds for MINUTES=30, or again with SEEDS=1,2 (needs Go)
	$(BIN)/python -m tests.hunt --minutes $(MINUTES) $(if $(SEEDS),--seeds $(SEEDS))

gang-faults: dev ## 16,000 random runs of gangs under faults, in virtual time: none stays half placed
	$(BIN)/python -m tests.scenarios.gang_faults
	$(BIN)/python -m tests.scenarios.gang_faults --cases 3000 --composites
	$(BIN)/python -m tests.scenarios.gang_faults --cases 3000 --rooms queues

gang-restarts: dev ## 50 runs of gangs on a real control plane whose apiserver is killed, with the scheduler in every other run (needs Go)
	$(BIN)/python -m tests.controlplane.gang_restarts

parity: dev ## compare with kube-scheduler, all that `make test` compares (needs Go); KUBERNETES=1.37: with that release wholly
	KSCHEDULER_KUBERNETES=$(KUBERNETES) $(PYTEST) tests/parity tests/controlplane/parity

parity-devices: dev ## compare 20,000 allocations of devices and 20,000 decisions with kube-scheduler's, and print what was covered (needs Go)
	KSCHEDULER_KUBERNETES=$(KUBERNETES) $(BIN)/python -m tests.parity.devices.coverage
	KSCHEDULER_KUBERNETES=$(KUBERNETES) $(BIN)/python -m tests.parity.coverage_dra

# KUBERNETES=1.36, or groups of another kind: PLACEMENTS=1 with topology constraints, POLICIES=1 with preemption policies,
# COMPOSITES=1 in composite groups, CLAIMS=1 with claims, TOGETHER=1 that preempt as a whole in 1.36 (TOGETHER=placed: with
# topology constraints, too).
parity-gangs: dev ## compare decisions about 5,000 groups of pods with kube-scheduler 1.37's, and print what was covered (needs Go); PLACEMENTS=1 and other kinds of groups: see Makefile
	KSCHEDULER_KUBERNETES=$(KUBERNETES) $(BIN)/python -m tests.parity.coverage_gangs $(if $(PLACEMENTS),--placements) $(if $(POLICIES),--policies) $(if $(COMPOSITES),--composites) $(if $(CLAIMS),--claims) $(if $(TOGETHER),--together$(if $(filter placed,$(TOGETHER)),-placed))

parity-queues: dev ## compare the fair shares of 10,000 random trees of queues with KAI-Scheduler's steps
	$(BIN)/python -m tests.parity.quotas.compare_divisions

test-fast: dev ## the unit tests alone; CHANGED=1 as for test
	$(call run_tests,-m "not slow and not controlplane")

test-newest: dev ## the unit tests on the newest supported CPython, if it is installed
	TEST_NEWEST=1 $(BIN)/python -m pytest -rs tests/test_newest_python.py

check: lint types stubs contracts ## ruff, mypy, stubtest and import contracts

lint: dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: dev
	$(BIN)/mypy

stubs: dev
	$(BIN)/python -m tests.fast.stubs
	$(BIN)/python -m mypy.stubtest --allowlist tests/stubtest-allowlist.txt \
	  $$(find kscheduler -name '*.pyx' | sed 's/\.pyx$$//; s,/,.,g')

stubs-write: dev ## write the kernels' stubs from their references
	$(BIN)/python -m tests.fast.stubs --write

contracts: dev
	$(BIN)/lint-imports --no-logo

format: dev ## put the sources into shape
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: dev ## compare with kube-scheduler on a real control plane (needs Go)
	$(BIN)/python -m perf.compare_kube_scheduler

bench-counts: dev ## Python calls and machine instructions a pod beside the baselines (needs Go and valgrind)
	$(BIN)/python -m perf.counts
	$(BIN)/python -m perf.instructions

campaign: dev ## faults between scheduler and apiserver, and an outside judge: MINUTES=30 SEED=1 FAULTS=kill,freeze (needs Go)
	$(BIN)/python -m tests.campaign --minutes $(MINUTES) --seed $(SEED) --faults "$(FAULTS)"

profile: dev ## flame graph, event-loop lag and allocations under load, into build/profile
	$(BIN)/python -m perf.profile

controlplane: build ## start etcd and kube-apiserver, print their kubeconfig, run until Ctrl-C (needs Go); KUBERNETES=1.37
	$(BIN)/python -m kscheduler.testing.controlplane $(if $(KUBERNETES),--kubernetes $(KUBERNETES))

COMPILE := $(BIN)/uv pip compile --quiet --universal --generate-hashes --python-version 3.11 --no-header pyproject.toml

wheels: dev ## build sdist, wheels for x86-64 and arm64, and a CycloneDX list of packages into dist/, with every promised CPython that is here
	$(BIN)/python -m deploy.release.wheels

image: dev ## build the image without a container engine, for x86-64 and arm64, into dist/ as an OCI layout (needs Debian's apt and dpkg)
	$(BIN)/python -m deploy.release.image

release: dev ## build all that is published into dist/VERSION, and check it: VERSION=1.2.0 (what `make image` and `make wheels` need)
	$(BIN)/python -m deploy.release.release $(VERSION)

release-pythons: dev ## unpack the promised Pythons that this machine lacks, for x86-64 and arm64, below /opt (needs Debian's apt and dpkg)
	$(BIN)/python -m deploy.release.pythons

image-lock: dev ## choose the newest versions of Debian's packages in the image
	$(BIN)/python -m deploy.release.debian

chart: ## copy into the Helm chart what it shares with kustomize: rights, custom kinds, rules, dashboard
	$(PYTHON) -m deploy.release.chart

docs: dev ## build the documentation as a site, and the man page, into build/docs; a broken link fails
	$(BIN)/python -m docs.build

man: dev ## write the man page that wheels contain
	$(BIN)/python -m docs.reference.man

lock: $(VENV)/.runtime ## resolve all dependencies again
	$(PIP_INSTALL) uv
	$(COMPILE) --extra dev -o requirements.lock
	$(COMPILE) --extra build --extra record --extra wasm --constraint requirements.lock -o requirements-runtime.lock

vendor: dev ## fetch what the page vendors from npm again, and compare it with its hashes (needs npm)
	$(BIN)/python -m tests.ui.vendor

clean: ## remove what the targets above made
	rm -rf $(VENV) build dist *.egg-info report.html report.json
	find kscheduler -name '*.so' -delete
