# What people type. `make` alone prints the targets.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
SUDO   := $(if $(filter 0,$(shell id -u)),,sudo)

.DEFAULT_GOAL := help
.PHONY: help system lock venv build run check test test-quick test-asan test-tsan test-faults test-seeds test-truth test-kills test-findings test-patroni test-schema test-sdk dashboard test-dashboard test-generated test-pyright typescript test-typescript test-windows test-spark test-spark-versions test-spark-tutorials package deb image test-packages test-spark-kills demo-spark documents site ways fuzz bench bench-quick bench-scale bench-soak bench-peers bench-keys bench-unordered bench-compare bench-bounds bench-secure bench-live bench-spark bench-spark-archive clean

help: ## print this list
	@awk -F':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

system: ## install the system packages that are missing (apt; root or sudo)
	@SUDO="$(SUDO)" PYTHON="$(PYTHON)" sh tools/system.sh

# What is in locked/, by its hashes: `make lock` writes it. Distributions that have to be compiled are built with what is locked as well.
PIP := $(BIN)/pip install --quiet --disable-pip-version-check

$(VENV)/.ready: locked/build.txt locked/all.txt tools/system.sh
	@$(MAKE) --no-print-directory system
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(PIP) --require-hashes -r locked/build.txt
	@$(PIP) --require-hashes --no-build-isolation -r locked/all.txt
	@touch $@

lock: ## lock what pyproject.toml asks for to versions and hashes (ARGS=--upgrade: the newest)
	@PYTHON="$(PYTHON)" sh tools/lock.sh $(ARGS)

venv: $(VENV)/.ready ## make the virtual environment with everything the build, the daemon and the tests need

# Whether the core was compiled quickly is part of what it is: the other kind is built anew.
KIND := build/.$(if $(QUICK),quick,full)

build: $(KIND) ## compile the core in place (QUICK=1: unoptimized, in a quarter of the time)

$(KIND): $(VENV)/.ready setup.py queend/_core.pyx queend/spark/_digests.pyx $(shell find queend/core -type f)
	@mkdir -p build
	@QUEEND_QUICK=$(QUICK) $(BIN)/python setup.py --quiet build_ext --inplace $(if $(wildcard $@),,--force)
	@rm -f build/.quick build/.full
	@touch $@

# What the tests and the benchmarks need besides.
.PHONY: system-tests
system-tests: $(VENV)/.ready
	@SUDO="$(SUDO)" sh tools/system.sh tests

run: build ## start PostgreSQL (its own, local) and the daemon; Ctrl-C stops both; the command queend is in the path then (BINDIR)
	@BINDIR="$(BINDIR)" sh tools/launcher.sh
	@exec $(BIN)/python -m queend serve

# Hundreds of interpreters start in one run. Each would compile again what the one before has compiled.
unexport PYTHONDONTWRITEBYTECODE

# Most tests wait most of the time: on two cores four processes share them (tests/support/scheduler.py). With ARGS there is one, unless they ask for more.
WORKERS ?= 4
# A test that hangs is named, with the stacks of its threads; its process ends and the others go on.
SIDE_BY_SIDE := -n $(WORKERS) --dist loadscope -o faulthandler_timeout=600 -o faulthandler_exit_on_timeout=true

# A core that is compiled serves, also an older one: compiling alone takes longer than a minute. `make test` builds first.
check: $(if $(wildcard queend/_core.*.so),,$(KIND)) ## style, names, rooms, documents and generated files: less than a minute, without a database
	@$(BIN)/python -m pytest -q -n 2 --dist loadscope tests/check

# The core and the fuzz targets are one unit each: on two cores, one compiles beside the other.
.PHONY: both fuzz-quick
both: $(VENV)/.ready
	@$(MAKE) --no-print-directory -j 2 build fuzz-quick

# A line that is too long is reported before minutes of tests, not after them; the checks do not run again with these.
test: $(if $(ARGS),build,both check) system-tests ## run the checks, install what the tests need besides, then run them all (ARGS: these, one after the other)
	@$(BIN)/python -m pytest $(or $(ARGS),$(SIDE_BY_SIDE) --ignore tests/check)

test-quick: build system-tests ## the tests of the core, the SQL functions and the tokens that need no daemon: less than two minutes
	@$(BIN)/python -m pytest $(SIDE_BY_SIDE) -m 'not daemon and not counted' tests/core tests/sql tests/auth $(ARGS)

