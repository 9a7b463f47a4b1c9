"""A backup of everything a daemon keeps: a dump of its database by PostgreSQL's own program, and its failover buffer.

The buffer is copied first. So messages drained while the dump is made are in both. They are stored once when they are
drained again, because ids of buffered messages are always looked up. services/restore is the way back.
"""
from __future__ import annotations

import hashlib
import json
import os
import shutil
import stat
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from .. import __version__
from ..disk import reason, sync
from ..postgres import binaries
from ..postgres.migrate import FOREIGN
from . import crossing
from .buffer import folders

CHUNK = 1 << 20
FORMAT = 1
TABLES = "queend"
SURFACE = ("queen", "queen_streams")      # created again by every release (sql/queen)
FACTS = {"made": str, "postgres": int, "sha256": str, "bytes": int, "buffers": int}
LIVE = ("lock", "wanted", "adopter")      # of a buffer: what running daemons tell each other
FILE = {"file": str, "bytes": int, "sha256": str}      # of the failover buffer
Heard = Callable[[float], None]      # called with the number of further bytes


class BackupError(RuntimeError):
    """The backup was not made, or it cannot be restored; the message says why."""


def make(target: Path, conninfo: str, buffers: Path, everything: bool, heard: Heard) -> dict[str, Any]:
    """Writes a backup into a new folder, all of it or nothing, and returns the contents of its backup.json.

    Raises BackupError if `queend restore` could not bring the backup back: no client programs match the server, or
    tables need objects of other schemas. everything: dumps the other schemas of the database, too.
    """
    work = _new_folder(target)
    try:
        copied, files = _copy_buffers(buffers, work / "buffer")
        with psycopg.connect(conninfo, autocommit=True) as connection:
            if connection.execute("SELECT to_regclass('queend.catalog')").fetchone() == (None,):
                raise BackupError("the database has no queend tables")
            server = connection.info.server_version // 10000
            schemas = schemas_of(connection)
            if not everything and (outside := crossing.needed(connection, schemas)):
                raise BackupError("objects in queend's schemas depend on objects outside, which the backup would not "
                                  f"contain: {crossing.listed(outside)}; use --all to include them")
        programs = clients(server)
        only = [] if everything else [word for name in schemas for word in ("-n", name)]
        # A server built without lz4 refuses columns that name it. A restore chooses the method by the server.
        mark = _dump([str(programs.folder / "pg_dump"), "-Fc", "--no-toast-compression", *only], conninfo,
                     work / "database.dump", heard)
        made = {"format": FORMAT, "made": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), "queend": __version__,
                "postgres": server, "program": programs.major, "sha256": mark,
                "bytes": (work / "database.dump").stat().st_size, "buffers": copied, "buffer": files}
        (work / "backup.json").write_text(json.dumps(made, indent=1) + "\n")
        for path in (work / "backup.json", work):
            sync(path)
        work.rename(target)
        sync(target.absolute().parent)
        return made
    except OSError as error:
        shutil.rmtree(work, ignore_errors=True)
        raise BackupError(f"cannot write a backup to {target}: {reason(error)}") from None
    except BaseException:
        shutil.rmtree(work, ignore_errors=True)
        raise


def _new_folder(target: Path) -> Path:
    """Creates a hidden folder beside `target` and returns it. Raises BackupError if `target` exists or cannot be
    created."""
    if os.path.lexists(target):
        raise BackupError(f"{target} already exists")
    parent = target.absolute().parent
    for above in (parent, *parent.parents):
        if os.path.lexists(above):
            if not above.is_dir():
                raise BackupError(f"cannot create {target}: {above} is not a directory")
            break
    try:
        parent.mkdir(parents=True, exist_ok=True)
        return Path(tempfile.mkdtemp(prefix=f".{target.name}-", dir=parent))      # mode 0700
    except OSError as error:
        raise BackupError(f"cannot create {target}: {reason(error)}") from None


def schemas_of(connection: psycopg.Connection) -> list[str]:
    """Returns the schemas that belong to queend in this database. If another program has tables in `queen` or
    `queen_streams`, those two are not queend's."""
    foreign = connection.execute(FOREIGN).fetchone() != (None,)
    return [name for (name,) in connection.execute(
        "SELECT nspname FROM pg_namespace WHERE nspname = ANY(%s) ORDER BY nspname DESC",
        ([TABLES] if foreign else [TABLES, *SURFACE],))]


def clients(server: int, written_by: int = 0) -> binaries.Binaries:
    """Returns the client programs for this server. Raises BackupError if none match."""
    try:
        return binaries.clients(server, written_by)
    except binaries.BinariesError as error:
        raise BackupError(str(error)) from None


def told(source: Path) -> dict[str, Any]:
    """Returns the contents of a backup's backup.json. Raises BackupError if the folder is not a backup, or of another
    version."""
    try:
        with opened(source / "backup.json") as file:
            made = json.load(file)
    except RecursionError:
        raise BackupError(f"{source} is not a backup: {source / 'backup.json'} is nested too deeply") from None
    except (OSError, ValueError) as error:
        why = f"{error.filename}: {error.strerror}" if isinstance(error, OSError) and error.strerror else error
        raise BackupError(f"{source} is not a backup: {why}") from None
    if not isinstance(made, dict) or made.get("format") != FORMAT:
        raise BackupError(f"{source} has a backup format that this version does not support")
    for name, kind in FACTS.items():
        if not _is(made.get(name), kind):
            raise _damaged(source, name)
    if made.get("program") is not None and not _is(made["program"], int):      # the first backups lack it
        raise _damaged(source, "program")
    listed = made.get("buffer", [])
    if not isinstance(listed, list) or not all(
            isinstance(one, dict) and all(_is(one.get(name), kind) for name, kind in FILE.items()) for one in listed):
        raise _damaged(source, "buffer")
    return made


