"""What is erased is in no table any more, the rest is as it was, and nobody is delivered an empty message."""
from __future__ import annotations

import random
import threading
import uuid
from collections.abc import Iterator
from urllib.parse import quote

import psycopg
import pytest
from psycopg import sql
from psycopg.rows import namedtuple_row
from support.client import Client, data
from support.daemon import Daemon
from support.seeds import seed_of_run
from support.wait import until

from queend._core import record_read, row_records

PAD = "x" * 2000


@pytest.fixture(scope="module")
def daemon(start_daemon, tmp_path_factory) -> Daemon:
    keys = "k1:" + "ab" * 32
    return start_daemon(QUEEND_COMPRESS_FROM=1024, QUEEND_ENCRYPTION_KEYS=keys, RETENTION_INTERVAL=100)


@pytest.fixture
def database(daemon: Daemon) -> Iterator[psycopg.Connection]:
    with psycopg.connect(daemon.conninfo, autocommit=True, row_factory=namedtuple_row) as connection:
        yield connection


def unpacked(table: str, row) -> bytes:
    """What a row of the log, or a copy of one, holds once it is unpacked."""
    if table not in ("log", "dead_bodies"):
        return b""
    meta = row.meta if table == "log" else b""
    found = [record_read(row.body, row.n, i) for i in range(row.n)]
    return b"\n".join([*(payload + (text or "").encode() for payload, text, _ in found),
                       *(headers or b"" for _, headers in row_records(b"q", False, bytes(16 * row.n), row.body, meta,
                                                                      row.n)), meta])


def places_of(database: psycopg.Connection, text: str) -> list[str]:
    """The tables of the schema that hold a text, compressed or not."""
    found = []
    for table, in database.execute("SELECT relname FROM pg_class WHERE relnamespace = 'queend'::regnamespace"
                                   " AND relkind IN ('r', 'p')").fetchall():
        for row in database.execute(sql.SQL("SELECT * FROM queend.{}").format(sql.Identifier(table))).fetchall():
            values = [one if isinstance(one, bytes) else str(one).encode() for one in row]
            if any(text.encode() in one for one in [*values, unpacked(table, row)]):
                found.append(table)
    return sorted(set(found))


def pushed(client: Client, queue: str, name: str, big: bool, count: int = 6) -> str:
    """Messages of one row, one of them of a person. Returns the id of their partition."""
    items = [{"queue": queue, "partition": "p", "transactionId": f"m{i}", "traceId": str(uuid.uuid4()),
              "payload": {"i": i, "who": name if i == 2 else "another", "pad": PAD * big}} for i in range(count)]
    return client.push_items(items)[0]["partition_id"]


def rows_of(database: psycopg.Connection, queue: str) -> list[tuple]:
    """What the log has of a queue's records, without what was erased."""
    log = database.execute("SELECT l.* FROM queend.log l JOIN queend.partitions p ON p.id = l.partition_id"
                           " JOIN queend.queues q ON q.id = p.queue_id WHERE q.name = %s ORDER BY l.partition_id,"
                           " l.base", (queue,)).fetchall()
    return [(row.partition_id, row.base + i, row.created_at, row.ids[16 * i:16 * i + 16], *record_read(row.body, row.n,
             i), *row_records(b"q", False, row.ids, row.body, row.meta, row.n)[i])
            for row in log for i in range(row.n)]


def erase(client: Client, queue: str, **wanted) -> dict:
    """All answers of an erasure added up."""
    total: dict = {}
    while True:
        answer = client.post(f"/api/v1/queues/{quote(queue, safe='')}/erase", wanted)
        assert answer.status == 200, answer.body
        for name, value in answer.json.items():
            total[name] = total.get(name, 0) + value if isinstance(value, int) else value
        if answer.json["complete"]:
            return total
        wanted["after"] = answer.json["next"]


