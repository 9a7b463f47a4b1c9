"""Makes the image of packaging/Dockerfile without Docker: an archive of an OCI layout in dist/, for `podman load`,
`docker load` (25 or later) and `skopeo copy oci-archive:…`. For root on Debian, with debootstrap and `make package`.

`image.py [RELEASE]`: on this release of Debian (trixie). Its Python needs a wheel in dist/. `--base FOLDER`: copy this
folder, which debootstrap made with python3 and python3-venv, instead of a new one. Account, environment, port, volume
and command are those of the Dockerfile."""
from __future__ import annotations

import argparse
import gzip
import hashlib
import io
import json
import os
import re
import shutil
import stat
import subprocess
import sys
import tarfile
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
INSTALL = """
python3 -m venv /opt/queend
/opt/queend/bin/pip install --quiet --no-cache-dir --no-index --find-links /wheels --require-hashes -r /wheels/run.txt
/opt/queend/bin/pip install --quiet --no-cache-dir --no-index --find-links /wheels --no-deps queend
/opt/queend/bin/pip --quiet check
/opt/queend/bin/pip uninstall --quiet --yes pip
"""
# Removes what only the installation needs, and what differs from one build to the next.
TIDY = """
apt-get -qq -o Dpkg::Use-Pty=0 purge --yes python3-venv 'python3.*-venv' 'python3-.*-whl' >/dev/null
apt-get -qq clean
find / -xdev -name __pycache__ -type d -prune -exec rm -rf {} +
rm -rf /wheels /var/lib/apt/lists/* /var/cache/* /var/log/* /tmp/* /root/.cache /etc/resolv.conf /etc/hostname
: > /etc/machine-id
"""


def run(*words: object, **more: object) -> str:
    return subprocess.run([str(word) for word in words], check=True, stdout=subprocess.PIPE, text=True, **more).stdout


def inside(root: Path, script: str) -> None:
    """Runs a script of the shell in the folder, without network settings of this machine."""
    run("chroot", root, "/usr/bin/env", "-i", "PATH=/usr/sbin:/usr/bin:/sbin:/bin", "LANG=C.UTF-8",
        "DEBIAN_FRONTEND=noninteractive", "PYTHONDONTWRITEBYTECODE=1", "/bin/sh", "-ec", script)


def recipe() -> dict[str, list[str]]:
    """Returns the words of each instruction in the last stage of the Dockerfile."""
    text = (ROOT / "packaging/Dockerfile").read_text().replace("\\\n", " ")
    found: dict[str, list[str]] = {}
    for line in text[text.rindex("\nFROM "):].splitlines():
        name, _, words = line.partition(" ")
        if re.fullmatch(r"[A-Z]+", name):
            found.setdefault(name, []).append(words.strip())
    return found


def config(base: Path) -> dict:
    """Returns the configuration of the containers, as the image specification of OCI has it."""
    said = recipe()
    environment = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}
    for name, value in re.findall(r"(\w+)=(\S+)", " ".join(said["ENV"])):
        environment[name] = value.replace("$PATH", environment["PATH"])
    user, = said["USER"]
    return {"User": user, "Env": [f"{name}={value}" for name, value in environment.items()],
            "Entrypoint": json.loads(said["ENTRYPOINT"][0]), "Cmd": json.loads(said["CMD"][0]),
            "WorkingDir": said["WORKDIR"][0], "StopSignal": said["STOPSIGNAL"][0],
            "ExposedPorts": {f"{said['EXPOSE'][0]}/tcp": {}}, "Volumes": {said["VOLUME"][0]: {}},
            "Labels": {**dict(re.findall(r'(\S+)="([^"]*)"', " ".join(said["LABEL"]))),
                       "org.opencontainers.image.version": version(base)}}


def version(root: Path) -> str:
    return run("chroot", root, "/opt/queend/bin/python", "-c", "import queend; print(queend.__version__)").strip()


def fill(root: Path, work: Path) -> None:
    """Installs the wheel for the Python of this Debian, with the distributions locked in locked/run.txt. Makes the
    account."""
    minor = run("chroot", root, "python3", "-c", "import sys; print(sys.version_info[1])").strip()
    wheels = sorted((ROOT / "dist").glob(f"queend-*-cp3{minor}-*.whl"))
    if not wheels:
        sys.exit(f"there is no wheel for Python 3.{minor} in dist/: make package")
    run(sys.executable, "-m", "venv", work / "venv")
    run(work / "venv/bin/pip", "download", "--quiet", "--disable-pip-version-check", "--only-binary", ":all:",
        "--require-hashes", "-r", ROOT / "locked/run.txt", "--python-version", f"3.{minor}", "--implementation", "cp",
        "--dest", root / "wheels")
    for path in (ROOT / "locked/run.txt", wheels[-1]):
        shutil.copy(path, root / "wheels")
    inside(root, INSTALL)
    account = re.search(r"RUN (groupadd.*?)(?<!\\)\n", (ROOT / "packaging/Dockerfile").read_text(), re.S)
    assert account, "the Dockerfile makes no account"
    inside(root, account[1].replace("\\\n", ""))
    inside(root, TIDY)


