#!/bin/sh
# Writes locked/build.txt and locked/all.txt: each distribution that the build, the daemon and the tests need, with its
# version and the hashes of its files, for every platform and CPython from 3.11 on. locked/run.txt: those that an
# installed wheel needs, in the versions of locked/all.txt, for the images. `lock.sh`: what is locked stays while the
# ranges of pyproject.toml allow it; `lock.sh --upgrade`: the newest. The extras that few need (spark, peers) are not in
# it.
set -eu
cd "$(dirname "$0")/.."
tools=$(mktemp -d)
trap 'rm -rf "$tools"' EXIT
"${PYTHON:-python3}" -m venv "$tools"
"$tools/bin/pip" install --quiet --disable-pip-version-check uv
lock() {
    "$tools/bin/uv" pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-emit-find-links --no-annotate --no-header \
        "$@" - -o "$out"
}
mkdir -p locked
build='setuptools>=77
Cython>=3.1,<4
wheel'
out=locked/build.txt
echo "$build" | lock "$@"
out=locked/all.txt
{ echo "$build"; "${PYTHON:-python3}" tools/requirements.py; } | lock "$@"
out=locked/run.txt
"${PYTHON:-python3}" tools/requirements.py run | lock --constraint locked/all.txt "$@"
