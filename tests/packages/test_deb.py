"""The Debian package in a Debian where nothing is, under its systemd: started, asked, started anew, removed."""
from __future__ import annotations

import json
import re
import subprocess
import time
from pathlib import Path

import pytest
from support.wait import until

from .conftest import DIST, told

# Connects anew for each push while the daemon is started anew, and says what was lost.
CALLER = """
import json, sys, threading, urllib.request
done = threading.Event()
stored, lost = [], []
def call(number):
    n = 0
    while not done.is_set():
        body = json.dumps({"items": [{"queue": "anew", "partition": str(number), "payload": n}]}).encode()
        try:
            with urllib.request.urlopen("http://127.0.0.1:6632/api/v1/push", body, timeout=60) as answer:
                stored.append(json.load(answer)[0]["status"])
        except Exception as error:
            lost.append(repr(error))
        n += 1
threads = [threading.Thread(target=call, args=(number,)) for number in range(4)]
for thread in threads: thread.start()
print("calling", flush=True)
sys.stdin.read()
done.set()
for thread in threads: thread.join()
print(json.dumps({"stored": len(stored), "lost": lost}))
"""


@pytest.fixture(scope="module")
def package() -> Path:
    found = sorted(DIST.glob("queend_*.deb"))
    assert found, "there is no package in dist/: make deb"
    return found[-1]


def answers(machine) -> bool:
    return "ready" in machine.run("python3", "-c", "import urllib.request as r; print(r.urlopen("
                                  "'http://127.0.0.1:6632/readyz').read().decode())", check=False)


def shown(machine, unit: str, what: str) -> str:
    return machine.run("systemctl", "show", "--value", "-p", what, unit).strip()


