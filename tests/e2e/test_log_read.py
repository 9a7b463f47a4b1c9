"""The log read by offset over HTTP: what is answered, what is refused, and that a replay beside producers misses
nothing."""
from __future__ import annotations

import io
import json
import threading
import uuid
from datetime import UTC, datetime

import psycopg
import pyarrow as pa
import pytest
from support.client import Client
from support.crowd import Crowd
from support.daemon import Daemon
from support.frames import KIND, form_b, framed_group
from support.wait import until

FETCH, CHANGED, OFFSETS, AT = "/api/v1/fetch", "/api/v1/partitions/changed", "/api/v1/offsets", "/api/v1/fetch/offsets"
LINES, ARROW = "application/x-ndjson", "application/vnd.apache.arrow.stream"


def ask(client: Client, target: str, *entries: dict, **more: object) -> list[dict]:
    answer = client.post(target, {"entries": list(entries), **more})
    assert answer.status == 200, (answer.status, answer.body)
    assert len(answer.json["entries"]) == len(entries)
    return answer.json["entries"]


def fetch(client: Client, queue: str, *entries: tuple[str, int], **more: object) -> list[dict]:
    return ask(client, FETCH,
               *({"queue": queue, "partition": partition, "offset": offset} for partition, offset in entries), **more)


def payloads(entry: dict) -> list:
    return [record["payload"] for record in entry["records"]]


def changed(client: Client, queue: str, since: str | None = None, limit: int = 1000) -> tuple[list[dict], str]:
    """All pages: partitions, and the smallest safeTime."""
    found, safe, after = [], None, None
    while True:
        answer = client.post(CHANGED, {"entries": [{"queue": queue, "limit": limit, **(
            {"since": since} if since else {}), **({"after": after} if after else {})}]})
        assert answer.status == 200 and len(answer.json["safeTime"]) == 27, answer.body
        (entry,) = answer.json["entries"]
        assert "error" not in entry and len(entry["partitions"]) <= limit
        found += entry["partitions"]
        safe = min(safe or answer.json["safeTime"], answer.json["safeTime"])
        after = entry["next"]
        if not after:
            return found, safe


def test_records_and_marks(client: Client, queue: str) -> None:
    first = client.push(queue, {"n": 1}, None, partition="a", transactionId="tx-ü")[:1]
    client.push(queue, "x", partition="a")
    client.push(queue, 5, partition="7")
    made, middle, number, never = ask(
        client, FETCH, {"queue": queue, "partition": "a", "offset": 0}, {"queue": queue, "partition": "a", "offset": 1},
        {"queue": queue, "partition": 7, "offset": 0}, {"queue": queue, "offset": 0})
    assert [(r["offset"], r["payload"]) for r in made["records"]] == [(0, {"n": 1}), (1, "x")]
    assert made["records"][0]["transactionId"] == "tx-ü" and first[0]["status"] == "queued"
    assert {key: made[key] for key in ("queue", "partition", "highWatermark", "logStartOffset")} == {
        "queue": queue, "partition": "a", "highWatermark": 2, "logStartOffset": 0}
    assert payloads(middle) == ["x"] and (number["partition"], payloads(number)) == ("7", [5])
    assert never == {"queue": queue, "partition": "Default", "records": [], "highWatermark": 0, "logStartOffset": 0}
    stored = datetime.fromisoformat(made["records"][0]["ts"])
    assert len(made["records"][0]["ts"]) == 27 and abs((datetime.now(UTC) - stored).total_seconds()) < 60
    (popped,) = client.pop(queue, "a", batch=1)[:1]
    assert popped["createdAt"] == made["records"][0]["ts"], "nothing was claimed, and both tell the same moment"


def test_out_of_range_and_unknown(client: Client, queue: str) -> None:
    client.push(queue, 1, 2, partition="a")
    at_end, beyond = fetch(client, queue, ("a", 2), ("a", 3))
    assert at_end["records"] == [] and "error" not in at_end and at_end["highWatermark"] == 2
    assert (beyond["error"], beyond["highWatermark"], beyond["logStartOffset"],
            beyond["records"]) == ("OFFSET_OUT_OF_RANGE", 2, 0, [])
    (nowhere,) = fetch(client, queue + "-none", ("a", 0))
    assert nowhere["error"] == "UNKNOWN_TOPIC_OR_PARTITION" and nowhere["records"] == []