@pytest.mark.parametrize("big", [False, True], ids=["plain", "compressed"])
@pytest.mark.parametrize("how", ["http", "names", "sql", "view", "erase"])
def test_a_deletion_overwrites_the_payload(daemon, client, queue, database, big, how) -> None:
    name = f"eve-{uuid.uuid4()}"
    part = pushed(client, queue, name, big)
    assert places_of(database, name) == ["log"]
    before = rows_of(database, queue)
    if how == "http":
        assert client.request("DELETE", f"/api/v1/messages/{part}/m2").json["success"] is True
    elif how == "names":
        assert client.request("DELETE", f"/api/v1/queues/{queue}/partitions/p/messages/m2").json["success"] is True
    elif how == "sql":
        assert database.execute("SELECT queen.delete_message_v1(%s, 'm2')", (part,)).fetchone()[0]["success"] is True
    elif how == "view":
        database.execute("DELETE FROM queen.messages WHERE queue = %s AND transaction_id = 'm2'", (queue,))
    else:
        assert erase(client, queue, path="/who", value=name)["erased"] == 1
    if how in ("sql", "view") and big:
        until(lambda: not places_of(database, name), "a daemon overwrites it")
    assert places_of(database, name) == []
    after = rows_of(database, queue)
    assert [one for i, one in enumerate(after) if i != 2] == [one for i, one in enumerate(before) if i != 2]
    assert after[2][:4] == before[2][:4] and after[2][4] == b"" == after[2][7]
    assert [one["i"] for one in data(client.pop(queue, batch=10, autoAck=True))] == [0, 1]
    assert [one["i"] for one in data(client.pop(queue, batch=10, autoAck=True))] == [3, 4, 5]
    assert client.pop(queue, batch=10) == []
    read = client.post("/api/v1/fetch", {"entries": [{"queue": queue, "partition": "p", "offset": 0}]}).json
    assert [one["offset"] for one in read["entries"][0]["records"]] == [0, 1, 3, 4, 5]
    assert (read["entries"][0]["erased"], read["entries"][0]["nextOffset"]) == (1, 6)


def test_dead_letters_copies_and_traces_go(client, queue, database) -> None:
    name = f"eve-{uuid.uuid4()}"
    part = pushed(client, queue, name, True)
    for group in ("a", "b"):
        for one in client.pop(queue, batch=10, consumerGroup=group):
            assert client.ack(one, "dlq", group, lease=False)["dlq"] is True
    assert client.post("/api/v1/traces", {"partitionId": part, "transactionId": "m2", "traceNames": ["t"],
                                          "data": {"text": name}}).status == 201
    assert places_of(database, name) == ["dead_bodies", "log", "traces"]
    told = erase(client, queue, text=name, dryRun=True)
    assert told["found"] == {"messages": 1, "deadLetters": 2, "traces": 1, "outbox": 0}
    assert (told["erased"], told["deadLetters"], told["traces"]) == (0, 0, 0)
    assert places_of(database, name) == ["dead_bodies", "log", "traces"]
    told = erase(client, queue, text=name)
    assert (told["erased"], told["deadLetters"], told["traces"], told["unreadable"]) == (1, 2, 1, 0)
    assert places_of(database, name) == []
    letters = client.get(f"/api/v1/dlq?queue={queue}").json["messages"]
    assert sorted(one["data"]["i"] for one in letters) == sorted([0, 1, 3, 4, 5] * 2)
    assert {one["data"]["pad"] for one in letters} == {PAD}
    assert erase(client, queue, text=name)["erased"] == 0


@pytest.mark.parametrize("big", [False, True], ids=["plain", "compressed"])
def test_what_was_moved_among_the_dead_letters_and_purged_is_erased(client, queue, database, big) -> None:
    name = f"eve-{uuid.uuid4()}"
    part = pushed(client, queue, name, big)
    assert client.post(f"/api/v1/messages/{part}/m2/dlq", {"error": "by hand"}).json["moved"] is True
    assert set(places_of(database, name)) >= {"log"}
    assert client.request("DELETE", f"/api/v1/dlq?queue={queue}").json["deleted"] == 1
    until(lambda: not places_of(database, name), "the daemon overwrites it")
    assert [one["i"] for one in data(client.pop(queue, batch=10, autoAck=True))] == [0, 1]