def layer(root: Path, moment: int) -> bytes:
    """Returns the tar of a folder, the same for the same files."""
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w", format=tarfile.GNU_FORMAT) as archive:
        for path in sorted(root.rglob("*")):
            name = str(path.relative_to(root))
            mode = path.lstat().st_mode
            if re.match(r"(dev|proc|sys|run)/", name) or not (
                    stat.S_ISREG(mode) or stat.S_ISDIR(mode) or stat.S_ISLNK(mode)):
                continue
            entry = archive.gettarinfo(path, name)
            entry.mtime = min(int(entry.mtime), moment)
            entry.uname = entry.gname = ""
            if entry.isreg():
                with path.open("rb") as content:
                    archive.addfile(entry, content)
            else:
                archive.addfile(entry)
    return made.getvalue()


def layout(folder: Path, root: Path, moment: int) -> str:
    """Writes the layout of one image with one layer. Returns the version of queend in it."""
    blobs = folder / "blobs/sha256"
    blobs.mkdir(parents=True)

    def blob(data: bytes, kind: str) -> dict:
        digest = hashlib.sha256(data).hexdigest()
        (blobs / digest).write_bytes(data)
        return {"mediaType": f"application/vnd.oci.image.{kind}", "digest": f"sha256:{digest}", "size": len(data)}

    def written(data: object, kind: str) -> dict:
        return blob(json.dumps(data, sort_keys=True).encode(), kind)

    tar, settings = layer(root, moment), config(root)
    created = datetime.fromtimestamp(moment, UTC).isoformat()
    packed = blob(gzip.compress(tar, 6, mtime=0), "layer.v1.tar+gzip")
    described = written({
        "architecture": run("dpkg", "--print-architecture").strip(), "os": "linux", "created": created,
        "config": settings, "rootfs": {"type": "layers", "diff_ids": [f"sha256:{hashlib.sha256(tar).hexdigest()}"]},
        "history": [{"created": created, "created_by": "tools/image.py"}]}, "config.v1+json")
    manifest = written({"schemaVersion": 2, "mediaType": "application/vnd.oci.image.manifest.v1+json",
                        "config": described, "layers": [packed]}, "manifest.v1+json")
    said = settings["Labels"]["org.opencontainers.image.version"]
    manifest["annotations"] = {"org.opencontainers.image.ref.name": said, "io.containerd.image.name": f"queend:{said}"}
    (folder / "oci-layout").write_text('{"imageLayoutVersion": "1.0.0"}')
    (folder / "index.json").write_text(json.dumps({"schemaVersion": 2, "manifests": [manifest]}))
    return said


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition(".")[0])
    parser.add_argument("release", nargs="?", default="trixie")
    parser.add_argument("--base", type=Path)
    given = parser.parse_args()
    if os.geteuid():
        sys.exit("debootstrap and chroot are for root: sudo")
    began = time.monotonic()
    moment = int(os.environ.get("SOURCE_DATE_EPOCH") or run("git", "log", "-1", "--format=%ct", cwd=ROOT))
    os.umask(0o022)
    with tempfile.TemporaryDirectory(prefix="queend-image-") as name:
        work = Path(name)
        work.chmod(0o755)
        root = work / "root"
        if given.base:
            run("cp", "-a", given.base, root)
        else:
            run("debootstrap", "--variant=minbase", "--include=ca-certificates,python3,python3-venv", given.release,
                root)
        fill(root, work)
        said = layout(work / "layout", root, moment)
        architecture = run("dpkg", "--print-architecture").strip()
        made = ROOT / "dist" / f"queend-{said}-{architecture}.oci.tar"
        run("tar", "--sort=name", "--owner=0", "--group=0", "--numeric-owner", f"--mtime=@{moment}", "-C",
            work / "layout", "-cf", made, ".")
        shutil.rmtree(root)
        print(f"{made.name}  {made.stat().st_size >> 20} MiB  {time.monotonic() - began:.0f} s")


if __name__ == "__main__":
    main()
