"""Every SQLSTATE of the table, raised by the server's own functions, for every kind of job: what the client is told,
and what is stored."""
from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from support.client import Client, ack_of, data, pop_target
from support.crowd import Crowd
from support.daemon import Daemon
from support.faults import Faults
from support.postgres import Postgres
from support.streams import Stream
from support.wait import until

from queend._core import verdict, verdict_table

CODES = [code if len(code) == 5 else f"{code}000" for code, *_ in verdict_table()] + ["QD001"]
ANSWERS = {"again": 503, "away": 503, "unfit": 503, "unclear": 503, "data": 500}
FUNCTIONS = ("push", "pop", "claim", "ack", "transaction", "renew", "stream_cycle", "resolve_within", "groups_find",
             "pop_scan", "release")


def test_the_table() -> None:
    codes = [code for code, *_ in verdict_table()]
    assert len(set(codes)) == len(codes)
    for place, code in enumerate(codes):        # a class does not hide a code of its own
        assert code[:2] not in codes[:place] or len(code) == 2
    assert {verdict(code) for code in ("40001", "40P01", "23505", "55P03", "0A000")} == {"again"}
    assert {verdict(code) for code in ("25006", "53100", "57P01", "57P03", "58030", "08006")} == {
        "away"} == {verdict(None)}
    assert {verdict(code) for code in ("42883", "42703", "42501", "3F000")} == {"unfit"}
    assert {verdict(code) for code in ("22021", "22P02", "23514", "54000")} == {"data"}
    assert {verdict(code) for code in ("QD001", "XX000", "P0001", "23502", "57014", "x", "")} == {"unclear"}


class Case:
    """A kind of job: `prepare` makes what the request is about, `ask` sends it over a connection and gives (status, was
    it done?)."""

    def __init__(self, client: Client, queue: str):
        self.client, self.queue = client, queue

    def prepare(self) -> None:
        pass

    def ask(self, client: Client) -> tuple[int, bool]:
        raise NotImplementedError

    def status(self, blame: str) -> int:
        return ANSWERS[blame]


class Push(Case):
    function = "push"

    def ask(self, client: Client) -> tuple[int, bool]:
        answer = self.answer = client.post("/api/v1/push", {"items": [
            {"queue": self.queue, "partition": "p", "payload": 1}]})
        return answer.status, answer.status == 201 and answer.json[0]["status"] == "queued"

    def status(self, blame: str) -> int:
        return 201 if blame == "data" else 503      # the item's own: told in its place


class Names(Push):
    function = "resolve_within"
    number = 0

    def prepare(self) -> None:
        Names.number += 1
        self.queue = f"{self.queue.split('~')[0]}~{Names.number}"

    def status(self, blame: str) -> int:
        return ANSWERS[blame]


class Pop(Case):
    """From the log: it was stored too long ago to be in memory."""

    function = "pop"

    def prepare(self) -> None:
        self.client.push(self.queue, 1, partition="p")

    def ask(self, client: Client) -> tuple[int, bool]:
        answer = self.answer = client.pop_answer(self.queue, "p", autoAck=True, batch=100)
        return answer.status, answer.status == 200 and data(answer.json["messages"])[-1:] == [1]


class Ack(Case):
    function = "ack"

    def prepare(self) -> None:
        self.client.push(self.queue, 1, partition="p")
        (self.message,) = self.client.pop(self.queue, "p")

    def ask(self, client: Client) -> tuple[int, bool]:
        answer = self.answer = client.post("/api/v1/ack", {**ack_of(self.message, "dlq")})
        return answer.status, answer.status == 200 and answer.json[0]["success"]


class Transaction(Ack):
    function = "transaction"

    def ask(self, client: Client) -> tuple[int, bool]:
        answer = self.answer = client.post("/api/v1/transaction", {"operations": [
            {"type": "ack", **ack_of(self.message)}]})
        return answer.status, answer.status == 200 and answer.json["success"]


class Lease(Ack):
    function = "renew"

    def ask(self, client: Client) -> tuple[int, bool]:
        answer = self.answer = client.post(f"/api/v1/lease/{self.message['leaseId']}/extend", {"seconds": 60})
        if answer.status == 200:
            client.ack(self.message)
        return answer.status, answer.status == 200

    def status(self, blame: str) -> int:
        return 503