def test_retention_and_deletion(client: Client, queue: str, daemon: Daemon) -> None:
    client.push(queue, *range(5), partition="a")
    client.push(queue, *range(5, 9), partition="a")
    with psycopg.connect(daemon.conninfo, autocommit=True) as db:
        (part,) = db.execute("SELECT p.id FROM queend.partitions p JOIN queend.queues q ON q.id = p.queue_id"
                             " WHERE q.name = %s", (queue,)).fetchone()
        db.execute("INSERT INTO queend.floors VALUES (%s, 5)", (part,))
        db.execute("DELETE FROM queend.log WHERE partition_id = %s AND base < 5", (part,))
    below, kept = fetch(client, queue, ("a", 4), ("a", 5))
    assert (below["error"], below["logStartOffset"], below["highWatermark"]) == ("OFFSET_OUT_OF_RANGE", 5, 9)
    assert payloads(kept) == [5, 6, 7, 8]
    ((one,), _) = changed(client, queue)
    assert (one["logStart"], one["lastOffset"]) == (5, 8)
    client.delete(queue)
    assert fetch(client, queue, ("a", 5))[0]["error"] == "UNKNOWN_TOPIC_OR_PARTITION"
    assert ask(client, CHANGED,
               {"queue": queue}) == [{"partitions": [], "next": None, "error": "UNKNOWN_TOPIC_OR_PARTITION"}]
    assert client.post(OFFSETS, {"queue": queue}).status == 404
    client.push(queue, "again", partition="a")
    again, old = fetch(client, queue, ("a", 0), ("a", 9))
    assert payloads(again) == ["again"] and (old["error"], old["highWatermark"]) == ("OFFSET_OUT_OF_RANGE", 1)


def test_budgets(client: Client, queue: str) -> None:
    for partition in "abc":
        client.push(queue, *["x" * 998] * 5, partition=partition)
    entry = {"queue": queue, "offset": 0}
    a, b, c = ask(client, FETCH, {**entry, "partition": "a", "maxBytes": 1},
                  {**entry, "partition": "b", "maxBytes": 2999}, {**entry, "partition": "c", "maxBytes": 1 << 60})
    assert [len(one["records"]) for one in (a, b, c)] == [1, 2, 5]
    a, b, c = fetch(client, queue, ("a", 5), ("b", 0), ("c", 0), maxBytes=1)
    assert [len(one["records"]) for one in (a, b, c)] == [0, 1, 0] and not any("error" in one for one in (a, b, c))
    read, at, calls = [], 0, 0
    while at < 5:
        (one,) = ask(client, FETCH, {**entry, "partition": "a", "offset": at, "maxBytes": 2000})
        read += payloads(one)
        at = one["records"][-1]["offset"] + 1
        calls += 1
    assert len(read) == 5 and calls == 3


def test_one_large_answer(client: Client, queue: str) -> None:
    """More than any budget: calls go on from where the last one ended until all is read, in every format."""
    for start in range(0, 4000, 1000):
        client.push_items([{"queue": queue, "payload": {"n": n, "text": "y" * 5000}}
                           for n in range(start, start + 1000)])
    read, at = [], 0
    while at < 4000:
        body = {"entries": [{"queue": queue, "offset": at, "maxBytes": 8 << 20}], "maxBytes": 8 << 20}
        answer = client.request("POST", FETCH, body, {"Accept": LINES})
        *lines, told = answer.body.decode().removesuffix("\n").split("\n")
        assert len(answer.body) < 9 << 20
        (mark,) = json.loads(told)["entries"]
        rows = pa.ipc.open_stream(io.BytesIO(client.request("POST", FETCH, body, {"Accept": ARROW}).body)).read_all()
        assert rows["offset"].to_pylist() == [json.loads(line)["offset"] for line in lines] == list(
            range(at, mark["nextOffset"]))
        assert [json.loads(p) for p in rows["payload"].to_pylist()] == [json.loads(line)["payload"] for line in lines]
        read += [json.loads(line)["payload"]["n"] for line in lines]
        assert mark["nextOffset"] > at
        at = mark["nextOffset"]
    assert read == list(range(4000))


