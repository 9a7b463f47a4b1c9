#!/bin/sh
# Installs the Debian packages that are missing. `system.sh` alone: what the build and the daemon need; `system.sh tests`: what
# the tests and the benchmark need besides; `system.sh generated`: what openapi-generator needs; `system.sh spark`: what Spark needs, `spark-bench`: what it is compared with; `system.sh redis`, `system.sh peers`: what `make bench-keys` and `make bench-peers` compare
# with, none of it started; `system.sh patroni`: etcd and HAProxy, not started; `system.sh fuzz`: libFuzzer, which `tests` brings, too. SUDO: how to become root ("" when we are). PYTHON: the interpreter of the
# virtual environment.
set -eu

missing=""
need() { missing="$missing $1"; }
have() { command -v "$1" >/dev/null 2>&1; }
need_fuzzer() {
    have clang || need clang
    ls /usr/lib/llvm-*/lib/clang/*/lib/linux/libclang_rt.fuzzer-*.a >/dev/null 2>&1 || need libclang-rt-dev
}

if test "${1:-}" = tests; then
    have wrk || need wrk
    have valgrind || need valgrind
    have curl || need curl
    have openssl || need openssl
    test -x /usr/sbin/nginx || need nginx-light # the proxy of docs/production.md
    have systemd-analyze || need systemd
    have zsh || need zsh # completion is tried in the shells themselves
    have fish || need fish
    have node || need nodejs # examples/orders.mjs
    have promtool || need prometheus
    test -x /usr/sbin/pgbouncer || need pgbouncer
    ls /usr/lib/*/faketime/libfaketime.so.1 >/dev/null 2>&1 || need libfaketime
    ls /usr/lib/*/faketime/libfaketimeMT.so.1 >/dev/null 2>&1 || need faketime
    # A second server version, with TLS, which the embedded one lacks.
    ls /usr/lib/postgresql/*/bin/postgres >/dev/null 2>&1 || need postgresql
    need_fuzzer
elif test "${1:-}" = fuzz; then
    need_fuzzer
elif test "${1:-}" = dashboard; then
    have chromium || need chromium
    have npm || need npm
elif test "${1:-}" = packages; then
    have debootstrap || need debootstrap
    have systemd-nspawn || need systemd-container
elif test "${1:-}" = generated; then
    have javac || need openjdk-17-jdk-headless # openapi-generator, and the Java that it writes
elif test "${1:-}" = spark; then
    have java || need openjdk-17-jre-headless
    test -e /usr/share/java/postgresql.jar || need libpostgresql-jdbc-java # a job reads tables
elif test "${1:-}" = patroni; then
    have etcd || need etcd-server
    test -x /usr/sbin/haproxy || need haproxy # of docs/high-availability.md
elif test "${1:-}" = spark-bench; then
    test -e /usr/share/java/postgresql.jar || need libpostgresql-jdbc-java
elif test "${1:-}" = redis; then
    have redis-server || need redis-server
elif test "${1:-}" = peers; then
    test -x /usr/lib/rabbitmq/bin/rabbitmq-server || need rabbitmq-server
    have nats-server || need nats-server
else
    have gcc || need gcc
    have pkg-config || need pkg-config
    for pair in libuv:libuv1-dev libpq:libpq-dev libssl:libssl-dev libzstd:libzstd-dev zlib:zlib1g-dev; do
        pkg-config --exists "${pair%%:*}" 2>/dev/null || need "${pair#*:}"
    done
    # The C library's headers come with the compiler's recommendations, which a minimal system leaves out.
    test -e /usr/include/stdio.h || need libc6-dev
    "$PYTHON" -c 'import ensurepip, venv' 2>/dev/null || need python3-venv
    "$PYTHON" -c 'import os, sysconfig, sys; sys.exit(not os.path.exists(os.path.join(sysconfig.get_path("include"), "Python.h")))' \
        || need python3-dev
fi

test -n "$missing" || exit 0
echo "installing:$missing"
have apt-get || { echo "this system has no apt-get; install the equivalents of:$missing" >&2; exit 1; }
case "$missing" in *postgresql*)
    # The tests start servers of their own: Debian's package must not start one.
    if test ! -e /etc/postgresql-common/createcluster.conf; then
        $SUDO mkdir -p /etc/postgresql-common
        echo "create_main_cluster = false" | $SUDO tee /etc/postgresql-common/createcluster.conf >/dev/null
    fi
esac
case "$missing" in *prometheus*)
    # Only its promtool is wanted: the server is not to start, now or later.
    if test -d /etc/systemd/system && test ! -e /etc/systemd/system/prometheus.service; then
        $SUDO ln -s /dev/null /etc/systemd/system/prometheus.service
    fi
esac
guarded=$(case "${1:-}$missing" in peers*|redis*|*nginx*|*etcd*|*haproxy*) echo yes;; esac)
if test -n "$guarded" && test ! -e /usr/sbin/policy-rc.d; then
    # Benchmark and tests start their own: the packages must start nothing.
    trap '$SUDO rm -f /usr/sbin/policy-rc.d' EXIT
    printf '#!/bin/sh\nexit 101\n' | $SUDO tee /usr/sbin/policy-rc.d >/dev/null
    $SUDO chmod 755 /usr/sbin/policy-rc.d
fi
$SUDO apt-get update -qq
# shellcheck disable=SC2086
$SUDO env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $missing >/dev/null
case "$guarded" in yes)
    for unit in rabbitmq-server.service nats-server.service epmd.socket epmd.service nginx.service etcd.service haproxy.service redis-server.service; do # nor at the next start of the machine
        ! have systemctl || $SUDO systemctl disable "$unit" >/dev/null 2>&1 || true
    done
esac
