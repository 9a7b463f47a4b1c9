"""The embedded cluster: created, kept, stopped, taken over, refused; on real PostgreSQL."""
import contextlib
import ctypes
import os
import signal
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from support.wait import until

from queend.postgres import stale_processes
from queend.postgres.embedded import Embedded, EmbeddedError

PR_CAPBSET_DROP, CAP_SYS_PTRACE = 24, 19


def rows(conninfo: str, query: str):
    with psycopg.connect(conninfo, autocommit=True) as connection:
        return connection.execute(query).fetchall()


def without_ptrace() -> None:
    ctypes.CDLL(None).prctl(PR_CAPBSET_DROP, CAP_SYS_PTRACE, 0, 0, 0)


def test_data_survives_a_restart_and_nothing_listens_on_tcp(tmp_path):
    cluster = Embedded(tmp_path / "data")
    conninfo = cluster.start()
    try:
        with psycopg.connect(conninfo, autocommit=True) as connection:
            connection.execute("CREATE TABLE kept AS SELECT 7 AS n")
            assert connection.execute("SHOW listen_addresses").fetchone() == ("",)
            assert connection.execute("SHOW synchronous_commit").fetchone() == ("on",)
        for path, mode in ((cluster.folder, 0o700), (cluster.data, 0o700), (cluster.log, 0o600),
                           (cluster.folder / "lock", 0o600)):
            assert stat.S_IMODE(path.stat().st_mode) == mode, path
        assert os.stat(f"/proc/{cluster.pid}").st_uid != 0
    finally:
        cluster.stop()
    again = Embedded(tmp_path / "data")
    try:
        assert rows(again.start(), "SELECT n FROM kept") == [(7,)]
    finally:
        again.stop()
    assert not (cluster.data / "postmaster.pid").exists()


def test_what_was_open_is_closed_but_not_a_folder_of_others(tmp_path):
    ours, others = tmp_path / "ours", tmp_path / "others"
    for folder in (ours, others):
        folder.mkdir()
        folder.chmod(0o755)
        (folder / "postgres.log").touch(0o644)
    (others / "something").touch()
    for folder, mode in ((ours, 0o700), (others, 0o755)):
        cluster = Embedded(folder)
        try:
            cluster.start()
        finally:
            cluster.stop()
        assert stat.S_IMODE(folder.stat().st_mode) == mode and stat.S_IMODE(cluster.log.stat().st_mode) == 0o600


# The embedded programs, and every version this system has besides.
MAJORS = [None, *sorted(int(path.name) for path in Path("/usr/lib/postgresql").glob("[0-9]*")
                        if (path / "bin" / "initdb").exists())]


@pytest.mark.parametrize("major", MAJORS)
def test_works_below_a_closed_folder_with_a_long_and_odd_path(tmp_path, major):
    closed = tmp_path / "closed, 'quoted' \\ folder"
    closed.mkdir(mode=0o700)
    cluster = Embedded(closed / ("x" * 120), major=major)
    try:
        assert rows(cluster.start(), "SHOW server_version_num")[0][0].startswith(str(major or ""))
        assert stat.S_IMODE(closed.stat().st_mode) == 0o700
    finally:
        cluster.stop()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root runs the server as another account")
def test_root_that_may_not_look_into_processes_of_others(tmp_path):
    """As in a container: Docker gives no CAP_SYS_PTRACE. The server is found in its folder, and stops in order."""
    source = f"""
import ctypes, signal
from pathlib import Path
from queend.postgres import stale_processes
from queend.postgres.embedded import Embedded, dying_with
dying_with({os.getpid()}, signal.SIGKILL)()
cluster = Embedded(Path({str(tmp_path)!r}))
cluster.start()
print(cluster.pid in [one.pid for one in stale_processes.inside(cluster.data)], flush=True)
cluster.stop()
signals = ctypes.c_int()
ctypes.CDLL(None).prctl(2, ctypes.byref(signals), 0, 0, 0)
print(stale_processes.inside(cluster.data), open("/proc/self/status").read().count("id:\\t0\\t0\\t0\\t0"),
      signals.value, ctypes.CDLL(None).prctl(3, 0, 0, 0, 0))
"""
    done = subprocess.run([sys.executable, "-c", source], capture_output=True, text=True, timeout=120,
                          preexec_fn=without_ptrace, env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)})
    assert done.stdout == "True\n[] 2 9 1\n", done
    assert "database system is shut down" in (tmp_path / "postgres.log").read_text()
    assert not (tmp_path / "pg/postmaster.pid").exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root runs the server as another account")