def test_what_came_back_is_found_by_its_first_id(client, queue, database) -> None:
    name = f"eve-{uuid.uuid4()}"
    pushed(client, queue, name, False)
    (taken,) = [one for one in client.pop(queue, batch=10, consumerGroup="g") if one["transactionId"] == "m2"]
    client.ack(taken, "dlq", "g", lease=False)
    assert client.post("/api/v1/dlq/redrive", {"queue": queue}).json["redriven"] == 1
    assert erase(client, queue, transactionIds=["m2"])["erased"] == 2
    assert places_of(database, name) == []


def test_a_redrive_behind_the_search_of_the_log_is_met(daemon, client, queue, database) -> None:
    """It moves a dead letter to the log, which was searched already."""
    name = f"eve-{uuid.uuid4()}"
    pushed(client, queue, name, True)
    (taken,) = [one for one in client.pop(queue, batch=10, consumerGroup="g") if one["transactionId"] == "m2"]
    client.ack(taken, "dlq", "g", lease=False)
    number, = database.execute("SELECT id FROM queend.queues WHERE name = %s", (queue,)).fetchone()
    database.execute("SELECT * FROM queend.retain(%s, 0, 9, 99, -queend.now_us(), 0, 0)", (number,))
    # SQL redrives no compressed letter
    database.execute("UPDATE queend.dead_letters SET payload = %s WHERE queue_id = %s",
                     (f'{{"who": "{name}"}}', number))
    database.execute("DELETE FROM queend.dead_bodies b USING queend.partitions p"
                     " WHERE p.id = b.partition_id AND p.queue_id = %s", (number,))
    with psycopg.connect(daemon.conninfo) as other:
        other.execute("LOCK TABLE queend.dead_letters IN ACCESS EXCLUSIVE MODE")
        told: list[dict] = []
        thread = threading.Thread(target=lambda: told.append(erase(Client(daemon.address), queue, text=name)))
        thread.start()
        until(lambda: database.execute("SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE"
                                       " '%%erase_dead%%' AND pid <> pg_backend_pid()").fetchone(),
              "it searches the dead letters")
        assert other.execute("SELECT redriven FROM queend.dead_redrive(%s, NULL, NULL, NULL, NULL, NULL, 9)",
                             (number,)).fetchone() == (1,)
    thread.join()
    assert told[0]["erased"] == 1
    assert places_of(database, name) == []


@pytest.mark.parametrize("place", [
    "log.1", "log.2147483648.0", "log.1.x00", "log.x.0", "traces.2147483648.x.0", "traces.1.x0.0", "traces.1.0.0",
    "letters.1", "letters.x00.1", "outbox.1.1", "outbox.x", "early.x00.1", "outbox.٣", "outbox.0\n", "outbox.-1"])
def test_a_place_that_no_answer_named_is_refused(client, queue, place) -> None:
    client.push(queue, 1)
    answer = client.post(f"/api/v1/queues/{queue}/erase", {"text": "a", "after": place})
    assert (answer.status, answer.json["error"]) == (400, "after must be the value of next in an earlier answer")


@pytest.mark.parametrize("how", ["http", "sql"])
def test_also_what_an_earlier_version_deleted_or_is_consumed(client, queue, database, how) -> None:
    name = f"eve-{uuid.uuid4()}"
    pushed(client, queue, name, True)
    client.pop(queue, batch=10, autoAck=True)
    database.execute("SELECT queend.hole_make(p.id, 2) FROM queend.partitions p JOIN queend.queues q"
                     " ON q.id = p.queue_id WHERE q.name = %s AND p.name = 'p'", (queue,))
    assert places_of(database, name) == ["log"]
    if how == "http":
        assert erase(client, queue, partition="p", transactionIds=["m2", "none"])["erased"] == 1
    else:
        told, = database.execute("SELECT queen.erase_v1(jsonb_build_object('queue', %s::text, 'transactionIds',"
                                 " ARRAY['m2']))", (queue,)).fetchone()
        assert told == {"erased": 1, "deadLetters": 0, "traces": 0, "complete": True, "next": None}
    until(lambda: not places_of(database, name), "it is overwritten")
    assert len(rows_of(database, queue)) == 6