ASAN := $(CURDIR)/.asan
# Not there: what valgrind counts, a model of databases that is all Python, daemons whose clock another library sets, programs of documents, and the
# scripts of the SDKs, with leases of a second.
ASAN_NOT = tests/core/test_instructions.py tests/e2e/test_discovery.py tests/e2e/test_sdk%.py tests/e2e/test_streams_sdk.py \
  tests/e2e/test_tutorial.py tests/e2e/test_examples.py tests/e2e/test_guides.py
ASAN_TESTS = $(filter-out $(ASAN_NOT),$(wildcard tests/core/test_*.py tests/auth/test_*.py tests/e2e/test_*.py)) tests/platform/test_control.py tests/golden tests/surface tests/schema
test-asan: $(VENV)/.ready system-tests ## run the tests of the data plane under AddressSanitizer and UndefinedBehaviorSanitizer
	@sh tools/sanitized.sh $(BIN)/python $(ASAN) address,undefined $(ASAN_TESTS) $(ARGS)

# What several threads, several daemons and clients that come and go do to one core.
TSAN_TESTS = $(wildcard tests/e2e/test_workers.py tests/e2e/test_storm.py tests/e2e/test_two_daemons.py tests/e2e/test_stop.py \
  tests/e2e/test_handover.py tests/e2e/test_late_answers.py tests/e2e/test_given_back_storm.py tests/e2e/test_leaving.py \
  tests/e2e/test_commanded.py tests/e2e/test_shared_rates.py tests/e2e/test_memory.py tests/e2e/test_leased_acks.py \
  tests/e2e/test_capacity.py tests/e2e/test_failover.py tests/e2e/test_failover_adoption.py tests/e2e/test_failover_maintenance.py \
  tests/e2e/test_large_bodies.py tests/e2e/test_peers.py tests/e2e/test_https.py tests/e2e/test_handshake_turns.py)
test-tsan: $(VENV)/.ready system-tests ## run the tests of workers and storms under ThreadSanitizer
	@sh tools/sanitized.sh $(BIN)/python $(CURDIR)/.tsan thread $(TSAN_TESTS) $(ARGS)

test-faults: build system-tests ## 20 minutes of random histories while everything goes wrong that can, judged by one checker (FAULT_SECONDS, FAULT_SEED, FAULT_KINDS)
	@FAULT_SECONDS=$${FAULT_SECONDS:-1200} $(BIN)/python -m pytest -s tests/faults $(ARGS)

# Tests that throw dice: they throw the same ones in `make test`.
test-seeds: build system-tests ## run the tests that throw dice again and again with other seeds (ROUNDS: 10); a failure prints its SEED
	@for round in $$(seq $(or $(ROUNDS),10)); do SEED=random $(BIN)/python -m pytest $(SIDE_BY_SIDE) -q \
	  $$(grep -rlE 'seed_of_run\(\)|^ *@given' tests --include=test_*.py | grep -v tests/spark) $(ARGS) || exit 1; done

test-truth: build system-tests ## a random history of TRUTH_STEPS steps (20 000) from TRUTH_SEED on: every figure is compared with a count by hand after each TRUTH_EVERY (5); then faults are planted, and found
	@TRUTH_STEPS=$${TRUTH_STEPS:-20000} $(BIN)/python -m pytest -s tests/truth $(ARGS)

test-kills: build system-tests ## 200 times: a part of the embedded PostgreSQL killed under load, and the daemon a moment later; how long until it serves (KILLS, FAULT_SEED)
	@KILLS=$${KILLS:-200} $(BIN)/python -m pytest -s tests/platform/test_double_kill.py $(ARGS)

test-findings: build system-tests ## run scripts from outside that print OK or FAULT against daemons that are started for them (FINDINGS=folder; Spark for those in spark/)
	@test ! -d "$(FINDINGS)/spark" || { $(SPARK); }
	@$(BIN)/python -m pytest tests/findings --findings "$(FINDINGS)" -q -rf --tb=line $(ARGS)

test-patroni: build system-tests ## two daemons on three servers that Patroni keeps with quorum commit, TROUBLES (30) random troubles under load, judged by one checker: about 30 minutes (PATRONI_SEED, PATRONI_KINDS)
	@SUDO="$(SUDO)" sh tools/system.sh patroni
	@$(BIN)/python tools/requirements.py patroni | $(BIN)/pip --python /usr/bin/python3 install --quiet --disable-pip-version-check --target build/patroni --upgrade -r /dev/stdin
	@$(BIN)/python -m pytest -s tests/patroni --patroni build/patroni $(ARGS)