def test_a_server_that_is_not_found_in_its_folder_stops_in_order(tmp_path, monkeypatch):
    """/proc may hide processes of other accounts altogether (hidepid)."""
    cluster = Embedded(tmp_path)
    cluster.start()
    monkeypatch.setattr(stale_processes, "inside", lambda data: [])
    cluster.stop()
    assert "database system is shut down" in (tmp_path / "postgres.log").read_text()


def test_second_daemon_on_the_same_folder_is_refused(tmp_path):
    cluster = Embedded(tmp_path)
    cluster.start()
    try:
        with pytest.raises(EmbeddedError, match=f"in use by another queend .pid {os.getpid()}"):
            Embedded(tmp_path).start()
    finally:
        cluster.stop()


def test_a_folder_not_made_by_queend_is_left_alone(tmp_path):
    (tmp_path / "pg").mkdir()
    (tmp_path / "pg" / "PG_VERSION").write_text("15\n")
    if os.geteuid() == 0:
        os.chown(tmp_path / "pg", 65534, 65534)
    with pytest.raises(EmbeddedError, match="not created by queend"):
        Embedded(tmp_path).start()
    assert (tmp_path / "pg" / "PG_VERSION").read_text() == "15\n"


def test_a_folder_that_cannot_be_is_told_by_its_setting(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(EmbeddedError, match="^QUEEND_DATA_DIR: cannot use .*/file as .*: it is not a directory$"):
        Embedded(tmp_path / "file").start()


def test_an_interrupted_initdb_starts_over(tmp_path):
    first = Embedded(tmp_path)
    first.start()
    first.stop()
    (tmp_path / "created").rename(tmp_path / "creating")
    (tmp_path / "pg" / "PG_VERSION").unlink()
    again = Embedded(tmp_path)
    try:
        assert rows(again.start(), "SELECT 1") == [(1,)]
    finally:
        again.stop()


OWNER = """
import sys, psycopg
from pathlib import Path
from queend.postgres.embedded import Embedded
cluster = Embedded(Path(sys.argv[1]))
with psycopg.connect(cluster.start(), autocommit=True) as connection:
    connection.execute("CREATE TABLE kept AS SELECT 9 AS n")
print(cluster.pid, flush=True)
sys.stdin.read()
"""


@pytest.mark.parametrize("postmaster", ["lives", "is killed too"])
def test_a_killed_daemon_loses_nothing(tmp_path, postmaster):
    owner = subprocess.Popen([sys.executable, "-c", OWNER, tmp_path], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    server = int(owner.stdout.readline())
    if postmaster == "is killed too":
        os.kill(server, signal.SIGKILL)
    owner.kill()
    owner.wait()
    cluster = Embedded(tmp_path)
    try:
        assert rows(cluster.start(), "SELECT n FROM kept") == [(9,)]
        assert cluster.pid != server
    finally:
        cluster.stop()


def test_a_stale_pid_file_that_names_a_stranger_is_no_obstacle(tmp_path):
    cluster = Embedded(tmp_path)
    cluster.start()
    cluster.stop()
    stranger = subprocess.Popen(["sleep", "1000"], **cluster.account.become())
    try:
        stale = cluster.data / "postmaster.pid"
        stale.write_text(f"{stranger.pid}\n/proc/self/cwd\n1\n5432\n.\n\n 1 1\nready\n")
        if os.geteuid() == 0:
            os.chown(stale, cluster.account.uid, cluster.account.gid)
        again = Embedded(tmp_path)
        try:
            assert rows(again.start(), "SELECT 1") == [(1,)]
        finally:
            again.stop()
        assert stranger.poll() is None
    finally:
        stranger.kill()
        stranger.wait()


def test_a_server_that_died_is_noticed_and_started_again(tmp_path):
    cluster = Embedded(tmp_path)
    conninfo = cluster.start()
    try:
        os.kill(cluster.pid, signal.SIGKILL)
        cluster._server.wait()
        assert cluster.exited()
        cluster.restart()
        assert rows(conninfo, "SELECT 1") == [(1,)]
    finally:
        cluster.stop()


def test_a_server_that_cannot_start_tells_why(tmp_path):
    with pytest.raises(EmbeddedError, match="unrecognized configuration parameter"):
        Embedded(tmp_path, settings={"no_such_setting": "1"}).start()


def test_what_a_server_said_last_has_no_control_characters(tmp_path):
    with pytest.raises(EmbeddedError) as told:
        Embedded(tmp_path, settings={"no_such\x1b[31m\x9b\x7f": "1"}).start()
    assert "no_such?[31m" in str(told.value) and str(told.value).isprintable()


def test_a_server_that_was_killed_while_it_recovered_tells_so_and_not_what_clients_were_told(made):
    (made.data / "standby.signal").touch()
    made.settings = {"hot_standby": "off"}
    made.begin()
    assert made.await_ready(recovery=0.0) is False
    os.kill(made.pid, signal.SIGKILL)
    with pytest.raises(EmbeddedError, match=f"did not start in {made.data}: it was killed by signal 9; "):
        made.await_ready()


def process(cluster: Embedded, title: str) -> int | None:
    """One of the cluster's processes, by what it calls itself."""
    return next((one.pid for one in stale_processes.inside(cluster.data) if title in one.title), None)


def stopped_recovery(cluster: Embedded) -> int:
    """The process that recovers after a crash, stopped. A recovery may be over before it is seen: another comes."""
    def look() -> int | None:
        with contextlib.suppress(ProcessLookupError):
            if startup := process(cluster, " startup"):
                os.kill(startup, signal.SIGSTOP)
                return startup
            if writer := process(cluster, " walwriter"):
                os.kill(writer, signal.SIGKILL)
        return None
    return until(look, "it recovers")


@pytest.fixture
def made(tmp_path) -> Iterator[Embedded]:
    """A cluster that was started and stopped once."""
    cluster = Embedded(tmp_path)
    cluster.start()
    cluster.stop()
    yield cluster
    stale_processes.kill(cluster.data)
    cluster.stop()


@pytest.mark.parametrize("ended", ["by its daemon", "by the next start"])
def test_a_server_asked_to_end_while_it_recovers_is_no_obstacle(made, ended):
    """Version 18 then waits for ever, with its I/O workers."""
    made.start()
    keeper = made.pid
    startup = stopped_recovery(made)
    os.kill(keeper, signal.SIGINT)
    until(lambda: "received fast shutdown" in made.log.read_text(), "it was asked to end")
    os.kill(startup, signal.SIGCONT)
    until(lambda: process(made, " startup") is None, "the recovery was given up")
    if ended == "by its daemon":
        made.stop()
        assert not stale_processes.inside(made.data)
    else:      # whose daemon is gone: nobody holds the lock, nobody is its parent
        os.close(made._lock)
        made._lock = None
    again = Embedded(made.folder)
    try:
        assert rows(again.start(), "SELECT 1") == [(1,)] and again.pid != keeper
    finally:
        again.stop()


def test_parts_of_a_server_that_was_killed_and_do_not_notice_are_ended(made):
    conninfo = made.start()
    with psycopg.connect(conninfo) as session:
        part = session.info.backend_pid
        os.kill(part, signal.SIGSTOP)
        os.kill(made.pid, signal.SIGKILL)
        until(made.exited, "the server is gone")
        made.restart()
        assert not os.path.exists(f"/proc/{part}") or part not in [one.pid for one in stale_processes.inside(made.data)]
    assert rows(conninfo, "SELECT 1") == [(1,)]


MAKER = """
import sys
from pathlib import Path
from queend.postgres.embedded import Embedded
Embedded(Path(sys.argv[1])).start()
"""


def test_a_cluster_that_is_being_made_ends_with_its_daemon_and_is_made_anew(tmp_path):
    maker = subprocess.Popen([sys.executable, "-c", MAKER, tmp_path])
    cluster = Embedded(tmp_path)
    until(lambda: (tmp_path / "pg").exists() and process(cluster, "initdb"), "the cluster is being made")
    for one in stale_processes.inside(cluster.data):
        with contextlib.suppress(ProcessLookupError):      # one of its steps, which has ended
            os.kill(one.pid, signal.SIGSTOP)      # as one that goes on for longer
    maker.kill()
    maker.wait()
    try:
        assert rows(cluster.start(), "SELECT 1") == [(1,)]
        assert all("initdb" not in one.title for one in stale_processes.inside(cluster.data))
    finally:
        cluster.stop()


@pytest.mark.parametrize("name", ["PG_VERSION", "global/pg_control"])
def test_a_cluster_that_lacks_what_nobody_can_make_anew_is_told(made, name):
    (made.data / name).unlink()
    with pytest.raises(EmbeddedError, match=f"damaged: {name} is missing; restore"):
        made.start()


@pytest.mark.parametrize("version", [b"", b"9.6\n", b"\xff\xfe\0"])
def test_a_cluster_of_no_version_is_told(made, version):
    (made.data / "PG_VERSION").write_bytes(version)
    with pytest.raises(EmbeddedError, match="damaged: PG_VERSION contains no valid version: .*; restore"):
        made.start()


def test_a_cluster_of_a_version_that_is_not_here_is_told(made):
    (made.data / "PG_VERSION").write_text("14\n")
    with pytest.raises(EmbeddedError, match=f"^the cluster in {made.data} was created by PostgreSQL 14: no PostgreSQL"):
        made.start()


NUMBER = 4_000_000      # of no account


def test_a_cluster_that_belongs_to_no_account_is_told(made):
    if os.geteuid() != 0:
        pytest.skip("only root may give a folder to another")
    os.chown(made.data, NUMBER, -1)
    with pytest.raises(EmbeddedError, match=f"uid {NUMBER} has no account .*{made.data} belongs to it"):
        made.start()


NAMELESS = """
import os, sys
from pathlib import Path
from queend.postgres.embedded import Embedded, EmbeddedError
os.chdir("/")
os.setuid(int(sys.argv[2]))
try:
    Embedded(Path(sys.argv[1])).start()
except EmbeddedError as error:
    print(error)
"""


def test_a_daemon_that_runs_as_no_account_is_told():
    """As a container that was started with a number."""
    if os.geteuid() != 0:
        pytest.skip("only root may become another")
    with tempfile.TemporaryDirectory() as folder:      # where the other may enter
        os.chown(folder, NUMBER, -1)
        done = subprocess.run([sys.executable, "-c", NAMELESS, folder, str(NUMBER)], capture_output=True, text=True)
    assert f"uid {NUMBER} has no account on this system" in done.stdout and not done.stderr


def test_what_a_killed_server_wrote_about_itself_is_no_obstacle(made):
    """Its lock files name a number that is a stranger's now, and its memory is still there."""
    made.start()
    keeper, told = made.pid, (made.data / "postmaster.pid").read_text()
    os.kill(keeper, signal.SIGKILL)
    until(made.exited, "the server is gone")
    made.stop()
    for name in ("postmaster.pid", ".s.PGSQL.5432.lock"):
        (made.data / name).write_text(told.replace(str(keeper), str(os.getpid()), 1))
    again = Embedded(made.folder)
    try:
        assert rows(again.start(), "SELECT 1") == [(1,)]
    finally:
        again.stop()


def test_a_long_recovery_is_waited_for(made):
    """Beginning anew would only make it longer. A standby recovers for ever."""
    (made.data / "standby.signal").touch()
    made.settings = {"hot_standby": "off"}
    made.begin()
    assert made.await_ready(recovery=0.0) is False
    asked: list[bool] = []
    assert made.await_ready(timeout=0.0, enough=lambda: len(asked) > 30 or asked.append(True)) is False and made.pid
