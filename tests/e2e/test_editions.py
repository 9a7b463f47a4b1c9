"""Two versions on one database. The other one is real: this one's files with another edition of the functions, one of
them with another signature, and a core whose statement asks for that."""
from __future__ import annotations

import shutil
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg
import pytest
from support.client import Client, data
from support.crowd import Crowd
from support.daemon import PACKAGE, Daemon
from support.http import Gone
from support.wait import until

from queend.postgres.edition import edition_in
from queend.postgres.migrate import migrate, sql_folder

OURS = edition_in(sql_folder()).number
# ack_leased takes its fourth and eighth arguments the other way round: acknowledgments and claims of one moment.
OLD_CALL, NEW_CALL = b"queend.ack_leased($1,$2,$3,$4,$5,$6,$7,$8,", b"queend.ack_leased($1,$2,$3,$8,$5,$6,$7,$4,"
BUFFERS = {"QUEEND_BUFFER_BYTES": 64 << 20}


def make_newer(folder: Path, former: bool) -> Path:
    """The next version. former: it still serves daemons of this one."""
    package, sql = folder / "queend", folder / "sql"
    package.mkdir(parents=True)
    for part in (PACKAGE / "queend").iterdir():
        if part.suffix == ".so":
            core = part.read_bytes()
            assert core.count(OLD_CALL) == 2      # alone, and with claims
            (package / part.name).write_bytes(core.replace(OLD_CALL, NEW_CALL))
        elif part.name == "postgres":      # it finds its SQL files by where it is
            shutil.copytree(part, package / part.name, ignore=shutil.ignore_patterns("__pycache__"))
        elif part.name not in ("sql", "__pycache__"):
            (package / part.name).symlink_to(part)
    shutil.copytree(sql_folder(), sql)
    text = (sql / "function" / "ack_leased.sql").read_text()
    head = text[text.index("queend.ack_leased(") + len("queend.ack_leased("):text.index(")\nRETURNS")]
    arguments = [one.strip() for one in head.replace("\n", " ").split(",")]
    names = [one.split()[0] for one in arguments]
    turned = [*arguments[:3], arguments[7], *arguments[4:7], arguments[3], arguments[8]]
    assert len(arguments) == 9
    (sql / "function" / "ack_leased.sql").write_text(text.replace(head, ", ".join(turned)))
    if former:
        columns = text[text.index("RETURNS TABLE"):text.index("\nLANGUAGE")]
        call = ", ".join([*names[:3], names[7], *names[4:7], names[3], names[8]])
        (sql / "former").mkdir(exist_ok=True)
        (sql / "former" / "ack_leased.sql").write_text(
            f"CREATE OR REPLACE FUNCTION queend.ack_leased({head})\n{columns} LANGUAGE sql AS $$ SELECT *"
            f" FROM queend.ack_leased({call}) $$;")
    text = (sql / "function" / "edition.sql").read_text()
    before = edition_in(sql)
    (sql / "function" / "edition.sql").write_text(
        text.replace(f"SELECT {before.number}, {before.serves}", f"SELECT {OURS + 1}, {OURS if former else OURS + 1}"))
    (sql / "migrate" / "9999_later.sql").write_text("ALTER TABLE queend.log ADD COLUMN later int;")
    return folder