def test_rows_as_a_client_framed_them_and_rows_compressed_here(client: Client, queue: str, daemon: Daemon) -> None:
    values = [{"n": n, "text": "ü" * 50} for n in range(300)]
    texts = [str(uuid.uuid4()) for _ in values]
    group, _, _ = framed_group(queue, "p", values, texts)
    assert client.request("POST", "/api/v1/push", form_b(group), KIND).status == 201
    client.push(queue, *values, partition="p")
    client.push_items([{"queue": queue, "partition": "p", "payload": "z" * 5000}])
    with psycopg.connect(daemon.conninfo) as db:
        codecs = db.execute("SELECT array_agg(get_byte(l.body, 0) ORDER BY l.base) FROM queend.log l"
                            " JOIN queend.partitions p ON p.id = l.partition_id"
                            " JOIN queend.queues q ON q.id = p.queue_id WHERE q.name = %s", (queue,)).fetchone()[0]
    assert codecs[0] == 0x12 and codecs[-1] == 0x11
    body = {"entries": [{"queue": queue, "partition": "p", "offset": 10, "maxBytes": 8 << 20}]}
    (entry,) = client.post(FETCH, body).json["entries"]
    expected = [*values[10:], *values, "z" * 5000]
    assert payloads(entry) == expected and [r["transactionId"] for r in entry["records"][:290]] == texts[10:]
    lines = client.request("POST", FETCH, body, {"Accept": LINES}).body.decode().splitlines()[:-1]
    assert [json.loads(line)["payload"] for line in lines] == expected
    rows = pa.ipc.open_stream(io.BytesIO(client.request("POST", FETCH, body, {"Accept": ARROW}).body)).read_all()
    assert [json.loads(p) for p in rows["payload"].to_pylist()] == expected


@pytest.mark.parametrize("accept, kind", [
    (None, "application/json"), ("*/*", "application/json"),
    ("application/json, " + LINES, "application/json"), (LINES, LINES),
    ("text/html, Application/X-NDJSON;q=0.9", LINES), (ARROW, ARROW), ("text/html", "application/json")])
def test_the_format_asked_for(client: Client, queue: str, accept: str | None, kind: str) -> None:
    answer = client.request("POST", FETCH, {"entries": [{"queue": queue, "offset": 0}]},
                            {"Accept": accept} if accept else None)
    assert (answer.status, answer.headers["content-type"]) == (200, kind)
    if kind == ARROW:
        marks = json.loads(pa.ipc.open_stream(io.BytesIO(answer.body)).schema.metadata[b"queend.entries"])
    else:
        marks = json.loads(answer.body)
    assert marks["entries"][0]["error"] == "UNKNOWN_TOPIC_OR_PARTITION"


ENTRY = {"queue": "q", "partition": "p", "offset": 0}


