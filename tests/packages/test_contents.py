"""What is in the wheels and the sdist, and what is not."""
from __future__ import annotations

import os
import re
import subprocess
import tarfile
import zipfile
from email import message_from_bytes
from pathlib import Path

import pytest

import queend

from .conftest import DIST, ROOT


def tracked(*folders: str) -> set[str]:
    return set(filter(None, subprocess.run(["git", "ls-files", "-z", *folders], cwd=ROOT, check=True, text=True,
                                           capture_output=True).stdout.split("\0")))


@pytest.fixture(scope="module")
def inside(wheels: list[Path]) -> dict[str, set[str]]:
    return {path.name: set(zipfile.ZipFile(path).namelist()) for path in wheels}


def test_a_wheel_has_all_that_serves(inside):
    # The package that Spark looks for stands beside queend (setup.py, FOUND).
    wanted = {name.removeprefix("queend/spark/found/") for name in tracked("queend") if name.endswith(".py")}
    wanted |= {f"queend/{name}" for name in tracked("sql") if name.endswith(".sql")}
    wanted |= tracked("queend/dashboard")
    units = {Path(name).name for name in tracked("systemd")}
    for name, files in inside.items():
        assert not wanted - files, name
        shared = {one for one in files if "/share/queend/systemd/" in one and not one.endswith("/")}
        assert {Path(one).name for one in shared} == units
        for module in ("queend/_core", "queend/spark/_digests"):
            assert [one for one in files if re.fullmatch(module + r"\.cpython-.*\.so", one)]


def test_a_wheel_has_neither_sources_of_the_core_nor_tests(inside):
    for name, files in inside.items():
        assert not [one for one in files if one.endswith((".pyx", ".pxd", ".pxi", ".c", ".h", ".ts", ".svelte"))
                    or one.startswith(("tests/", "queend/tests", "bench/", "dashboard/"))], name


def test_a_wheel_brings_the_libraries_and_says_where_it_runs(wheels, inside):
    for path in wheels:
        version, tag = re.fullmatch(r"queend-([^-]+)-cp(3\d+)-cp\2-(?:manylinux_\d+_\d+_\w+\.?)+\.whl",
                                    path.name).groups()
        assert version == queend.__version__
        libraries = {Path(one).name.split("-")[0] for one in inside[path.name] if one.startswith("queend.libs/")}
        assert {"libuv", "libpq", "libzstd", "libcrypto"} <= libraries, tag


def test_the_core_of_a_wheel_needs_nothing_of_the_system_but_the_c_library(wheels, tmp_path):
    for path in wheels:
        zipfile.ZipFile(path).extractall(tmp_path / path.stem)
        core, = (tmp_path / path.stem / "queend").glob("_core*.so")
        digests, = (tmp_path / path.stem / "queend/spark").glob("_digests*.so")
        needed = subprocess.run(["ldd", core, digests], capture_output=True, text=True, check=True).stdout
        assert "not found" not in needed
        outside = {line.split()[0] for line in needed.splitlines() if str(tmp_path) not in line}
        system = re.compile(r"(linux-vdso|lib(c|m|dl|pthread|rt|resolv|gcc_s)\.|/lib)")
        assert all(system.match(one) for one in outside), outside


def test_a_wheel_has_no_probes_of_the_tests(wheels, tmp_path):
    for path in wheels:
        with zipfile.ZipFile(path) as archive:
            core, = (one for one in archive.namelist() if one.startswith("queend/_core"))
            assert b"hold_probe" not in archive.read(core) and b"limit_of_settings" not in archive.read(core)


def test_what_a_wheel_asks_for_comes_compiled(wheels):
    with zipfile.ZipFile(wheels[0]) as archive:
        name, = (one for one in archive.namelist() if one.endswith(".dist-info/METADATA"))
        asked = message_from_bytes(archive.read(name)).get_all("Requires-Dist")
    assert [one for one in asked if one.startswith("psycopg[binary]")]
    assert not [one for one in asked if one.startswith("psycopg[c]") and "extra ==" not in one]


def test_the_wheel_of_the_client_is_pure_and_has_the_same_version():
    made, = DIST.glob("queend_client-*.whl")
    assert made.name == f"queend_client-{queend.__version__}-py3-none-any.whl"
    files = {one for one in zipfile.ZipFile(made).namelist() if ".dist-info/" not in one}
    assert files >= {one for one in tracked("queend/client") if one.endswith(".py")}
    assert all(one.startswith("queend/client/") for one in files)


def test_the_sdist_has_what_a_build_and_an_installation_need():
    archive, = DIST.glob("queend-*.tar.gz")
    with tarfile.open(archive) as opened:
        files = {one.name.partition("/")[2] for one in opened.getmembers() if one.isfile()}
        assert not [one for one in opened.getmembers() if one.mode & 0o002]
    wanted = tracked("queend", "sql", "systemd", "LICENSE", "README.md", "pyproject.toml", "setup.py")
    assert not {one for one in wanted - files if not one.endswith(".md")}
    assert "queend/dashboard/index.html" in files
    assert not [one for one in files if one.endswith((".so", ".pyc", "_core.c")) or one.startswith(("tests/", ".git"))]


def test_nothing_that_is_published_names_this_machine(wheels):
    texts = (".py", ".txt", ".toml", "METADATA", "RECORD", ".service")
    for path in wheels:
        with zipfile.ZipFile(path) as archive:
            for name in archive.namelist():
                data = archive.read(name)
                assert str(ROOT).encode() not in data, (path.name, name)
                if name.endswith(texts):
                    assert os.fsencode(Path.home()) + b"/" not in data or Path.home() == Path("/"), (path.name, name)