def _is(value: object, kind: type) -> bool:
    """Returns True for a value of exactly this type; numbers of a backup are not negative."""
    return type(value) is kind and (not isinstance(value, int) or value >= 0)


def _damaged(source: Path, name: str) -> BackupError:
    return BackupError(f"{source / 'backup.json'} is damaged: {name} is missing or has the wrong type")


def whole(source: Path, made: dict[str, Any], heard: Heard) -> None:
    """Raises BackupError unless the dump is as it was written."""
    if digest(source / "database.dump", heard)[1] != made["sha256"]:
        raise BackupError(f"{source / 'database.dump'} is damaged: the checksum differs")


def opened(path: Path, links: int | None = None) -> Any:
    """Opens a regular file of a backup for reading. Refuses symbolic links and devices, and files with more than
    `links` names if that is given."""
    try:
        number = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        if path.is_symlink():
            raise BackupError(f"{path} is a link; a backup may contain regular files only") from None
        raise
    status = os.fstat(number)
    if stat.S_ISREG(status.st_mode) and (links is None or status.st_nlink <= links):
        return os.fdopen(number, "rb")
    os.close(number)
    what = "has other names (hard links)" if stat.S_ISREG(status.st_mode) else \
        "is a directory" if stat.S_ISDIR(status.st_mode) else "is not a regular file"
    raise BackupError(f"{path} {what}; a backup may contain regular files only")


def _dump(command: list[str], conninfo: str, target: Path, heard: Heard) -> str:
    """Runs pg_dump into a new file and returns the checksum of the file."""
    address, environment = words(conninfo)
    mark = hashlib.sha256()
    number = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with tempfile.TemporaryFile() as errors, open(number, "wb") as file:
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
        raise BackupError(f"{name} exited with {process.returncode}: {written(errors)}")


def written(errors: Any) -> str:
    """Returns the output of a program in this file, at most 4000 bytes."""
    errors.seek(0)
    return errors.read(4000).decode(errors="replace").strip()


def words(conninfo: str) -> tuple[str, dict[str, str]]:
    """Returns the connection string for a client program, without the password, which the list of processes would
    show, and the environment with it."""
    found = {name: value for name, value in conninfo_to_dict(conninfo).items()
             if name not in ("options", "application_name")}
    password = found.pop("password", None)
    kept = {name: value for name, value in os.environ.items()
            if name in ("PATH", "HOME", "LD_LIBRARY_PATH") or (name.startswith("PG") and name != "PGOPTIONS")}
    kept["PGAPPNAME"] = "queend backup"
    return make_conninfo(**found), {**kept, **({"PGPASSWORD": str(password)} if password else {})}


def _copy_buffers(root: Path, target: Path) -> tuple[int, list[dict[str, Any]]]:
    """Copies the folders that hold messages, while daemons may write, drain and adopt them. Returns how many there are,
    and name, size and checksum of each file. An adopter moves segments to a folder that may have been read before, so
    all folders are read again until no segment is new."""
    files: list[dict[str, Any]] = []
    copies: dict[Path, Path] = {}      # by folder
    done: set[Path] = set()
    passes, more = 0, root.is_dir()
    while more or passes == 1:
        passes, more = passes + 1, False
        for folder in folders(root):
            if not any(folder.glob("*.seg")) and not (folder / "quarantine").exists():
                continue
            if folder not in copies:
                copies[folder] = target / str(len(copies))
                copies[folder].mkdir(mode=0o700, parents=True)
            for file in sorted(folder.iterdir()):
                if file in done or file.name in LIVE or file.suffix == ".new":
                    continue
                more = more or file.suffix == ".seg"
                try:
                    size, mark = copy(file, copies[folder] / file.name)
                except FileNotFoundError:
                    continue      # moved, or drained meanwhile: then its messages are in the dump
                done.add(file)
                files.append({"file": f"{copies[folder].name}/{file.name}", "bytes": size, "sha256": mark})
    return len(copies), files


def copy(source: Path, target: Path, links: int | None = None) -> tuple[int, str]:
    """Copies a regular file, waits until the disk has the copy, and returns its size and checksum. Raises BackupError
    as `opened` does."""
    size, mark = 0, hashlib.sha256()
    with opened(source, links) as file:
        number = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with os.fdopen(number, "wb") as new:
            while chunk := file.read(CHUNK):
                new.write(chunk)
                mark.update(chunk)
                size += len(chunk)
            new.flush()
            os.fsync(new.fileno())
    return size, mark.hexdigest()


def digest(path: Path, heard: Heard) -> tuple[int, str]:
    """Returns size and checksum of a regular file. Raises BackupError as `chunks` does."""
    size, mark = 0, hashlib.sha256()
    for chunk in chunks(path):
        mark.update(chunk)
        size += len(chunk)
        heard(len(chunk))
    return size, mark.hexdigest()


def chunks(path: Path) -> Iterator[bytes]:
    """Yields the bytes of a regular file. Raises BackupError if it cannot be read."""
    with readable(path), opened(path) as file:
        while chunk := file.read(CHUNK):
            yield chunk


@contextmanager
def readable(path: Path) -> Iterator[None]:
    """Raises BackupError with the path if the system refuses to read it."""
    try:
        yield
    except OSError as error:
        raise BackupError(f"cannot read {path}: {error.strerror or error}") from None