@pytest.mark.parametrize("target, body, names", [
    *((target, body, "entries") for target in (FETCH, CHANGED, AT)
      for body in ([], 5, None, {}, {"entries": None}, {"entries": {}}, {"entries": []}, {"entries": [ENTRY] * 1025},
                   {"entries": [5]}, {"entries": [ENTRY, None]})),
    *((FETCH, {"entries": [{**ENTRY, **change}]}, f"entries[0].{next(iter(change))}") for change in (
        {"queue": None}, {"queue": 5}, {"queue": ""}, {"queue": "x" * 256}, {"queue": "a\0b"}, {"partition": 1.5},
        {"partition": True}, {"partition": []},
        {"partition": "x" * 256}, {"partition": "a\0b"}, {"offset": None}, {"offset": -1}, {"offset": "0"},
        {"offset": 0.5}, {"offset": True},
        {"offset": 2**63}, {"offset": 2**70}, {"maxBytes": "1"}, {"maxBytes": 1.5}, {"maxBytes": False},
        {"maxBytes": -2**64})),
    *((FETCH, {"entries": [ENTRY], **change}, next(iter(change))) for change in (
        {"maxBytes": "x"}, {"maxBytes": 2**64}, {"maxWaitMs": "5"}, {"maxWaitMs": 1.5}, {"minBytes": []})),
    *((CHANGED, {"entries": [{"queue": "q", **change}]}, f"entries[0].{next(iter(change))}") for change in (
        {"queue": 1}, {"since": "yesterday"}, {"since": True}, {"since": -1}, {"since": 2**50},
        {"since": "2026-13-01"}, {"since": 1.5}, {"after": 5}, {"limit": "5"})),
    *((AT, {"entries": [{"queue": "q", **change}]}, "entries[0].timestamp")
      for change in ({}, {"timestamp": None}, {"timestamp": "x"}, {"timestamp": {}})),
    (OFFSETS, {}, "queue"), (OFFSETS, {"queue": "q", "after": "rubbish"}, "after"),
    (OFFSETS, {"queue": "q", "at": "x"}, "at"), (OFFSETS, {"queue": "q", "limit": "all"}, "limit"),
    (OFFSETS, {"queue": "q", "limit": 10_001}, "limit"), (OFFSETS, {"queue": "q", "limit": 0}, "limit"),
    (FETCH, {"entries": [{"queue": "q", "offset": 0}], "maxWaitMs": 30_001}, "maxWaitMs")])
def test_what_is_refused(client: Client, target: str, body: object, names: str) -> None:
    answer = client.post(target, json.dumps(body).encode())
    assert answer.status == 400 and answer.json["error"].startswith(names), answer.body


def test_a_bad_cursor_is_told_to_its_entry_alone(client: Client, queue: str) -> None:
    client.push(queue, 1)
    bad, good, none = ask(client, CHANGED, {"queue": queue, "after": "rubbish"}, {"queue": queue},
                          {"queue": queue, "after": ""})
    assert bad["error"] == "BAD_CURSOR" and bad["partitions"] == []
    assert len(good["partitions"]) == len(none["partitions"]) == 1
    assert ask(client, CHANGED, {"queue": queue, "after": "rubbish"})[0]["error"] == "BAD_CURSOR"


def test_limits_are_clamped(client: Client, queue: str) -> None:
    client.push(queue, 1, 2)
    assert len(ask(client, CHANGED, {"queue": queue, "limit": 0})[0]["partitions"]) == 1
    assert len(ask(client, CHANGED, {"queue": queue, "limit": 10**9})[0]["partitions"]) == 1
    assert len(ask(client, FETCH, {"queue": queue, "offset": 0, "maxBytes": 0}, maxBytes=-5)[0]["records"]) == 1
    assert len(ask(client, FETCH, *[{"queue": queue, "offset": 0}] * 1024)) == 1024


def test_changed_partitions(client: Client, queue: str) -> None:
    for partition in "cab":
        client.push(queue, 1, 2, partition=partition)
    newest = max(p["lastWriteAt"] for p in changed(client, queue)[0])
    # the sweep of another test's queue holds a lane for a moment, and the time back
    found, safe = until(lambda: (now := changed(client, queue))[1] > newest and now, "nothing is in flight")
    assert [p["name"] for p in found] == ["c", "a", "b"] and {p["lastOffset"] for p in found} == {1}
    assert [p["name"] for p in changed(client, queue, limit=1)[0]] == ["c", "a", "b"]
    (message,) = client.pop(queue, "a", batch=1)[:1]
    assert message["partitionId"] == found[1]["id"]
    assert changed(client, queue, safe)[0] == []
    client.push(queue, 3, partition="b")
    ((again,), _) = changed(client, queue, safe)
    assert (again["name"], again["lastOffset"], again["logStart"]) == ("b", 2, 0)
    assert [p["name"] for p in changed(client, queue, again["lastWriteAt"])[0]] == ["b"], "since is inclusive"