test-schema: build system-tests ## ask a daemon everything /openapi.json says may be asked: 20 000 calls by schemathesis along its links, about 10 minutes
	@$(BIN)/python -m pytest tests/schema -s --schema-calls 20000 $(ARGS)

test-sdk: build system-tests ## the published clients' own tests, all of them, with and without tokens, and their load: about 5 minutes
	@$(BIN)/python -m pytest tests/e2e/test_sdk_own.py tests/e2e/test_sdk.py::test_load -s --sdk-tests $(ARGS)

SPARK = SUDO="$(SUDO)" sh tools/system.sh spark && $(BIN)/python tools/requirements.py spark spark-s3 spark-delta spark-iceberg spark-test | $(BIN)/pip install --quiet --disable-pip-version-check -r /dev/stdin

dashboard: build ## build the dashboard of dashboard/ into queend/dashboard (Node 20 and npm; nobody else needs them)
	@$(BIN)/python tools/dashboard.py

test-dashboard: build system-tests ## the dashboard in a headless Chromium, with axe; makes docs/pictures anew: about 3 minutes
	@SUDO="$(SUDO)" sh tools/system.sh dashboard
	@cd dashboard && test -d node_modules || npm ci --no-audit --no-fund --silent
	@$(BIN)/python tools/requirements.py dashboard | $(PIP) -r /dev/stdin
	@$(BIN)/python -m pytest tests/dashboard --dashboard $(ARGS)

test-generated: build system-tests ## clients that generators make of /openapi.json, in Python, TypeScript and Java, against a daemon: about 1 minute (npm, Java)
	@SUDO="$(SUDO)" sh tools/system.sh generated
	@test -x build/generated/bin/python || $(PYTHON) -m venv build/generated
	@$(BIN)/python tools/requirements.py generated | build/generated/bin/pip install --quiet --disable-pip-version-check -r /dev/stdin
	@cd dashboard && test -d node_modules || npm ci --no-audit --no-fund --silent
	@$(BIN)/python -m pytest tests/generated --generated $(ARGS)

test-pyright: $(VENV)/.ready ## pyright, strictly, on the Python client, its examples and the programs of its page: 20 seconds; once it is installed, `make check` does this, too
	@test -x build/pyright/bin/python || $(PYTHON) -m venv build/pyright
	@$(BIN)/python tools/requirements.py pyright | build/pyright/bin/pip install --quiet --disable-pip-version-check -r /dev/stdin
	@$(BIN)/python -m pytest tests/check/test_types.py -k pyright $(ARGS)

typescript: build ## make the types of clients/typescript from the routes (npm)
	@test -d clients/typescript/node_modules || npm ci --prefix clients/typescript --no-audit --no-fund --silent
	@$(BIN)/python tools/typescript.py

test-typescript: build system-tests ## the TypeScript client under Node against daemons, and the examples of its pages: about 1 minute (npm)
	@npm ci --prefix clients/typescript --no-audit --no-fund --silent
	@$(BIN)/python -m pytest tests/typescript --typescript $(ARGS)

test-windows: build system-tests ## the sliding-window program of both clients, 50 runs of each: no window comes twice (WINDOW_RUNS)
	@WINDOW_RUNS=$${WINDOW_RUNS:-50} $(BIN)/python -m pytest -s tests/e2e/test_streams_sdk.py -k twice $(ARGS)

test-spark: build system-tests ## the Spark connector against a real daemon, in one session of Spark on two threads: about 10 minutes
	@$(SPARK)
	@$(BIN)/python -m pytest tests/spark --spark $(ARGS)

SPARK_VERSIONS := 3.5 4.0 4.1 4.2 4.3
test-spark-versions: build system-tests ## the Spark connector on each version of PySpark, installed in build/spark-VERSION, classic and by Spark Connect; prints a table: about 20 minutes
	@$(SPARK)
	@for version in $(SPARK_VERSIONS); do \
	  test -x build/spark-$$version/bin/python || $(PYTHON) -m venv build/spark-$$version; \
	  $(BIN)/python tools/requirements.py spark-versions | build/spark-$$version/bin/pip install --quiet --disable-pip-version-check -r /dev/stdin "pyspark==$$version.*" || exit 1; done
	@$(BIN)/python -m pytest -s tests/spark/test_pysparks.py --spark $(ARGS)

SPARK_TESTS = $(patsubst %,tests/spark/test_%.py,tutorials source sink stream positions values options trouble \
	addresses mistakes permission deleted lag docs)
