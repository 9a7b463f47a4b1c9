"""The image that tools/image.py made, unpacked as its layout says and started as its configuration says."""
from __future__ import annotations

import gzip
import hashlib
import json
import shlex
import subprocess
import time
from pathlib import Path

import pytest

from .conftest import DIST, told
from .machine import Machine

SERVE = """
cd {folder}
export {environment}
setpriv --reuid={user} --regid={group} --clear-groups --no-new-privs {command} 2> /tmp/log &
daemon=$!
trap 'tail -n 20 /tmp/log >&2' EXIT
for i in $(seq 600); do queend status > /dev/null 2>&1 && break; kill -0 $daemon; sleep 0.1; done
queend push orders '{{"n":1}}'
queend pop orders --ack -o json
kill -s {signal} $daemon
wait $daemon
trap - EXIT
"""


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict, Path]:
    """Returns the configuration, and the files of the layer in a folder."""
    found = sorted(DIST.glob("queend-*.oci.tar"))
    assert found, "there is no image in dist/: make image"
    folder = tmp_path_factory.mktemp("image")
    (folder / "layout").mkdir()
    subprocess.run(["tar", "-xf", found[-1], "--no-same-owner", "-C", folder / "layout"], check=True)

    def blob(said: dict) -> bytes:
        data = (folder / "layout/blobs" / said["digest"].replace(":", "/")).read_bytes()
        assert f"sha256:{hashlib.sha256(data).hexdigest()}" == said["digest"] and len(data) == said["size"]
        return data

    assert json.loads((folder / "layout/oci-layout").read_text()) == {"imageLayoutVersion": "1.0.0"}
    index = json.loads((folder / "layout/index.json").read_text())
    manifest = json.loads(blob(index["manifests"][0]))
    config = json.loads(blob(manifest["config"]))
    layer, = manifest["layers"]
    tar = gzip.decompress(blob(layer))
    assert config["rootfs"]["diff_ids"] == [f"sha256:{hashlib.sha256(tar).hexdigest()}"]
    (folder / "root").mkdir()
    subprocess.run(["tar", "-x", "--numeric-owner", "--same-owner", "-p", "-C", folder / "root"], input=tar, check=True)
    return config["config"], folder / "root"


def test_the_image_serves_as_its_account(image):
    config, root = image
    user, _, group = config["User"].partition(":")
    assert int(user) > 0 and config["ExposedPorts"] == {"6632/tcp": {}}
    script = SERVE.format(folder=config["WorkingDir"], user=user, group=group,
                          signal=config["StopSignal"].removeprefix("SIG"),
                          environment=" ".join(map(shlex.quote, config["Env"])),
                          command=shlex.join(config["Entrypoint"] + config["Cmd"]))
    began = time.monotonic()
    out = Machine(root).shell(script)
    told("the image served, first message, stopped", began)
    assert '"n":1' in out.replace(" ", ""), out


def test_the_image_has_neither_pip_nor_compiler_nor_lists_of_packages(image):
    _, root = image
    names = {path.name for folder in ("usr/bin", "opt/queend/bin") for path in (root / folder).iterdir()}
    assert "queend" in names and not {"pip", "pip3", "gcc", "cc", "make"} & names
    assert not list((root / "var/lib/apt/lists").iterdir()) and not (root / "wheels").exists()
    assert (root / "etc/machine-id").read_text() == ""