def test_the_package_under_systemd(clean, package):
    began = time.monotonic()
    clean.run("apt-get", "update", "-q", network=True)
    clean.run("apt-get", "install", "-yq", "--no-install-recommends", "postgresql", network=True)
    told("PostgreSQL of Debian", began)
    began = time.monotonic()
    clean.run("apt-get", "install", "-yq", "--no-install-recommends", f"/given/{package.name}", bind=package.parent)
    told("installation of the package", began)
    # files of its own, an account, a page, completion
    assert clean.run("id", "queend").startswith("uid=")
    assert clean.run("stat", "-c", "%a %U:%G", "/etc/queend/queend.toml").strip() == "640 root:queend"
    assert clean.shell("zcat /usr/share/man/man1/queend.1.gz | head -1").startswith(".TH QUEEND 1 ")
    for place in ("bash-completion/completions/queend", "zsh/vendor-completions/_queend"):
        assert (clean.root / "usr/share" / place).stat().st_size > 100
    assert "/etc/queend/queend.toml" in clean.run("dpkg-query", "-W", "-f", "${Conffiles}", "queend")

    began = time.monotonic()
    clean.boot()
    clean.run("systemctl", "disable", "--now", "postgresql")      # its own cluster is not ours
    until(lambda: answers(clean), "the daemon is ready", 180)
    told("boot, until the daemon is ready", began)
    assert shown(clean, "queend", "User") == "queend"
    began = time.monotonic()
    clean.run("queend", "push", "orders", '{"n":1}', "--partition", "customer-7")
    assert json.loads(clean.run("queend", "pop", "orders", "--ack", "-o", "json"))[0]["data"] == {"n": 1}
    told("first message by the command line, there and back", began)
    processes = shown(clean, "queend", "MainPID")

    # a reload changes what may change, in the same process
    clean.shell("echo 'stats_interval_ms = 777' >> /etc/queend/queend.toml && systemctl reload queend")
    until(lambda: '"STATS_INTERVAL_MS"' in clean.run("journalctl", "-u", "queend", "-o", "cat"), "it was reloaded")
    until(lambda: shown(clean, "queend", "ActiveState") == "active", "systemd knows")
    assert shown(clean, "queend", "MainPID") == processes

    # a secret by LoadCredential, and a restart
    clean.put("/etc/queend/jwt_secret", "a secret of tests, which is long enough\n")
    clean.put("/etc/systemd/system/queend.service.d/secret.conf",
              "[Service]\nLoadCredential=jwt_secret:/etc/queend/jwt_secret\nEnvironment=JWT_ENABLED=true\n")
    clean.shell("chmod 600 /etc/queend/jwt_secret; systemctl daemon-reload; systemctl restart queend")
    until(lambda: answers(clean), "the daemon is ready again")
    assert clean.shell("queend pop orders > /dev/null 2>&1 || echo $?").strip() == "7"      # it asks for a token
    clean.shell("rm /etc/systemd/system/queend.service.d/secret.conf; systemctl daemon-reload")

    # the socket of systemd: nobody is refused in a restart
    clean.shell("systemctl stop queend; systemctl enable --now queend.socket; systemctl start queend")
    caller = subprocess.Popen(["nsenter", "-t", str(clean.leader), "-a", "python3", "-c", CALLER], text=True,
                              stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert caller.stdout.readline() == "calling\n"
    began = time.monotonic()
    for _ in range(3):
        before = shown(clean, "queend", "MainPID")
        clean.run("systemctl", "restart", "queend")
        until(lambda: answers(clean), "the next one is ready")
        assert shown(clean, "queend", "MainPID") != before
    told("three restarts under load", began)
    result = json.loads(caller.communicate("\n", timeout=120)[0])
    assert result["lost"] == [] and result["stored"] > 10, result
    print(f"\n    {result['stored']} pushes on new connections meanwhile, none lost", flush=True)

    # an instance beside it
    clean.put("/etc/queend/blue.toml", "port = 6633\n")
    clean.run("systemctl", "start", "queend@blue")
    clean.run("queend", "--url", "http://127.0.0.1:6633", "push", "q", "2")
    assert (clean.root / "var/lib/queend-blue/pg").is_dir()

    # gone, but for what is the user's
    clean.run("systemctl", "stop", "queend@blue")
    clean.run("apt-get", "remove", "-yq", "queend")
    assert not (clean.root / "usr/bin/queend").exists() and (clean.root / "etc/queend/queend.toml").exists()
    assert not (clean.root / "usr/lib/queend").exists() and (clean.root / "var/lib/queend/pg").is_dir()
    clean.run("apt-get", "purge", "-yq", "queend")
    assert not (clean.root / "etc/queend/queend.toml").exists()


BY_HAND = """
cd /root
export QUEEND_DATA_DIR=/var/lib/queend
setpriv --reuid=queend --regid=queend --clear-groups queend serve 2> /tmp/log &
daemon=$!
trap 'tail -n 20 /tmp/log >&2' EXIT
curl -sf --retry 100 --retry-delay 1 --retry-connrefused --retry-all-errors localhost:6632/readyz
curl -sf localhost:6632/api/v1/push -d '{"items":[{"queue":"orders","payload":{"n":1}}]}'
curl -sf 'localhost:6632/api/v1/pop/queue/orders?autoAck=true'
kill $daemon
wait $daemon
trap - EXIT
"""


def test_the_package_without_a_running_systemd(clean, package):
    """In a container or a chroot: nothing starts by itself, `queend serve` does."""
    clean.run("apt-get", "update", "-q", network=True)
    clean.run("apt-get", "install", "-yq", "--no-install-recommends", "postgresql", network=True)
    began = time.monotonic()
    clean.run("apt-get", "install", "-yq", "--no-install-recommends", f"/given/{package.name}", bind=package.parent)
    told("installation of the package", began)
    assert (clean.root / "etc/systemd/system/multi-user.target.wants/queend.service").is_symlink()
    began = time.monotonic()
    answers_of = clean.shell(BY_HAND)
    told("from `queend serve` to the first message by curl, and stopped", began)
    assert '"queued"' in answers_of and '"n":1' in answers_of.replace(" ", ""), answers_of
    clean.run("apt-get", "remove", "-yq", "queend")
    assert not (clean.root / "usr/lib/queend").exists() and (clean.root / "var/lib/queend/pg").is_dir()
    clean.run("apt-get", "purge", "-yq", "queend")
    assert not (clean.root / "etc/queend").exists()
    assert not (clean.root / "etc/systemd/system/multi-user.target.wants/queend.service").is_symlink()


def test_each_python_that_the_package_asks_for_has_its_modules(package, tmp_path):
    control = subprocess.run(["dpkg-deb", "-f", package, "Depends"], check=True, text=True, capture_output=True).stdout
    (first, last), = re.findall(r"python3 \(>= 3\.(\d+)\), python3 \(<< 3\.(\d+)\)", control)
    subprocess.run(["dpkg-deb", "-x", package, tmp_path], check=True)
    modules = tmp_path / "usr/lib/queend"
    compiled = {minor: {str(path.relative_to(modules)).partition(".cpython-")[0]
                        for path in modules.rglob(f"*.cpython-3{minor}-*.so")}
                for minor in range(int(first), int(last))}
    assert "queend/_core" in compiled[int(first)] and all(one == compiled[int(first)] for one in compiled.values())
    assert not list(modules.glob("*.dist-info/direct_url.json"))


def test_the_libraries_need_no_newer_c_library_than_the_package_asks_for(package, tmp_path):
    control = subprocess.run(["dpkg-deb", "-f", package, "Depends"], check=True, text=True, capture_output=True).stdout
    asked, = re.findall(r"libc6 \(>= (\d+)\.(\d+)\)", control)
    subprocess.run(["dpkg-deb", "-x", package, tmp_path], check=True)
    libraries = [path for path in (tmp_path / "usr/lib/queend").rglob("*.so*") if path.is_file()]
    symbols = subprocess.run(["objdump", "-T", *libraries], check=True, text=True, capture_output=True).stdout
    needed = max((int(major), int(minor)) for major, minor in re.findall(r"\(GLIBC_(\d+)\.(\d+)", symbols))
    assert needed <= tuple(map(int, asked)) <= (2, 36), needed      # Debian 12 has 2.36, Ubuntu 24.04 has 2.39


def test_without_postgresql_it_says_what_is_missing(clean, package):
    clean.run("dpkg", "--force-depends", "-i", f"/given/{package.name}", bind=package.parent, check=False)
    words = clean.shell("runuser -u queend -- env QUEEND_DATA_DIR=/tmp/queend timeout 60 queend serve 2>&1 || true")
    assert "apt-get install postgresql" in words and "PG_HOST" in words, words