test-spark-tutorials: build system-tests ## queries for Kafka, and the connector, on PySpark 4.0, 4.1 and 4.2, after `make test-spark-versions` (SPARK_VERSION, SPARK_TESTS: other files of tests/spark)
	@for version in $(or $(SPARK_VERSION),4.0 4.1 4.2); do \
	  PYTHONPATH=$$(echo $(CURDIR)/build/spark-$$version/lib/python3.*/site-packages) $(BIN)/python -m pytest $(SPARK_TESTS) --spark $(ARGS) || exit 1; done

package: ## the sdist, and a wheel for each CPython from 3.11 to 3.14 found here, in dist/: about 2 minutes each
	@$(MAKE) --no-print-directory system
	@$(PYTHON) tools/package.py $(ARGS)

deb: ## the Debian package of the wheels in dist/, for each of their Pythons: about 2 minutes
	@$(PYTHON) tools/deb.py

image: ## the image of packaging/Dockerfile without Docker, an OCI archive in dist/, on Debian 13 (root; ARGS: another release): about 2 minutes
	@SUDO="$(SUDO)" sh tools/system.sh packages
	@$(SUDO) $(PYTHON) tools/image.py $(ARGS)

PYTHONS ?= /usr/bin/python3
test-packages: build system-tests ## make wheel and package (PYTHONS: for which Python; DIST=kept: what is there), install them in a new Debian and under its systemd (root): about 15 minutes
	@SUDO="$(SUDO)" sh tools/system.sh packages
	@$(BIN)/python tools/requirements.py packages | $(PIP) -r /dev/stdin
	@test "$(DIST)" = kept || $(MAKE) --no-print-directory package ARGS='$(PYTHONS)'
	@test "$(DIST)" = kept || $(MAKE) --no-print-directory deb
	@test "$(DIST)" = kept || $(MAKE) --no-print-directory image ARGS="$$(. /etc/os-release && echo $$VERSION_CODENAME)"
	@$(BIN)/python -m pytest -s tests/packages --packages $(ARGS)

test-spark-kills: build system-tests ## a stream from queue to queue over 10^6 rows, killed ten times with everything around it, on threads and on a cluster; the jobs replay and aggregate too (SPARK_KILLS, SPARK_ROWS, CLUSTER_ROUNDS, CLUSTER_ROWS)
	@$(SPARK)
	@SPARK_KILLS=$${SPARK_KILLS:-10} SPARK_ROWS=$${SPARK_ROWS:-1000000} CLUSTER_ROUNDS=$${CLUSTER_ROUNDS:-10} \
	  CLUSTER_ROWS=$${CLUSTER_ROWS:-1000000} $(BIN)/python -m pytest -s tests/spark/test_kills.py tests/spark/test_cluster.py \
	  tests/spark/test_jobs_kills.py --spark $(ARGS)

demo-spark: build ## events by HTTP, a streaming aggregation, a second queue and Parquet, a chart, and the counts compared
	@$(SPARK)
	@$(BIN)/python examples/spark_demo.py $(ARGS)