def test_sealed_queues_and_the_outbox(client, queue, database) -> None:
    name = f"eve-{uuid.uuid4()}"
    client.configure(queue, encryptionEnabled=True)
    client.push(queue, {"who": name}, {"who": "another"}, partition="p")
    database.execute("INSERT INTO queend.outbox (queue, partition, transaction_id, payload, refused)"
                     " VALUES (%s, 'p', 'o', %s, 'not now')", (queue, f'{{"who": "{name}"}}'))
    told = erase(client, queue, path="/who", value=name)
    assert (told["erased"], told["outbox"], told["unreadable"]) == (1, 1, 0)
    assert places_of(database, name) == []
    assert data(client.pop(queue, autoAck=True)) == [{"who": "another"}]
    assert erase(client, queue, partition="p")["erased"] == 1


@pytest.mark.parametrize("id", ["a text", str(uuid.UUID(int=4 << 76 | 2 << 62 | 77)), ""], ids=["text", "v4", "v7"])
@pytest.mark.parametrize("big", [False, True], ids=["plain", "compressed"])
def test_a_push_under_the_id_of_a_deleted_message_says_so(client, queue, database, id, big) -> None:
    ids = [id or pushed_id(client, queue), *(f"other {n}" for n in range(3))]
    items = [{"queue": queue, "partition": "p", "transactionId": one, "payload": PAD * big} for one in ids]
    client.push_items(items)
    again = items[:2] + [dict(items[0]), {**items[0], "transactionId": f"new {big}"}]

    def told() -> list[str]:
        return [one["status"] for one in client.push_items(again)]

    assert told() == ["duplicate"] * 3 + ["queued"]
    assert client.request("DELETE", f"/api/v1/queues/{queue}/partitions/p/messages/{quote(ids[0])}").json["success"]
    of = "duplicate_of_deleted"
    assert told() == [of, "duplicate", of, "duplicate"] == told()
    counts = client.post("/api/v1/push?format=counts", {"items": again}).json
    assert counts == {"count": 4, "queued": 0, "duplicate": 4, "error": 0}
    by_sql, = database.execute("SELECT queen.push_messages_v3(%s)", (psycopg.types.json.Jsonb(again),)).fetchone()
    assert [one["status"] for one in by_sql["items"]] == [of, "duplicate", of, "duplicate"]
    assert by_sql["items"][0]["message_id"] == client.push_items(again)[0]["message_id"]
    for number, reason in ((0, of), (1, "duplicate")):
        refused = client.transaction({"type": "push", "items": [{**items[0], "transactionId": f"fresh {big}"},
                                                                items[number]]})
        assert (refused["success"], refused["reason"], refused["failedIndex"]) == (False, reason, 1)
        by_sql, = database.execute("SELECT queen.execute_transaction_v2(%s)", (psycopg.types.json.Jsonb(
            [{"type": "push", "items": [items[number]]}]),)).fetchone()
        assert by_sql["success"] is False and (of in by_sql["error"]) is (reason == of)
    erase(client, queue, transactionIds=ids)
    assert told() == [of] * 3 + ["duplicate"]
    assert client.request("DELETE", f"/api/v1/queues/{queue}/partitions/p").status == 200
    assert told() == ["queued", "queued", "duplicate", "queued"]


def pushed_id(client: Client, queue: str) -> str:
    """A UUID of version 7 of now."""
    return client.push(queue, 1, partition="elsewhere")[0]["transaction_id"]


@pytest.mark.parametrize("body", [
    {}, {"partition": ""}, {"transactionIds": []}, {"text": ""}, {"path": "/a"}, {"value": 1},
    {"path": "a", "value": 1}, {"dryRun": True}, {"txt": "a"}, {"text": None}, {"transactionIds": [""]},
    {"transactionIds": "a"},
    {"text": "a", "after": "log.1"}, {"text": "a", "after": "x"}, {"text": "a", "dryRun": 1}], ids=str)
def test_a_filter_that_says_nothing_is_refused(client, queue, body) -> None:
    client.push(queue, "a")
    assert client.post(f"/api/v1/queues/{queue}/erase", body).status == 400
    assert data(client.pop(queue)) == ["a"]