def test_offsets(client: Client, queue: str) -> None:
    for partition in "ab":
        client.push(queue, 1, 2, partition=partition)
    (entry,) = fetch(client, queue, ("b", 0))
    moment = entry["records"][0]["ts"]
    page = client.post(OFFSETS, {"queue": queue, "limit": 1, "at": moment}).json
    assert page["queue"] == queue and [(p["name"], p["highWatermark"], p["logStartOffset"], p["offset"])
                                       for p in page["partitions"]] == [("a", 2, 0, 2)]
    last = client.post(OFFSETS, {"queue": queue, "after": page["next"], "at": moment}).json
    assert [(p["name"], p["offset"], p["lastWriteAt"]) for p in last["partitions"]] == [("b", 0, moment)]
    assert last["next"] is None
    assert "offset" not in client.post(OFFSETS, {"queue": queue}).json["partitions"][0]
    first, none, nowhere, millis = ask(client, AT, {"queue": queue, "partition": "b", "timestamp": "2020-01-01"},
                                       {"queue": queue, "partition": "b", "timestamp": "2100-01-01T00:00:00Z"},
                                       {"queue": queue + "-none", "timestamp": 0},
                                       {"queue": queue, "partition": "b", "timestamp": 0})
    assert first == millis == {"queue": queue, "partition": "b", "offset": 0, "ts": moment, "highWatermark": 2,
                               "logStartOffset": 0}
    assert (none["offset"], none["ts"], none["highWatermark"]) == (None, None, 2)
    assert nowhere["error"] == "UNKNOWN_TOPIC_OR_PARTITION" and nowhere["offset"] is None


# ---- waiting -------------------------------------------------------------------------------------------------------

def waiting(daemon: Daemon) -> bool:
    """Does a read wait in the control plane? What it looks at the database with is seen there."""
    with psycopg.connect(daemon.conninfo) as db:
        return db.execute("SELECT count(*) FROM pg_stat_activity WHERE query LIKE '%%queend.heads(%%'"
                          " AND pid <> pg_backend_pid()").fetchone()[0] > 0


def begin(daemon: Daemon, **body: object) -> Client:
    client = daemon.client()
    client.send("POST", FETCH, json.dumps({"maxWaitMs": 30_000, **body}).encode())
    return client


def test_a_read_waits_for_a_record(start_daemon, queue: str) -> None:
    daemon = start_daemon()
    with daemon.client() as other:
        other.push(queue, "first", partition="a")
        entries = [{"queue": queue, "partition": "a", "offset": 1}, {"queue": queue, "partition": "new", "offset": 0}]
        reads = [begin(daemon, entries=entries) for _ in range(50)]
        until(lambda: waiting(daemon), "the reads wait")
        other.push(queue, "second", partition="new")
        for one in reads:
            a, new = one.receive().json["entries"]
            assert a["records"] == [] and payloads(new) == ["second"]
            one.close()


def test_a_read_waits_for_enough_bytes(start_daemon, queue: str) -> None:
    daemon = start_daemon()
    with daemon.client() as other:
        other.push(queue, "x" * 98)
        one = begin(daemon, entries=[{"queue": queue, "offset": 0}], minBytes=250)
        until(lambda: waiting(daemon), "the read waits")
        other.push(queue, "x" * 98)
        other.push(queue, "x" * 98)
        assert len(one.receive().json["entries"][0]["records"]) == 3
        one.close()
        # what a budget cuts off, an error, and nothing to wait for are answered at once
        for more in ({"maxBytes": 250, "minBytes": 1000}, {"minBytes": 0},
                     {"entries": [{"queue": "none", "offset": 0}]}, {"entries": [{"queue": queue, "offset": 9}]}):
            with begin(daemon, **{"entries": [{"queue": queue, "offset": 0}], **more}) as quick:
                assert quick.receive().status == 200


def test_a_deleted_queue_ends_the_wait(start_daemon, queue: str) -> None:
    daemon = start_daemon()
    with daemon.client() as other:
        other.push(queue, 1)
        one = begin(daemon, entries=[{"queue": queue, "offset": 1}])
        until(lambda: waiting(daemon), "the read waits")
        other.delete(queue)
        assert one.receive().json["entries"][0]["error"] == "UNKNOWN_TOPIC_OR_PARTITION"
        one.close()