class Cycle(Case):
    function = "stream_cycle"

    def __init__(self, client: Client, queue: str):
        super().__init__(client, queue)
        self.stream = Stream(client, queue, queue)

    def prepare(self) -> None:
        self.client.push(self.queue, 1, partition="p")
        messages = self.stream.pop()
        self.body = self.stream.body(messages, {"k": 1},
                                     [{"queue": f"{self.queue}-sink", "partition": "p", "payload": 1}])

    def ask(self, client: Client) -> tuple[int, bool]:
        answer = self.answer = client.post("/streams/v1/cycle", self.body)
        return answer.status, answer.status == 200 and answer.json["success"]

    def status(self, blame: str) -> int:
        return 200 if blame == "data" else 503      # success: false, with the database's words


# What a refusal says of the database.
SAID = {"53100": "the database has no space on its disk", "53200": "the database is out of memory",
        "53300": "the database has no connection left", "57P03": "the database takes no connections:",
        "58030": "the server's system failed: a file, a disk", "42501": "this daemon lacks a right in the database",
        "42883": "the database lacks a function", "P0001": "a function of the database gave up",
        "57014": "the statement was cancelled, or took longer than statement_timeout"}
KINDS = (Push, Names, Pop, Ack, Transaction, Lease, Cycle)


@pytest.fixture(scope="module")
def shop(postgres: Postgres, start_daemon: Callable[..., Daemon]) -> Iterator[tuple[Daemon, Daemon, Faults]]:
    """A daemon that has all the patience that is needed, one that has hardly any, and the faults of their database."""
    conninfo = postgres.database()
    patient = start_daemon(conninfo, QUEEND_PATIENCE_MS=100_000, QUEEND_CACHE_BYTES=0)
    hasty = start_daemon(conninfo, QUEEND_PATIENCE_MS=100, QUEEND_CACHE_BYTES=0)
    with patient.client() as client:
        client.push("warm", 1)
    faults = Faults(conninfo, *FUNCTIONS)
    yield patient, hasty, faults
    faults.close()


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_one_error_is_nobodys_trouble_and_one_without_end_is_told(shop, queue, kind) -> None:
    patient, hasty, faults = shop
    with patient.client() as client, hasty.client() as other:
        case = kind(client, queue)
        for code in CODES:
            blame = verdict(code)
            case.prepare()
            if blame != "data":
                faults.plant(kind.function, code, 1)
                assert case.ask(client) == (201 if issubclass(kind, Push) else 200, True), code
                case.prepare()
            faults.plant(kind.function, code)
            try:
                assert told(case, client if blame == "data" else other, (case.status(blame), False)), code
            finally:
                faults.clear(kind.function)
            status, done = case.ask(client)
            assert done, (code, status)


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind is not Cycle], ids=lambda kind: kind.__name__)
def test_a_refusal_says_what_the_database_said(shop, queue, kind) -> None:
    """A cycle is told in the database's own words."""
    patient, hasty, faults = shop
    with patient.client() as client, hasty.client() as other:
        case = kind(client, queue)
        for code, said in SAID.items():
            case.prepare()
            faults.plant(kind.function, code)
            try:
                assert told(case, other, (503, False)), code
            finally:
                faults.clear(kind.function)
            text = case.answer.json["error"]
            assert f": {said}" in text and text.endswith("; try again"), (code, text)
            case.ask(client)


def test_a_page_says_what_the_database_said(start_daemon, postgres, queue) -> None:
    daemon = start_daemon(postgres.database())
    faults = Faults(daemon.conninfo, "configure")
    with daemon.client() as client:
        for code, said in SAID.items():
            faults.plant("configure", code)
            answer = client.post("/api/v1/configure", {"queue": queue, "options": {}})
            unclear = verdict(code) == "unclear"
            assert answer.status == (500 if unclear else 503), code
            assert answer.json["error"].startswith(f"Database {'error' if unclear else 'unavailable'}: {said}"), code
    faults.close()


