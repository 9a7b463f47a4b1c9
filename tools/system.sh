#!/bin/sh
# Installs the Debian packages the build, the tests and the benchmark need, and only those that are missing.
# SUDO: how to become root ("" when we are). PYTHON: the interpreter the virtual environment is made from.
set -eu

missing=""
need() { missing="$missing $1"; }
have() { command -v "$1" >/dev/null 2>&1; }

have gcc || need gcc
have pkg-config || need pkg-config
have wrk || need wrk
have systemd-analyze || need systemd
for pair in libuv:libuv1-dev libpq:libpq-dev libcrypto:libssl-dev; do
    pkg-config --exists "${pair%%:*}" 2>/dev/null || need "${pair#*:}"
done
# The C library's headers come with the compiler's recommendations, which a minimal system leaves out.
test -e /usr/include/stdio.h || need libc6-dev
"$PYTHON" -c 'import ensurepip, venv' 2>/dev/null || need python3-venv
"$PYTHON" -c 'import os, sysconfig, sys; sys.exit(not os.path.exists(os.path.join(sysconfig.get_path("include"), "Python.h")))' \
    || need python3-dev

test -n "$missing" || exit 0
echo "installing:$missing"
have apt-get || { echo "this system has no apt-get; install the equivalents of:$missing" >&2; exit 1; }
$SUDO apt-get update -qq
# shellcheck disable=SC2086
$SUDO env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $missing >/dev/null