def test_the_wait_ends_by_itself_and_with_the_daemon(start_daemon, queue: str) -> None:
    daemon = start_daemon()
    with daemon.client() as other:
        other.push(queue, 1)
        (entry,) = fetch(other, queue, ("Default", 1), maxWaitMs=50)
        assert entry["records"] == [] and entry["highWatermark"] == 1
    one = begin(daemon, entries=[{"queue": queue, "offset": 1}])
    until(lambda: waiting(daemon), "the read waits")
    daemon.terminate()
    assert one.receive().json["entries"][0]["highWatermark"] == 1
    daemon.ended()
    one.close()


# ---- a replay beside producers -------------------------------------------------------------------------------------

PRODUCERS, CALLS, ITEMS, PARTITIONS = 4, 120, 5, 12
MEET = 30      # after so many calls a producer waits until the reader has gone round once more


def test_a_replay_beside_producers_misses_nothing(daemon: Daemon, queue: str) -> None:
    """A reader that knows nothing but the last safeTime and its own offsets has, at the end, every record, each once,
    in order."""
    pushed: dict[str, set] = {f"p{i}": set() for i in range(PARTITIONS)}
    lock, left = threading.Lock(), threading.Semaphore(0)

    def produce(number: int) -> None:
        with daemon.client() as client:
            for call in range(CALLS):
                partition = f"p{(number * 7 + call * 5) % PARTITIONS}"
                values = [f"{number}-{call}-{i}" for i in range(ITEMS)]
                client.push(queue, *values, partition=partition)
                with lock:
                    pushed[partition].update(values)
                if call % MEET == 0:
                    until(lambda wanted=call // MEET: rounds > wanted, "the reader goes round")
        left.release()

    read: dict[str, list] = {}
    rounds = 0
    with Crowd() as crowd, daemon.client() as client:
        client.configure(queue)
        crowd.all(produce, range(PRODUCERS))
        since, done = None, 0
        while True:
            while left.acquire(blocking=False):
                done += 1
            last = done == PRODUCERS
            found, since = changed(client, queue, since, limit=5)
            for one in found:
                records = read.setdefault(one["name"], [])
                while len(records) <= one["lastOffset"]:
                    (entry,) = fetch(client, queue, (one["name"], len(records)))
                    assert [r["offset"] for r in entry["records"]] == list(
                        range(len(records), len(records) + len(entry["records"])))
                    records += payloads(entry)
            rounds += 1
            if last:
                break
    assert read.pop("Default") == [], "the partition that configure makes"
    assert {name: len(records)
            for name, records in read.items()} == {name: len(values) for name, values in pushed.items()}
    assert {name: set(records) for name, records in read.items()} == pushed


def rows(client: Client, target: str, body: dict) -> pa.Table:
    answer = client.request("POST", target, json.dumps(body).encode(), {"Accept": ARROW})
    assert answer.status == 200, answer.body
    return pa.ipc.open_stream(answer.body).read_all()


def test_columns_and_an_end(client: Client, queue: str) -> None:
    parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    stored = client.push(queue, 1, 2, traceparent=parent) + client.push(queue, *range(10))
    table = rows(client, FETCH,
                 {"entries": [{"queue": queue, "offset": 1, "end": 4}], "columns": ["id", "offset", "headers"]})
    assert table.column_names == ["offset", "id", "headers"]
    assert table.column("offset").to_pylist() == [1, 2, 3]
    assert table.column("id").to_pylist() == [one["message_id"] for one in stored[1:4]]
    assert [text and json.loads(text) for text in table.column("headers").to_pylist()] == [
        {"traceparent": parent}, "", ""]
    (entry,) = json.loads(table.schema.metadata[b"queend.entries"])["entries"]
    assert (entry["nextOffset"], entry["highWatermark"]) == (4, 12)
    assert payloads(ask(client, FETCH, {"queue": queue, "offset": 1, "end": 2})[0]) == [2]
    assert payloads(ask(client, FETCH, {"queue": queue, "offset": 3, "end": 2})[0]) == []
    for wrong in ([], ["payload", "x"], "payload", [1]):
        assert client.post(FETCH, {"entries": [{"queue": queue, "offset": 0}], "columns": wrong}).status == 400


def test_marks_as_rows(client: Client, queue: str) -> None:
    for n in range(5):
        client.push(queue, *range(n), partition=f"p{n}") if n else client.push(queue, 0, partition="pü")
    answer = client.post(OFFSETS, {"queue": queue, "at": "2020-01-01T00:00:00Z"}).json["partitions"]
    table = rows(client, OFFSETS, {"queue": queue, "at": "2020-01-01T00:00:00Z"})
    assert table.select(["name", "highWatermark", "logStartOffset", "offset"]).to_pylist() == [
        {key: one[key] for key in ("name", "highWatermark", "logStartOffset", "offset")} for one in answer]
    numbers = table.column("number").to_pylist()
    assert numbers == sorted(set(numbers))
    pages = [rows(client, OFFSETS, {"queue": queue, "limit": 2, "behind": behind}).column("name").to_pylist()
             for behind in (0, numbers[1], numbers[3], numbers[4])]
    assert pages == [["pü", "p1"], ["p2", "p3"], ["p4"], []]
    assert "offset" not in rows(client, OFFSETS, {"queue": queue}).column_names
    assert client.request("POST", OFFSETS, json.dumps({"queue": "nobody's"}).encode(), {"Accept": ARROW}).status == 404
    (found,) = ask(client, CHANGED, {"queue": queue, "numbers": True})
    assert [one["number"] for one in found["partitions"]] == numbers


def test_numbers_tell_what_was_made_again(client: Client, queue: str) -> None:
    seen = []
    for turn in range(2):
        client.push(queue, turn, partition="a")
        (found,) = ask(client, CHANGED, {"queue": queue, "numbers": True})
        (partition,) = found["partitions"]
        seen.append((found["queueNumber"], partition["number"]))
        (entry,) = ask(client, FETCH, {"queue": queue, "partition": "a", "number": partition["number"], "offset": 0})
        assert payloads(entry) == [turn]
        (found,) = ask(client, CHANGED, {"queue": queue})
        assert "queueNumber" not in found and "number" not in found["partitions"][0]
        if not turn:
            client.delete(queue)
            (gone,) = ask(client, CHANGED, {"queue": queue, "numbers": True})
            assert gone == {"partitions": [], "next": None, "error": "UNKNOWN_TOPIC_OR_PARTITION"}
    assert seen[0][0] != seen[1][0] and seen[0][1] != seen[1][1]
    of_old, of_any = ask(client, FETCH, *({"queue": queue, "partition": "a", "offset": 0, "number": number}
                                          for number in (seen[0][1], 0)))
    assert (of_old["error"], of_old["records"], of_old["highWatermark"]) == ("UNKNOWN_TOPIC_OR_PARTITION", [], None)
    assert payloads(of_any) == [1]


def commit(client: Client, group: str, queue: str, **offsets: int) -> list[int | None]:
    answer = client.post(f"/api/v1/consumer-groups/{group}/offsets", {"entries": [
        {"queue": queue, "partition": name, "offset": offset} for name, offset in offsets.items()]})
    assert answer.status == 200, answer.body
    return [one["offset"] for one in answer.json["entries"]]


def test_progress_that_is_kept_elsewhere(client: Client, queue: str) -> None:
    client.push(queue, *range(10), partition="a")
    client.push(queue, *range(10), partition="b")
    assert commit(client, "reader", queue, a=4, b=99, c=1) == [4, 10, None]
    assert commit(client, "reader", queue, a=3) == [4]      # never back
    assert [one["data"] for one in client.pop(queue, "a", batch=99, consumerGroup="reader")] == [4, 5, 6, 7, 8, 9]
    assert commit(client, "reader", queue, a=8) == [8]      # and what was claimed is void
    assert [one["data"] for one in client.pop(queue, "a", batch=99, consumerGroup="reader")] == [8, 9]
    assert commit(client, "reader", "nobody's", a=1) == [None]
    assert client.post("/api/v1/consumer-groups/reader/offsets",
                       {"entries": [{"queue": queue, "offset": -1}]}).status == 400
