"""The commands of the README as make runs them."""
import os
import re
import signal
import subprocess
import sys
import tomllib
from contextlib import suppress
from pathlib import Path

from packaging.requirements import Requirement
from support.wait import PATIENCE

ROOT = Path(__file__).parent.parent.parent
# What these tests run in has been built: make is not to look at it again.
MADE = ["-o", f"{sys.prefix}/.ready", "-o", "build/.full", f"VENV={sys.prefix}"]

# The tests may run below a make of their own, whose flags must not reach these.
CLEAN = {name: value for name, value in os.environ.items() if not name.startswith("MAKE")}


def test_make_alone_prints_the_targets():
    done = subprocess.run(["make"], cwd=ROOT, capture_output=True, text=True, env=CLEAN)
    phony = re.search(r"^\.PHONY: (.*)$", (ROOT / "Makefile").read_text(), re.M)[1].split()
    assert done.returncode == 0 and done.stderr == ""
    assert [line.split()[1] for line in done.stdout.splitlines()] == phony
    assert all(len(line.split()) > 3 for line in done.stdout.splitlines())


def test_ci_runs_the_command_of_the_readme():
    assert re.search(r"^make test +#", (ROOT / "README.md").read_text(), re.M)
    done = subprocess.run([ROOT / ".ci" / "run"], cwd="/", capture_output=True, text=True,
                          env={**CLEAN, "MAKEFLAGS": "n"})
    wanted = subprocess.run(["make", "-n", "test"], cwd=ROOT, capture_output=True, text=True, env=CLEAN)
    assert done.stdout == wanted.stdout and "-m pytest" in done.stdout.splitlines()[-1]


def test_make_run_serves_until_ctrl_c(tmp_path):
    (tmp_path / "bin").mkdir()
    process = subprocess.Popen(["make", *MADE, f"BINDIR={tmp_path / 'bin'}", "run"], cwd=ROOT,
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
                               env={"PATH": os.environ["PATH"], "HOST": "127.0.0.1", "PORT": "0",
                                    "QUEEND_DATA_DIR": str(tmp_path)})
    try:
        serves = any(line.startswith("Ctrl-C") for line in iter(process.stdout.readline, ""))
        if not serves:      # the output has ended; a process that lives on would keep the log open
            os.killpg(process.pid, signal.SIGKILL)
        assert serves, process.communicate(timeout=PATIENCE)[1]
        told = subprocess.run([tmp_path / "bin" / "queend", "--version"], cwd="/", capture_output=True, text=True)
        assert told.stdout.startswith("queend "), told
        os.killpg(process.pid, signal.SIGINT)  # what a terminal does: everyone in the foreground hears it
        rest, log = process.communicate(timeout=PATIENCE)
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    assert '"event":"stopped","drained":true' in log
    assert not (tmp_path / "pg" / "postmaster.pid").exists()


def test_the_launcher_leaves_what_others_put_there(tmp_path):
    (tmp_path / "queend").write_text("of somebody else")
    link = ["sh", "tools/launcher.sh"]
    subprocess.run(link, cwd=ROOT, check=True, env={"PATH": os.environ["PATH"], "BINDIR": str(tmp_path)})
    assert (tmp_path / "queend").read_text() == "of somebody else"
    (tmp_path / "queend").unlink()
    for _ in range(2):
        subprocess.run(link, cwd=ROOT, check=True, env={"PATH": os.environ["PATH"], "BINDIR": str(tmp_path)})
        assert (tmp_path / "queend").resolve() == ROOT / "bin" / "queend"


def test_nothing_is_installed_where_nothing_is_missing():
    for what in ([], ["tests"]):
        done = subprocess.run(["sh", "tools/system.sh", *what], cwd=ROOT, capture_output=True, text=True,
                              env={"PATH": os.environ["PATH"], "SUDO": "false", "PYTHON": sys.executable})
        assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_what_is_locked_is_what_is_asked_for():
    """Every distribution has one version in all files, with hashes, and no address; the ranges of pyproject.toml hold;
    what few need is not in it."""
    locked, names = {}, {}
    for file in ("build.txt", "all.txt", "run.txt"):
        for entry in re.split(r"\n(?=\S)", (ROOT / "locked" / file).read_text().replace("\\\n", "\n").rstrip("\n")):
            first, *hashes = entry.split("\n")
            asked = Requirement(first)
            version, = asked.specifier
            assert version.operator == "==" and asked.url is None, first
            assert hashes and all(re.fullmatch(r"    --hash=sha256:[0-9a-f]{64} ?", line) for line in hashes), first
            assert locked.setdefault(asked.name, version.version) == version.version
            names.setdefault(file, set()).add(asked.name)
    wanted = subprocess.run([sys.executable, ROOT / "tools" / "requirements.py"], capture_output=True, text=True,
                            check=True).stdout.splitlines()
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    for text in [*wanted, *project["build-system"]["requires"], *project["project"]["dependencies"]]:
        asked = Requirement(text)
        assert asked.specifier.contains(locked[asked.name.lower()]), text
    assert not {"pyspark", "pgmq"} & set(locked)
    run = {Requirement(text).name.lower() for text in project["project"]["dependencies"]}
    assert names["run.txt"] >= run | {"cryptography", "psycopg-binary"}
    assert not {"pytest", "psycopg-c"} & names["run.txt"]
