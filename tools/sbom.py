"""Writes dist/queend-VERSION-MACHINE.cdx.json, the list of components in CycloneDX: the distributions locked in
locked/run.txt, which the Debian package and the image contain, and the libraries that lie in the wheel.
`sbom.py CYCLONEDX_PY` (cyclonedx-bom of PyPI)."""
from __future__ import annotations

import json
import platform
import re
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
# The file of a library in a wheel: its name, what auditwheel puts in between, its version.
LIBRARY = re.compile(r"([A-Za-z0-9_+.]+?)(?:-[0-9a-f]{8})?\.so[.0-9]*$")


def vendored(wheel: Path) -> list[dict]:
    with zipfile.ZipFile(wheel) as archive:
        names = sorted(Path(one).name for one in archive.namelist() if ".libs/" in one and ".so" in one)
    return [{"type": "library", "bom-ref": f"vendored:{name}", "name": LIBRARY.sub(r"\1", name),
             "properties": [{"name": "queend:file", "value": name}]} for name in names]


def main() -> None:
    tag = f"cp{sys.version_info[0]}{sys.version_info[1]}"
    wheel, *_ = sorted((ROOT / "dist").glob(f"queend-*-{tag}-*.whl")) or sys.exit(f"no wheel for {tag} in dist/")
    with tempfile.TemporaryDirectory() as folder:
        python = Path(folder) / "bin/python"
        subprocess.run([sys.executable, "-m", "venv", folder], check=True)
        install = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--only-binary", ":all:"]
        subprocess.run([*install, "--require-hashes", "-r", ROOT / "locked/run.txt"], check=True)
        subprocess.run([*install, "--no-deps", wheel], check=True)
        subprocess.run([python, "-m", "pip", "uninstall", "--quiet", "--yes", "pip", "setuptools"], check=True)
        made = subprocess.run([sys.argv[1], "environment", "--output-reproducible", "--pyproject",
                               ROOT / "pyproject.toml", python], check=True, stdout=subprocess.PIPE).stdout
    told = json.loads(made)
    for one in told["components"]:      # where it lay when this was made
        one.pop("externalReferences", None)
    zlib = subprocess.run(["pkg-config", "--modversion", "zlib"], check=True, stdout=subprocess.PIPE, text=True).stdout
    told["components"] += [*vendored(wheel), {"type": "library", "bom-ref": "linked:zlib", "name": "zlib",
                                              "version": zlib.strip()}]      # linked into the core (setup.py)
    version = wheel.name.split("-")[1]
    told["metadata"]["component"]["version"] = version
    out = ROOT / "dist" / f"queend-{version}-{platform.machine()}.cdx.json"
    out.write_text(json.dumps(told, indent=1) + "\n")
    print(f"{out.name}  {len(told['components'])} components")


if __name__ == "__main__":
    main()
