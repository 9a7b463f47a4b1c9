"""A backup of everything a daemon keeps: a dump of its database by PostgreSQL's own program, and its failover buffer.

The buffer is copied first. What is drained while the dump is made is in both then, and stored once when it is drained
again: the ids of messages in the buffer are always looked up.
"""
from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from .. import __version__
from . import adopt, binaries
from .buffer import Identity, folders
from .disk import sync

CHUNK = 1 << 20
FORMAT = 1
SCHEMAS = ("queend", "queen")
Heard = Callable[[float], None]      # so many more bytes


class BackupError(RuntimeError):
    """There is no backup, or it cannot be restored; the message says why."""


def make(target: Path, conninfo: str, buffers: Path, everything: bool, heard: Heard) -> dict[str, Any]:
    """Writes a backup into a folder that is not there yet, the whole or nothing; returns what it says of itself."""
    if target.exists():
        raise BackupError(f"{target} is there already")
    target.absolute().parent.mkdir(parents=True, exist_ok=True)
    work = Path(tempfile.mkdtemp(prefix=f".{target.name}-", dir=target.absolute().parent))      # mode 0700
    try:
        folders = _copy_buffers(buffers, work / "buffer")
        with psycopg.connect(conninfo, autocommit=True) as connection:
            if connection.execute("SELECT to_regnamespace('queend')").fetchone() == (None,):
                raise BackupError("there are no tables of queend in this database")
            major = connection.info.server_version // 10000
        only = [] if everything else [word for name in SCHEMAS for word in ("-n", name)]
        mark = _dump([program("pg_dump", major), "-Fc", *only], conninfo, work / "database.dump", heard)
        made = {"format": FORMAT, "made": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), "queend": __version__,
                "postgres": major, "sha256": mark, "bytes": (work / "database.dump").stat().st_size, "buffers": folders}
        (work / "backup.json").write_text(json.dumps(made, indent=1) + "\n")
        for path in (work / "backup.json", work):
            sync(path)
        work.rename(target)
        sync(target.absolute().parent)
        return made
    except BaseException:
        shutil.rmtree(work, ignore_errors=True)
        raise


def told(source: Path) -> dict[str, Any]:
    """What a backup says of itself. Raises BackupError where it is none, or of another version."""
    try:
        made = json.loads((source / "backup.json").read_text())
    except (OSError, ValueError) as error:
        why = f"{error.filename}: {error.strerror}" if isinstance(error, OSError) and error.strerror else error
        raise BackupError(f"{source} is no backup: {why}") from None
    if not isinstance(made, dict) or made.get("format") != FORMAT:
        raise BackupError(f"{source} is a backup in a form that this version does not know")
    return made


def whole(source: Path, made: dict[str, Any], heard: Heard) -> None:
    """Raises BackupError unless the dump is as it was written."""
    mark = hashlib.sha256()
    for chunk in _chunks(source / "database.dump"):
        mark.update(chunk)
        heard(len(chunk))
    if mark.hexdigest() != made["sha256"]:
        raise BackupError(f"{source / 'database.dump'} is damaged: its checksum is another")


def holds(conninfo: str) -> bool:
    """Are there tables of queend already?"""
    with psycopg.connect(conninfo, autocommit=True) as connection:
        return connection.execute("SELECT to_regnamespace('queend') IS NOT NULL").fetchone() == (True,)


def empty(conninfo: str) -> None:
    """Drops all that queend has in this database."""
    with psycopg.connect(conninfo) as connection:
        for name in SCHEMAS:
            connection.execute(f"DROP SCHEMA IF EXISTS {name} CASCADE")


def restore(source: Path, conninfo: str, heard: Heard) -> None:
    """The dump into a database without tables of queend: all of it or nothing."""
    with psycopg.connect(conninfo) as connection:
        major = connection.info.server_version // 10000
    address, environment = _words(conninfo)
    command = [program("pg_restore", major), "--exit-on-error", "--single-transaction", "--no-owner", "-d", address]
    with tempfile.TemporaryFile() as errors:
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=errors, stderr=errors, env=environment) as process:
            assert process.stdin
            try:
                for chunk in _chunks(source / "database.dump"):
                    process.stdin.write(chunk)
                    heard(len(chunk))
                process.stdin.close()
            except BrokenPipeError:
                pass      # it ended, and says why
            except BaseException:
                process.kill()
                raise
        _checked(process, "pg_restore", errors)