def told(case: Case, client: Client, wanted: tuple[int, bool]) -> bool:
    """Is that the answer? A pop of a daemon that has not heard of the message yet finds nothing, and is sent again."""
    def answer() -> tuple[int, bool] | None:
        got = case.ask(client)
        return None if got == (200, False) != wanted else got
    return until(answer, f"{type(case).__name__} is told") == wanted


def test_how_long_a_request_waits_is_its_daemons_setting(shop, queue) -> None:
    """The first that was asked would be the first to give up, were they alike."""
    patient, hasty, faults = shop
    with patient.client() as one, hasty.client() as other:
        one.push(queue, "known"), other.push(queue, "known")
        faults.plant("push", "40001")
        try:
            one.send("POST", "/api/v1/push", json.dumps({"items": [{"queue": queue, "payload": 1}]}).encode())
            assert other.post("/api/v1/push", {"items": [{"queue": queue, "payload": 2}]}).status == 503
        finally:
            faults.clear("push")
        assert one.receive().status == 201


def test_a_look_for_work_goes_on_until_it_is_through(shop, queue) -> None:
    daemon, _, faults = shop
    with daemon.client() as client:
        client.push(queue, 1, 2, partition="p")
        for code in ("42883", "22000", "XX000", "25006", "QD001"):
            faults.plant("pop_scan", code, 2)
            messages = client.pop(queue, consumerGroup=f"g{code}", batch=10, wait=True, timeout=100_000)
            assert data(messages) == [1, 2], code


def test_nobody_waits_for_ever_for_what_is_not_known(start_daemon, postgres, queue) -> None:
    """A pop that does not wait is refused while the group cannot be looked through, or the catalogue cannot be loaded;
    one that waits does so as long as it said."""
    daemon = start_daemon(postgres.database(), QUEEND_PATIENCE_MS=500, NUM_WORKERS=1)
    faults = Faults(daemon.conninfo, "pop_scan", "catalog_load")
    with daemon.client() as client:
        client.push(queue, 1, partition="p")
        for function, target in (("pop_scan", queue), ("catalog_load", "nobody-knows")):
            faults.plant(function, "53100")
            asked = {"consumerGroup": f"g-{function}"}
            answer = client.get(pop_target(target, **asked))
            assert answer.status == 503 and answer.headers["retry-after"], (function, answer)
            assert answer.json["error"].endswith(": the database has no space on its disk; try again"), answer.json
            assert client.pop(target, wait=True, timeout=100, **asked) == []
            faults.clear(function)
        assert data(client.pop(queue, wait=True, timeout=100_000, consumerGroup="g-pop_scan")) == [1]
        assert client.pop_answer("nobody-knows").status in (200, 204)
    faults.close()


def test_a_push_does_not_wait_for_ever_for_a_catalogue(start_daemon, postgres, queue) -> None:
    """The database refuses it until the names are loaded anew, and they cannot be."""
    daemon = start_daemon(postgres.database(), QUEEND_PATIENCE_MS=500, NUM_WORKERS=1)
    faults = Faults(daemon.conninfo, "catalog_load")
    with daemon.client() as client:
        client.push(queue, 1, partition="p")
        client.push(queue + "-other", 1)
        faults.plant("catalog_load", "XX000")
        faults.admin.execute("SELECT queen.delete_queue_v1(%s)", (queue + "-other",))
        item = {"items": [{"queue": queue, "partition": "p", "payload": 2}]}
        assert client.post("/api/v1/push", item).status == 503
        faults.clear("catalog_load")
        until(lambda: client.post("/api/v1/push", item).status == 201, "pushes go on")
    faults.close()