def test_true_is_not_one_inside_of_a_value(client, queue) -> None:
    """A filter that takes one for the other erases what nobody named."""
    client.push(queue, {"flags": [1, {"a": 0}]}, {"flags": [True, {"a": False}]}, {"flags": [1.0, {"a": 0.0}]})
    told = erase(client, queue, path="/flags", value=[1, {"a": 0}])
    assert told["erased"] == 2
    assert data(client.pop(queue, batch=10, autoAck=True)) == [{"flags": [True, {"a": False}]}]


def test_unknown_names(client, queue, database) -> None:
    client.push(queue, 1)
    assert client.post(f"/api/v1/queues/{queue}-none/erase", {"text": "a"}).status == 404
    assert client.post(f"/api/v1/queues/{queue}/erase", {"partition": "none"}).status == 404
    for refused in ({}, {"queue": queue}, {"queue": f"{queue}-none", "partition": "p"}, {"queue": queue, "text": "a"},
                    {"queue": queue, "transactionIds": []}, {"queue": queue, "partition": "none"}):
        with pytest.raises(psycopg.errors.InvalidParameterValue):
            database.execute("SELECT queen.erase_v1(%s)", (psycopg.types.json.Jsonb(refused),))


def test_a_long_log_is_gone_through_in_steps(client, queue, database) -> None:
    """Rows of one message each, over partitions; the steps are those of one request each."""
    for n in range(40):
        client.push(queue, *[{"n": n, "i": i} for i in range(3)], partition=f"p{n % 4}")
    place, steps = "outbox.0", 0
    found = []
    while place:
        answer = client.post(f"/api/v1/queues/{queue}/erase", {"path": "/i", "value": 1, "after": place}).json
        found.append(answer["erased"])
        place, steps = answer["next"], steps + 1
    assert sum(found) == 40
    left = [one for part in range(4) for _ in range(60) for one in data(client.pop(queue, f"p{part}", batch=100,
                                                                                   autoAck=True))]
    assert sorted((one["n"], one["i"]) for one in left) == [(n, i) for n in range(40) for i in (0, 2)]


@pytest.mark.parametrize("big", [False, True], ids=["plain", "compressed"])
def test_beside_pops_acknowledgments_and_retention(daemon, queue, database, big) -> None:
    """Groups take, fail and finish messages while persons are erased: no payload is empty, and each message that
    stays comes to each group."""
    seed = seed_of_run()
    dice = random.Random(seed)
    total, names = 600, [f"eve-{uuid.uuid4()}" for _ in range(20)]
    client = Client(daemon.address)
    client.configure(queue, retentionSeconds=3600, completedRetentionSeconds=1, retentionEnabled=True, retryLimit=0)
    gone = {i: dice.choice(names) for i in dice.sample(range(total), 100)}
    for start in range(0, total, 20):
        client.push_items([{"queue": queue, "partition": f"p{(start // 20) % 3}", "transactionId": f"m{i}",
                            "payload": {"i": i, "who": gone.get(i, "another"), "pad": PAD * big}}
                           for i in range(start, start + 20)])
    seen: dict[str, set[int]] = {"a": set(), "b": set(), "c": set()}
    wrong: list = []
    erased = threading.Event()

    def consume(group: str) -> None:
        own, chance = Client(daemon.address), random.Random(f"{seed}{group}")
        idle = 0
        while idle < 3:
            taken = own.pop(queue, batch=7, consumerGroup=group)
            idle = 0 if taken or not erased.is_set() else idle + 1
            for one in taken:
                if not isinstance(one["data"], dict):
                    wrong.append(one)
                own.ack(one, "dlq" if chance.random() < 0.2 else "completed", group)
                seen[group].add(one["data"]["i"])

    threads = [threading.Thread(target=consume, args=(group,)) for group in seen]
    for one in threads:
        one.start()
    for name in names:
        assert erase(client, queue, path="/who", value=name)["unreadable"] == 0
    erased.set()
    for one in threads:
        one.join()
    assert not wrong, f"seed {seed}"
    for group, numbers in seen.items():
        assert numbers >= set(range(total)) - gone.keys(), f"seed {seed}, {group}"
    # what retention removed from the log stays in a copy until a daemon has looked, a second at most
    until(lambda: not [name for name in names if places_of(database, name)], f"nothing is left, seed {seed}")