documents: $(or $(wildcard build/.quick),$(KIND)) ## what documents say of settings, options, commands, routes, SQL and metrics, made anew
	@for pair in configuration:configuration cli:cli api:api sql_reference:sql-reference metrics:metrics \
	  terminals:inside/terminals; do \
	  PYTHONPATH=. $(BIN)/python tools/$${pair%%:*}.py > build/document.md && mv build/document.md docs/$${pair##*:}.md || exit 1; done
	@PYTHONPATH=. $(BIN)/python tools/options.py
	@PYTHONPATH=. $(BIN)/python tools/chart.py

SITE := $(CURDIR)/build/site
site: ## the documents as a static site in build/site; a link that leads nowhere ends it
	@test -x build/.venv-site/bin/python || $(PYTHON) -m venv build/.venv-site
	@$(PYTHON) tools/requirements.py site | build/.venv-site/bin/pip install --quiet --disable-pip-version-check -r /dev/stdin
	@$(PYTHON) tools/site.py
	@NO_MKDOCS_2_WARNING=1 build/.venv-site/bin/mkdocs build --strict --config-file build/mkdocs.yml --site-dir $(SITE) 2> build/site.log || { grep -E 'WARNING|ERROR' build/site.log; exit 1; }

WAYS := $(CURDIR)/.ways
ways: $(VENV)/.ready system-tests ## which functions of which files a push, a pop and an acknowledgment pass: docs/inside/ways.md
	@sh tools/ways/ways.sh $(BIN)/python $(WAYS) > $(WAYS).md && mv $(WAYS).md docs/inside/ways.md

# The whole core once more, by clang; nothing but the fuzz targets is built this way.
FUZZ := $(CURDIR)/.fuzz
FUZZ_FLAGS := -O1 -g1
$(FUZZ)/fuzz: $(VENV)/.ready tools/fuzz.sh tests/fuzz/targets.pyx tests/fuzz/main.c tests/fuzz/ignored.txt queend/_core.pyx $(shell find queend/core -type f)
	@SUDO="$(SUDO)" sh tools/system.sh fuzz
	@FUZZ_FLAGS='$(FUZZ_FLAGS)' sh tools/fuzz.sh $(BIN)/python $(FUZZ)

# What tests/fuzz takes for some seconds is built in a quarter of the time.
fuzz-quick:
	@$(MAKE) --no-print-directory FUZZ=$(CURDIR)/.fuzz-quick FUZZ_FLAGS='-O0 -gline-tables-only' $(CURDIR)/.fuzz-quick/fuzz

fuzz: $(FUZZ)/fuzz ## libFuzzer on every reader of what strangers send, so many seconds each (FUZZ_SECONDS=60); FUZZ_KEEP=1 keeps what it learns
	@SEED=$${SEED:-random} FUZZ_SECONDS=$${FUZZ_SECONDS:-60} $(BIN)/python -m pytest -p no:cacheprovider tests/fuzz $(ARGS)

bench: build system-tests ## run the benchmark: one JSON line per scenario, a table on standard error
	@$(BIN)/python bench/run.py $(ARGS)

bench-quick: build system-tests ## the same in less than a minute
	@$(BIN)/python bench/run.py --quick $(ARGS)

bench-scale: build system-tests ## sweeps over batch size, connections, groups, partitions, backlog and parked pops: bench/results/plots and the tables of bench/results/scale.md
	@$(BIN)/python bench/scale.py --write $(ARGS)

bench-soak: build system-tests ## 30 minutes at full speed with retention on and a snapshot held open for ten of them (ARGS='--minutes 3' for less): bench/out/soak*
	@$(BIN)/python bench/soak.py $(ARGS)

bench-peers: build system-tests ## the same loads against RabbitMQ, NATS JetStream and pgmq, about 4 minutes: the tables of bench/results/peers.md
	@SUDO="$(SUDO)" sh tools/system.sh peers
	@$(BIN)/python tools/requirements.py peers | $(BIN)/pip install --quiet --disable-pip-version-check --no-deps -r /dev/stdin
	@$(BIN)/python bench/peers.py --write $(ARGS)

bench-keys: build system-tests ## keys and locks beside Redis, about 3 minutes
	@SUDO="$(SUDO)" sh tools/system.sh redis
	@$(BIN)/python bench/keys.py $(ARGS)

bench-unordered: build system-tests ## 30 jobs of 0.2 s and ten workers, with order and without; single jobs a second beside pgmq; about 3 minutes
	@$(BIN)/python tools/requirements.py peers | $(BIN)/pip install --quiet --disable-pip-version-check --no-deps -r /dev/stdin
	@$(BIN)/python bench/unordered.py $(ARGS)

bench-compare: build system-tests ## what a change costs per message, against another checkout that is built (BEFORE=folder), in turns of one run
	@$(BIN)/python bench/compare.py $(BEFORE) $(ARGS)

bench-bounds: build system-tests ## what clients can take: memory above the start and the p99 of a push of others under each attack of SECURITY.md
	@$(BIN)/python bench/bounds.py $(ARGS)

bench-secure: build system-tests ## what TLS costs: two daemons, one plain and one with a certificate, loaded in turn; processor time per push and handshake, latency, memory per idle connection
	@$(BIN)/python bench/secure.py $(ARGS)

bench-live: build system-tests ## 10 000 connections that wait, as long polls, server-sent events and WebSockets: push to delivery and processor time per message
	@$(BIN)/python bench/live.py $(ARGS)

bench-spark: build system-tests ## Spark in and out of queues against sinks and sources that do nothing and against JDBC, and planning: bench/results/spark.md
	@SUDO="$(SUDO)" sh tools/system.sh spark-bench
	@$(SPARK)
	@$(BIN)/python bench/spark.py --write $(ARGS)

bench-spark-archive: build system-tests ## 10^7 rows into an archive and out of it, with the memory of daemon and JVM: bench/results/spark.md
	@$(SPARK)
	@$(BIN)/python bench/spark_archive.py --write $(ARGS)

clean: ## remove what was built (not the data)
	@rm -rf build .asan .tsan .fuzz *.egg-info queend/_core*.so queend/spark/_digests*.so $(VENV)