def test_only_the_message_at_fault_is_refused(start_daemon, postgres, queue) -> None:
    daemon = start_daemon(postgres.database(), QUEEND_PATIENCE_MS=1000)
    faults = Faults(daemon.conninfo)
    faults.admin.execute("""CREATE TABLE faults.poison (code text);
        CREATE FUNCTION faults.taste() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
            IF position('poison'::bytea IN NEW.body) > 0 THEN RAISE EXCEPTION 'poison' USING ERRCODE = (SELECT p.code
             FROM faults.poison p); END IF;
            RETURN NEW; END $$;
        CREATE TRIGGER taste BEFORE INSERT ON queend.log FOR EACH ROW EXECUTE FUNCTION faults.taste()""")
    with daemon.client() as client:
        for code in CODES:
            faults.admin.execute("DELETE FROM faults.poison")
            faults.admin.execute("INSERT INTO faults.poison VALUES (%s)", (code,))
            if verdict(code) not in ("data", "unclear"):
                continue        # hits all of its batch, as every client of the database
            items = [{"queue": queue, "partition": f"{n % 3}", "payload": "poison" if n == 7 else n} for n in range(12)]
            results = client.push_items(items)
            assert [one["status"] for one in results] == ["failed" if n == 7 else "queued" for n in range(12)], code
            assert (results[7].get("code") == "unavailable") == (verdict(code) == "unclear"), code
            answer = client.post("/api/v1/push", {"items": [{"queue": queue, "partition": "0", "payload": "poison"}]})
            assert answer.status == (201 if verdict(code) == "data" else 503), code
    faults.close()


def test_what_is_buffered_goes_into_the_quarantine_for_its_own_fault_only(start_daemon, postgres, queue,
                                                                          tmp_path: Path) -> None:
    daemon = start_daemon(postgres.database(), QUEEND_BUFFER_BYTES=64 << 20, FILE_BUFFER_DIR=tmp_path / "buffer",
                          FILE_BUFFER_FLUSH_MS=10)
    faults = Faults(daemon.conninfo, "push")
    with daemon.client() as client:
        client.push(queue, "first", partition="p")
        foreign = [code for code in CODES if verdict(code) != "data"]
        faults.plant("push", foreign[0])
        numbers = []
        for code in ("53100", "42883", "25006"):
            faults.plant("push", code)
            assert client.push(queue, len(numbers), partition="p")[0]["status"] == "buffered", code
            numbers.append(len(numbers))
        for code in foreign:
            faults.plant("push", code)
            until(lambda: faults.met("push") > 1, f"draining meets {code}")
            state = client.get("/api/v1/status/buffers").json
            assert (state["pending"], state["failed"]) == (len(numbers), 0), code
        faults.clear("push")
        until(lambda: client.get("/api/v1/status/buffers").json["pending"] == 0, "the buffer is empty")
        assert client.get("/api/v1/status/buffers").json["failed"] == 0
        assert data(client.pop(queue, "p", batch=100)) == ["first", *numbers]
        faults.plant("push", "53100")
        client.push(queue, "unstorable", partition="p")
        faults.plant("push", "22000")
        until(lambda: client.get("/api/v1/status/buffers").json["pending"] == 0, "the buffer is empty")
        assert client.get("/api/v1/status/buffers").json["failed"] == 1
        faults.clear("push")
    faults.close()


@pytest.mark.parametrize("level", ["repeatable read", "serializable"])
def test_the_databases_isolation_level_is_not_ours(start_daemon, postgres, queue, level) -> None:
    """Two daemons push to one partition: under another level each would wait for the other's lane and then fail."""
    conninfo = postgres.database()
    faults = Faults(conninfo)
    (name,) = faults.admin.execute("SELECT current_database()").fetchone()
    for setting, value in {"default_transaction_isolation": level, "default_transaction_deferrable": "on",
                           "idle_session_timeout": "1s", "search_path": "public",
                           "standard_conforming_strings": "off", "bytea_output": "escape", "datestyle": "German",
                           "timezone": "Asia/Kolkata"}.items():
        faults.admin.execute(f"ALTER DATABASE {name} SET {setting} = '{value}'")
    faults.close()
    daemons = [start_daemon(conninfo) for _ in range(2)]
    crowd = Crowd()

    def produce(number: int) -> None:
        with daemons[number % 2].client() as client:
            for n in range(60):
                (item,) = client.push(queue, [number, n], partition="p", transactionId=f"{number}.{n}")
                assert item["status"] == "queued", item

    crowd.all(produce, range(6))
    crowd.join()
    with daemons[0].client() as client:
        got = []
        while messages := client.pop(queue, "p", batch=1000, autoAck=True):
            got += data(messages)
        assert sorted(got) == [[number, n] for number in range(6) for n in range(60)]
        assert client.get("/api/v1/resources/queues").status == 200
    for daemon in daemons:
        assert not [line for line in daemon.log if line["level"] == "error"
                    and line["event"] != "commits_may_be_lost"], daemon.story()