def restore_buffers(source: Path, root: Path, identity: Identity) -> int:
    """The folders of the failover buffer, beside those that are there; which the next daemon drains. How many."""
    placed = []
    for folder in sorted((source / "buffer").glob("*")):
        root.mkdir(mode=0o700, parents=True, exist_ok=True)
        number = next(number for number in range(1 << 20) if not (root / str(number)).exists())
        shutil.copytree(folder, root / str(number))
        (root / str(number)).chmod(0o700)
        placed.append(root / str(number))
    for found in adopt.find(root, identity):
        if found.path in placed:
            adopt.adopt(found, identity)
    return len(placed)


def program(name: str, major: int) -> str:
    """pg_dump or pg_restore of this major version or a later one: an older one refuses the server."""
    tried = []
    for folder in [*binaries._embedded(), *binaries._system()]:
        if not (folder / name).exists():
            continue
        version = subprocess.run([folder / name, "--version"], capture_output=True, text=True).stdout
        found = re.search(r"\) (\d+)", version)
        if found and int(found[1]) >= major:
            return str(folder / name)
        tried.append(f"{folder / name} ({found[1] if found else 'cannot be run'})")
    raise BackupError(f"no {name} of PostgreSQL {major} or later; found: {', '.join(tried) or 'none'}")


def _dump(command: list[str], conninfo: str, target: Path, heard: Heard) -> str:
    """Runs it into a file; the checksum of that."""
    address, environment = _words(conninfo)
    mark = hashlib.sha256()
    opened = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with tempfile.TemporaryFile() as errors, open(opened, "wb") as file:
        with subprocess.Popen([*command, "-d", address], stdout=subprocess.PIPE, stderr=errors, env=environment,
                              stdin=subprocess.DEVNULL) as process:
            assert process.stdout
            try:
                while chunk := process.stdout.read(CHUNK):
                    file.write(chunk)
                    mark.update(chunk)
                    heard(len(chunk))
            except BaseException:
                process.kill()
                raise
        _checked(process, "pg_dump", errors)
        file.flush()
        os.fsync(file.fileno())
    return mark.hexdigest()


def _checked(process: subprocess.Popen, name: str, errors: Any) -> None:
    if process.returncode:
        errors.seek(0)
        text = errors.read(4000).decode(errors="replace").strip()
        raise BackupError(f"{name} ended with {process.returncode}: {text}")


def _words(conninfo: str) -> tuple[str, dict[str, str]]:
    """The connection string without its password, which others could read in the list of processes, and the
    environment with it."""
    words = {name: value for name, value in conninfo_to_dict(conninfo).items()
             if name not in ("options", "application_name")}
    password = words.pop("password", None)
    kept = {name: os.environ[name] for name in ("PATH", "HOME", "LD_LIBRARY_PATH") if name in os.environ}
    return make_conninfo(**words), {**kept, **({"PGPASSWORD": str(password)} if password else {})}


def _copy_buffers(root: Path, target: Path) -> int:
    """Copies the folders that hold messages, while daemons may write and drain them."""
    count = 0
    for folder in folders(root) if root.is_dir() else []:
        if not any(folder.glob("*.seg")) and not (folder / "quarantine").exists():
            continue
        into = target / str(count)
        into.mkdir(mode=0o700, parents=True)
        for file in sorted(folder.iterdir()):
            if file.name == "lock" or file.suffix == ".new" or not file.is_file():
                continue
            try:
                shutil.copy2(file, into / file.name)
            except FileNotFoundError:
                continue      # drained meanwhile: it is in the dump
            sync(into / file.name)
        count += 1
    return count


def _chunks(path: Path) -> Iterator[bytes]:
    with open(path, "rb") as file:
        while chunk := file.read(CHUNK):
            yield chunk