@pytest.fixture(scope="module")
def serving(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_newer(tmp_path_factory.mktemp("serving"), former=True)


@pytest.fixture(scope="module")
def breaking(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_newer(tmp_path_factory.mktemp("breaking"), former=False)


class Load:
    """Producers and consumers that go to whichever daemon answers, and repeat what was not."""

    def __init__(self, queue: str):
        self.queue = queue
        self.addresses: list[tuple[str, int]] = []
        self.answered: list[str] = []
        self.delivered: set[str] = set()
        self.acknowledged: list[str] = []
        self.strange: list[object] = []
        self.enough, self.done = threading.Event(), threading.Event()

    def each(self, who: int) -> Iterator[Client]:
        """Clients of one daemon after the other, for as long as there is work."""
        turn = who
        while True:
            turn += 1
            with Client(self.addresses[turn % len(self.addresses)], 30) as client:
                yield client

    def produce(self, who: int) -> None:
        number, clients = 0, self.each(who)
        while not self.enough.is_set():
            name = f"{who}.{number}"
            try:
                answer = next(clients).post("/api/v1/push", {
                    "items": [{"queue": self.queue, "partition": str(who), "transactionId": name, "payload": name}]})
            except (OSError, Gone):
                continue
            if answer.status == 201:
                if answer.json[0]["status"] not in ("queued", "buffered", "duplicate"):
                    self.strange.append(answer.json)
                self.answered.append(name)
                number += 1
            elif answer.status != 503:
                self.strange.append((answer.status, answer.body))

    def consume(self, who: int) -> None:
        for client in self.each(who):
            try:
                answer = client.pop_answer(self.queue, batch=20, wait=True, timeout=500)
                if answer.status == 200 and answer.json["messages"]:
                    self.delivered |= {m["data"] for m in answer.json["messages"]}
                    acks = [{"transactionId": m["transactionId"], "partitionId": m["partitionId"],
                             "leaseId": m["leaseId"], "status": "completed"} for m in answer.json["messages"]]
                    told = client.post("/api/v1/ack/batch", {"acknowledgments": acks})
                    if told.status == 200:
                        self.acknowledged += [m["data"] for m, one in zip(answer.json["messages"], told.json,
                                                                          strict=True) if one["success"]]
                    elif told.status != 503:
                        self.strange.append((told.status, told.body))
                elif answer.status not in (200, 204, 503):
                    self.strange.append((answer.status, answer.body))
                elif self.done.is_set() and answer.status != 503:
                    return
            except (OSError, Gone):
                continue


def functions(conninfo: str) -> list[tuple]:
    with psycopg.connect(conninfo) as connection:
        return connection.execute("SELECT p.oid::regprocedure::text FROM pg_proc p WHERE p.proname = 'ack_leased'"
                                  " ORDER BY 1").fetchall()


def test_two_daemons_are_upgraded_one_after_the_other_under_load(postgres, start_daemon: Callable[..., Daemon],
                                                                 serving: Path, queue: str, tmp_path: Path):
    conninfo = postgres.database()
    settings = {**BUFFERS, "FILE_BUFFER_DIR": tmp_path}
    old = [start_daemon(conninfo, **settings) for _ in range(2)]
    load = Load(queue)
    load.addresses = [one.address for one in old]
    with old[0].client() as client:
        client.configure(queue, leaseTime=2)
    with Crowd() as crowd:
        try:
            for who in range(3):
                crowd.go(load.produce, who)
                crowd.go(load.consume, who)
            grown = _growth(load)
            grown()
            first = start_daemon(conninfo, PYTHONPATH=serving, **settings)
            assert first.told("migrated")["applied"] == ["9999_later", "function"]
            assert len(functions(conninfo)) == 2, "one for each version"
            load.addresses = [first.address, old[1].address]
            old[0].stop()
            grown()
            again = start_daemon(conninfo, **settings)      # one of the older version comes back meanwhile
            assert again.told("database_newer") and not again.line("migrated") and len(functions(conninfo)) == 2
            load.addresses = [first.address, again.address]
            old[1].stop()
            grown()
            second = start_daemon(conninfo, PYTHONPATH=serving, **settings)
            load.addresses = [first.address, second.address]
            again.stop()
            grown()
            load.enough.set()      # a lease whose consumer heard no more from its daemon runs out
            until(lambda: set(load.answered) <= load.delivered, "everything is delivered")
        finally:
            load.enough.set()
            load.done.set()
    assert load.strange == []
    assert len(load.acknowledged) == len(set(load.acknowledged)), "something came after its acknowledgment"
    for who in range(3):      # each producer's in its order
        mine = [name for name in load.answered if name.startswith(f"{who}.")]
        assert mine == [f"{who}.{n}" for n in range(len(mine))]


def _growth(load: Load) -> Callable[[], None]:
    def grown() -> None:
        pushed, acknowledged = len(load.answered), len(load.acknowledged)
        until(lambda: len(load.answered) > pushed + 100 and len(load.acknowledged) > acknowledged + 100,
              f"it works on: {load.strange[:3]}")
    return grown


def test_a_daemon_whose_functions_are_gone_buffers_says_so_and_never_brings_them_back(
        postgres, start_daemon: Callable[..., Daemon], breaking: Path, queue: str, tmp_path: Path):
    conninfo = postgres.database()
    old = start_daemon(conninfo, **BUFFERS, FILE_BUFFER_DIR=tmp_path, QUEEND_PATIENCE_MS=500)
    plain = start_daemon(conninfo, QUEEND_PATIENCE_MS=500)
    with old.client() as client, plain.client() as bare:
        client.push(queue, "before")
        assert data(client.pop(queue, autoAck=True)) == ["before"]
        assert migrate(conninfo, breaking / "sql") == ["9999_later", "function"]
        with psycopg.connect(conninfo, autocommit=True) as connection:      # connections come and go
            connection.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                               " WHERE application_name = 'queend' AND datname = current_database()")
        until(lambda: old.line("functions_not_ours") and plain.line("functions_not_ours"), "they have noticed")
        reason = (f"the functions of the database are of edition {OURS + 1} and serve daemons of edition {OURS + 1} and"
                  f" later, this is {OURS}: start a newer queend")
        assert old.told("functions_not_ours")["detail"] == reason
        health = client.get("/health")
        assert (health.status, health.json["status"], health.json["reason"]) == (503, "unhealthy", reason)
        assert client.get("/readyz").json["status"] == "buffering"
        until(lambda: client.push(queue, "meanwhile")[0]["status"] == "buffered", "pushes are buffered")
        answer = bare.post("/api/v1/push", {"items": [{"queue": queue, "payload": 1}]})
        assert answer.status == 503 and "retry-after" in answer.headers
        assert client.post("/api/v1/transaction",
                           {"operations": [{"type": "push", "items": [{"queue": queue, "payload": 1}]}]}).status == 503
    assert functions(conninfo) == [
        ("queend.ack_leased(bigint,integer[],integer[],boolean,bigint[],bigint[],bigint[],uuid[],tid[])",)]
    with pytest.raises(AssertionError, match=f"belongs to a newer queend: its functions have edition {OURS + 1}"):
        start_daemon(conninfo)      # an older one does not start beside it, and changes nothing
    assert len(functions(conninfo)) == 1
    old.stop()
    newer = start_daemon(conninfo, PYTHONPATH=breaking, **BUFFERS, FILE_BUFFER_DIR=tmp_path)
    with newer.client() as client:
        until(lambda: client.get("/api/v1/status/buffers").json["pending"] == 0, "what was buffered is stored")
        assert "meanwhile" in data(client.pop(queue, batch=100, autoAck=True))


def test_a_statement_that_is_not_understood_sends_its_connection_away(postgres, start_daemon: Callable[..., Daemon],
                                                                      breaking: Path, queue: str, tmp_path: Path):
    """Without a new connection that would ask: the statement itself finds that its function is gone."""
    conninfo = postgres.database()
    old = start_daemon(conninfo, **BUFFERS, FILE_BUFFER_DIR=tmp_path)
    with old.client() as client:
        client.push(queue, 1, 2, 3)
        messages = client.pop(queue, batch=3)
        migrate(conninfo, breaking / "sql")
        client.post("/api/v1/ack",
                    {"transactionId": messages[0]["transactionId"], "partitionId": messages[0]["partitionId"],
                     "leaseId": messages[0]["leaseId"], "status": "completed"})
        until(lambda: old.line("functions_not_ours"), "it has noticed")
        until(lambda: client.push(queue, "meanwhile")[0]["status"] == "buffered", "pushes are buffered")


def test_a_dump_in_progress_stops_no_traffic_while_the_next_version_waits(
        postgres, start_daemon: Callable[..., Daemon], serving: Path, queue: str, tmp_path: Path):
    conninfo = postgres.database()
    old = start_daemon(conninfo)
    with old.client() as client, psycopg.connect(conninfo, application_name="a dump") as dump:
        client.push(queue, "before")
        dump.execute("SELECT FROM queend.log")
        newer = start_daemon(conninfo, PYTHONPATH=serving, **BUFFERS, FILE_BUFFER_DIR=tmp_path)
        # the log may tell of it a moment after the first line that says ready
        waits = until(lambda: newer.line("without_database") and newer.line("migration_waits"), "both are told")
        assert "(a dump) has a transaction open" in waits["detail"]
        with newer.client() as other:
            assert other.push(queue, "buffered", partition="p")[0]["status"] == "buffered"
            with psycopg.connect(conninfo, autocommit=True) as look:
                for number in range(3):      # it asks for its lock, and what comes behind that is stored all the same
                    until(lambda: look.execute("SELECT FROM pg_locks WHERE NOT granted AND relation ="
                                               " 'queend.log'::regclass AND mode = 'AccessExclusiveLock'").fetchall(),
                          "it asks")
                    assert client.push(queue, number)[0]["status"] == "queued"
            dump.commit()
            newer.await_event("database_taken_up")
            until(lambda: other.get("/api/v1/status/buffers").json["pending"] == 0, "what was buffered is stored")
            assert other.push(queue, "after")[0]["status"] == "queued"
    assert newer.told("migrated")["applied"] == ["9999_later", "function"]
