"""Pushes as Arrow streams: read as pyarrow reads them, whatever the chunks; every other stream refused, none a
crash."""
import json
import random
import struct
import time
import uuid

import pyarrow as pa
import pytest
from hypothesis import given, settings, strategies as st

from queend._core import ProbeRefused, probe_push, probe_push_runs

ARROW = b"application/vnd.apache.arrow.stream"
ID = "0192f0c0-1111-7aaa-8bbb-000000000001"
TEXTS = [pa.utf8(), pa.large_utf8(), pa.binary(), pa.large_binary()]
PLACES = [pa.int8(), pa.uint8(), pa.int16(), pa.uint16(), pa.int32(), pa.uint32(), pa.int64(), pa.uint64()]


def stream(*batches, schema=None, **options) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, schema or batches[0].schema, options=pa.ipc.IpcWriteOptions(**options)) as writer:
        for batch in batches:
            writer.write(batch)
    return sink.getvalue().to_pybytes()


def table(**columns) -> pa.Table:
    return pa.table({name: column if isinstance(column, (pa.Array, pa.ChunkedArray)) else pa.array(column, pa.utf8())
                     for name, column in columns.items()})


def push(data, query: bytes = b"", **options):
    return probe_push(data if isinstance(data, bytes) else stream(data), kind=ARROW, query=query, **options)


def refused(data, query: bytes = b"", **options) -> str:
    with pytest.raises(ProbeRefused) as caught:
        push(data, query, **options)
    assert caught.value.status == 400
    return caught.value.text


def brief(items):
    return [(item["queue"], item["partition"], item["txid"], item["payload"]) for item in items]


def text(value):
    return value.decode() if isinstance(value, bytes) else value


def expected(data: pa.Table, queue=None, part="Default"):
    """What pyarrow reads, with the rules for what is missing."""
    return [(text(row.get("queue")) or queue, part if row.get("partition") is None else text(row["partition"]),
             text(row.get("transactionId")) or None,
             b"null" if row["payload"] is None else text(row["payload"]).strip(" \t\r\n").encode())
            for row in data.to_pylist()]


def test_rows_are_items():
    data = table(queue=["q", "q", "r"], partition=["a", "b", "b"], transactionId=["t", ID, None],
                 payload=['{"n": 1}', " [2] ", '"é"'])
    items = push(data)
    assert brief(items) == [("q", "a", "t", b'{"n": 1}'), ("q", "b", ID, b"[2]"), ("r", "b", None, '"é"'.encode())]
    assert [(item["kind"], item["keep_text"], item["trace"])
            for item in items] == [(2, True, None), (1, False, None), (0, False, None)]
    assert uuid.UUID(bytes=items[2]["id"]).version == 7
    assert json.loads(items[2]["txid_json"]) == str(uuid.UUID(bytes=items[2]["id"]))


def test_what_is_missing_comes_from_the_query():
    data = table(queue=[None, "own"], partition=["mine", None], transactionId=["", None], payload=[None, "1"])
    assert brief(push(data, b"queue=q&partition=p")) == [("q", "mine", None, b"null"), ("own", "p", None, b"1")]
    assert brief(push(table(payload=["1"]), b"queue=q")) == [("q", "Default", None, b"1")]
    nulls = pa.table({"queue": pa.nulls(2), "partition": pa.nulls(2), "transactionId": pa.nulls(2),
                      "payload": pa.nulls(2)})
    assert brief(push(nulls, b"queue=q&partition=p")) == [("q", "p", None, b"null")] * 2
    assert refused(data) == "Queue must be a string (row 0, field queue)"
    assert push(table(queue=[], payload=[])) == []
    assert push(stream(schema=pa.schema([("payload", pa.utf8())]))) == []


@pytest.mark.parametrize("kind", TEXTS, ids=str)
@pytest.mark.parametrize("place", [None, *PLACES], ids=str)
def test_types(kind, place):
    words = [b"one", b"two", None, b"one", "zwölf".encode()] * 7
    column = pa.array([word if word is None or pa.types.is_binary(kind) or pa.types.is_large_binary(kind)
                       else word.decode() for word in words], kind)
    if place is not None:
        column = pa.DictionaryArray.from_arrays(column.dictionary_encode().indices.cast(place),
                                                column.dictionary_encode().dictionary)
    payload = pa.array([str(i) for i in range(35)]).cast(kind)
    if place is not None:
        payload = pa.DictionaryArray.from_arrays(pa.array(range(35)).cast(place), payload)
    data = pa.table({"payload": payload, "partition": column, "transactionId": column, "queue": column})
    assert brief(push(data, b"queue=q&partition=p")) == expected(data, "q", "p")
    assert brief(push(data.slice(3, 9), b"queue=q&partition=p")) == expected(data.slice(3, 9), "q", "p")


def random_column(rng: random.Random, n: int, words: list[str], missing: float) -> pa.Array:
    values = [None if rng.random() < missing else rng.choice(words) for _ in range(n)]
    kind = rng.choice(TEXTS)
    if rng.random() < 0.5:
        dictionary = pa.array(words if rng.random() < 0.5
                              else [*words, *(f"unused{i}" for i in range(rng.randrange(100)))])
        places = pa.array([None if value is None else words.index(value) for value in values],
                          rng.choice(PLACES[:2] if len(dictionary) < 128 else PLACES[2:]))
        return pa.DictionaryArray.from_arrays(places, dictionary.cast(kind))
    return pa.array(values).cast(kind) if any(value is not None for value in values) else pa.array(values, kind)


@pytest.mark.parametrize("seed", range(120))
def test_random_tables_as_pyarrow_reads_them(seed):
    rng = random.Random(seed)
    n = rng.choice([0, 1, 7, 8, 9, 63, 64, 65, 500])
    columns = {"queue": ["q", "größer", "x" * 255], "partition": ["", "a", "b", "日本"],
               "transactionId": ["", "t", ID, "ü" * 255],
               "payload": ["1", ' {"a": [1, "ü"]}\n', "null", '"' + "x" * 300 + '"']}
    names = [name for name in columns if name == "payload" or rng.random() < 0.8]
    rng.shuffle(names)
    data = pa.table({name: random_column(rng, n, columns[name], rng.choice([0, 0, 0.3, 1])) for name in names})
    begin = rng.randrange(n + 1)
    data = data.slice(begin, rng.randrange(n - begin + 1)) if rng.random() < 0.7 else data
    batches = data.to_batches(max_chunksize=rng.choice([1, 3, 8, 64, 1000]))
    body = stream(*batches, schema=data.schema, compression=rng.choice([None, None, "zstd"]),
                  metadata_version=rng.choice([pa.ipc.MetadataVersion.V4, pa.ipc.MetadataVersion.V5]))
    if rng.random() < 0.3:
        body = body[:-8]          # the mark of the end may be left out
    assert brief(push(body, b"queue=dflt&partition=prt")) == expected(data, "dflt", "prt")


@pytest.mark.parametrize("deltas", [True, False])
@pytest.mark.parametrize("unify", [True, False])
def test_dictionaries_that_grow_or_change(deltas, unify):
    words = ["a", "b", "c", "d", "e"]
    batches = []
    for k in range(1, 6):
        dictionary = pa.array(words[:k] if deltas else words[-k:])
        batches.append(pa.record_batch(
            {"queue": pa.DictionaryArray.from_arrays(pa.array([*range(k), None], pa.int8()), dictionary),
             "payload": pa.array([str(i) for i in range(k + 1)])}))
    body = stream(*batches, emit_dictionary_deltas=deltas, unify_dictionaries=unify and not deltas)
    read = pa.ipc.open_stream(body).read_all()
    assert brief(push(body, b"queue=x")) == expected(read, "x")


def test_a_delta_without_what_it_adds_to_is_all_there_is():
    body = stream(pa.record_batch({"queue": pa.DictionaryArray.from_arrays(pa.array([0], pa.int8()), pa.array(["a"])),
                                   "payload": pa.array(["1"])}),
                  pa.record_batch({"queue": pa.DictionaryArray.from_arrays(
                      pa.array([1], pa.int8()), pa.array(["a", "b"])), "payload": pa.array(["2"])}),
                  emit_dictionary_deltas=True)
    assert brief(push(body)) == [("a", "Default", None, b"1"), ("b", "Default", None, b"2")]


@pytest.mark.parametrize("columns, query, message", [
    (dict(queue=["q", ""], payload=["1", "1"]), b"",
     "Queue must be a non-empty text of at most 255 bytes (row 1, field queue)"),
    (dict(queue=["q", "x" * 256], payload=["1", "1"]), b"",
     "Queue must be a non-empty text of at most 255 bytes (row 1, field queue)"),
    (dict(queue=["q", "a\0"], payload=["1", "1"]), b"",
     "Queue must be a non-empty text of at most 255 bytes (row 1, field queue)"),
    (dict(queue=pa.array([b"q", b"\xff"]), payload=["1", "1"]), b"",
     "Queue must be a non-empty text of at most 255 bytes (row 1, field queue)"),
    (dict(queue=["q"], partition=["ü" * 128], payload=["1"]), b"",
     "Partition must be valid text of at most 255 bytes (row 0, field partition)"),
    (dict(queue=["q"], partition=["\0"], payload=["1"]), b"",
     "Partition must be valid text of at most 255 bytes (row 0, field partition)"),
    (dict(queue=["q"], transactionId=["ü" * 256], payload=["1"]), b"",
     "TransactionId must be valid text of at most 255 characters (row 0, field transactionId)"),
    (dict(queue=["q"], transactionId=pa.array([b"\xc3"]), payload=["1"]), b"",
     "TransactionId must be valid text of at most 255 characters (row 0, field transactionId)"),
    (dict(queue=["q"], transactionId=["a\0"], payload=["1"]), b"",
     "TransactionId must be valid text of at most 255 characters (row 0, field transactionId)"),
    (dict(payload=["1", "[1,"]), b"queue=q", "Invalid JSON: unexpected end at byte 3 (row 1, field payload)"),
    (dict(payload=["1", ""]), b"queue=q", "Invalid JSON: unexpected end at byte 0 (row 1, field payload)"),
    (dict(payload=["1 2"]), b"queue=q",
     "Invalid JSON: unexpected byte after the value at byte 2 (row 0, field payload)"),
    (dict(payload=pa.array([b'"\xff"'])), b"queue=q", "Invalid JSON: invalid UTF-8 at byte 1 (row 0, field payload)"),
    (dict(payload=["1"] * 4), b"queue=q", "The body has more than 3 items"),
    (dict(queue=["q"]), b"", "Invalid Arrow stream: there is no column payload"),
    (dict(queue=pa.array([1]), payload=["1"]), b"",
     "Invalid Arrow stream: column queue must be utf8, large_utf8, binary or large_binary"),
    (dict(queue=["q"], payload=pa.array([[1]])), b"",
     "Invalid Arrow stream: column payload must be utf8, large_utf8, binary or large_binary"),
    (dict(queue=pa.array([1]).dictionary_encode(), payload=["1"]), b"",
     "Invalid Arrow stream: column queue must be utf8, large_utf8, binary or large_binary"),
    (dict(payload=pa.array(["1"], pa.string_view())), b"queue=q",
     "Invalid Arrow stream: column payload must be utf8, large_utf8, binary or large_binary"),
    (dict(queue=["q"], payload=["1"], **{"traceId": ["x"], "größe": ["y"]}), b"",
     "Unknown columns (there are queue, partition, transactionId, payload, deliverAt, traceparent and headers):"
     " traceId, gr????e"),
    (dict(payload=["1"]), b"queue=q&payload=line", "payload must be item or line, and is for application/x-ndjson"),
])
def test_refusals(columns, query, message):
    assert refused(table(**columns), query, max_items=3) == message


def test_rows_are_counted_through_all_batches():
    batches = table(payload=["1"] * 5 + ["x"]).to_batches(max_chunksize=2)
    assert refused(stream(*batches), b"queue=q") == "Invalid JSON: unexpected byte at byte 0 (row 5, field payload)"
    assert refused(stream(*batches), b"queue=q", max_items=4) == "The body has more than 4 items"


def test_names_of_many_unknown_columns_fit():
    names = {f"column {i} " + "x" * 50: ["1"] for i in range(50)}
    message = refused(table(payload=["1"], **names), b"queue=q")
    assert message.startswith("Unknown columns") and "column 0" in message and len(message) < 240


def test_other_streams():
    data = table(payload=["1"])
    twice = pa.Table.from_arrays([data["payload"]] * 2, names=["payload", "payload"])
    assert refused(twice, b"queue=q") == "Invalid Arrow stream: column payload is there twice"
    assert refused(b"", b"queue=q") == "Empty request body"
    assert refused(b"{}" * 40, b"queue=q") == "Invalid Arrow stream: no message where one should begin"
    assert refused(b"\xff\xff\xff\xff\0\0\0\0", b"queue=q") == "Invalid Arrow stream: there is no schema"
    assert refused(stream(data) + b"\0", b"queue=q") == "Invalid Arrow stream: bytes after its end"
    assert refused(stream(data)[:-8] + stream(data), b"queue=q") == "Invalid Arrow stream: a second schema"
    assert refused(stream(data, use_legacy_format=True), b"queue=q").startswith("Invalid Arrow stream: ")
    assert refused(stream(table(payload=['"' + "x" * 500 + '"']), compression="lz4"),
                   b"queue=q") == "Invalid Arrow stream: buffers may be compressed with zstd, nothing else"
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, data.schema) as writer:
        writer.write(data)
    assert refused(sink.getvalue().to_pybytes(),
                   b"queue=q") == "Invalid Arrow stream: no message where one should begin"


def test_what_unpacks_to_too_much_is_refused():
    data = table(payload=['"' + "x" * 600_000 + '"'] * 2)
    assert refused(stream(data, compression="zstd"),
                   b"queue=q") == "Invalid Arrow stream: column payload unpacks to too much"
    assert len(push(stream(data), b"queue=q")) == 2


def samples() -> list[bytes]:
    words = pa.array(["one", "two", None, "one"])
    plain = pa.table({"queue": words.dictionary_encode(), "partition": words,
                      "transactionId": words.cast(pa.large_utf8()), "payload": pa.array(["1", "[2]", None, '"x"'])})
    return [stream(*plain.to_batches(max_chunksize=3)), stream(plain, compression="zstd"),
            stream(pa.table({"payload": pa.array([b"1", b"2"]), "queue": pa.nulls(2)}))]


@pytest.mark.parametrize("which", range(3))
def test_every_truncation_is_refused_or_a_shorter_stream(which):
    body = samples()[which]
    whole = brief(push(body, b"queue=q"))
    shorter = set()
    for n in range(len(body)):
        try:
            found = brief(push(body[:n], b"queue=q"))
        except ProbeRefused as refusal:
            assert refusal.status == 400 and refusal.text
        else:
            assert found == whole[:len(found)]
            shorter.add(n)
    assert len(shorter) <= 5      # ends between messages


@pytest.mark.parametrize("which", range(3))
def test_every_byte_changed_never_reads_outside(which):
    body = samples()[which]
    for at in range(len(body)):
        for value in (0, 1, 0x7f, 0x80, 0xff, body[at] ^ 1, body[at] ^ 4, body[at] ^ 0x40):
            changed = bytearray(body)
            changed[at] = value
            read_or_refused(bytes(changed))


@pytest.mark.parametrize("which", range(3))
def test_every_number_changed_never_reads_outside(which):
    body = samples()[which]
    for at in range(0, len(body) - 4, 4):
        old, = struct.unpack_from("<i", body, at)
        for value in (-1, -2**31, 2**31 - 1, old + 4, old - 4, old + 1, old * 2 & 0x7fffffff,
                      len(body), len(body) - at):
            changed = bytearray(body)
            struct.pack_into("<i", changed, at, max(min(value, 2**31 - 1), -2**31))
            read_or_refused(bytes(changed))
        if at + 8 <= len(body):
            for value in (-1, -2**63, 2**63 - 1, 2**62, 2**61 + 1):
                changed = bytearray(body)
                struct.pack_into("<q", changed, at, value)
                read_or_refused(bytes(changed))


def read_or_refused(body: bytes) -> None:
    try:
        items = push(body, b"queue=q")
    except ProbeRefused as refusal:
        assert refusal.status == 400 and refusal.text
    else:
        for item in items:
            assert item["queue"] and json.loads(item["payload"]) is not NotImplemented


@settings(max_examples=300)
@given(st.integers(0, 2), st.lists(st.tuples(st.integers(0, 2000), st.binary(min_size=1, max_size=8)), min_size=1,
                                   max_size=4), st.integers(0, 3000))
def test_damaged_streams(which, edits, cut):
    body = bytearray(samples()[which])
    for at, data in edits:
        at %= len(body)
        body[at:at + len(data)] = data[:len(body) - at]
    read_or_refused(bytes(body[:cut] if cut < 1000 else body))


def by_partition(items):
    parts = {}
    for item in items:
        parts.setdefault((item["queue"], item["partition"]),
                         []).append((item["txid_json"] if item["kind"] else None, item["payload"]))
    return parts


@pytest.mark.parametrize("seed", range(60))
def test_numbers_change_the_order_of_nothing_within_a_partition(seed):
    rng = random.Random(seed)
    n = rng.choice([1, 31, 32, 33, 100, 2500])
    words = rng.choice([["a", "b", "c"], ["a", "a", "b"], [f"p{i}" for i in range(64)], [f"p{i}" for i in range(65)],
                        ["a", None, "b"], ["x"]])
    places = sorted(rng.randrange(len(words)) for _ in range(n)) if rng.random() < 0.4 else [
        rng.randrange(len(words)) for _ in range(n)]
    if rng.random() < 0.2:
        places[0] = None
    ids = {"uuid": [f"0192f0c0-1111-7aaa-8bbb-{i:012x}" for i in range(n)], "same": [ID] * n,
           "text": [f"t{i}" for i in range(n)],
           "some": [ID.replace("1111", f"{i:04x}") if rng.random() < 0.9 else None for i in range(n)]}
    columns = {"partition": pa.DictionaryArray.from_arrays(pa.array(places, pa.int16()), pa.array(words)),
               "payload": pa.array([f'["{"x" * rng.choice([0, 0, 0, 200, 9000])}", {i}]' for i in range(n)])}
    kind = rng.choice([None, *ids])
    if kind:
        columns["transactionId"] = pa.array(ids[kind])
    if rng.random() < 0.2:
        columns["queue"] = pa.array([rng.choice("qr") for _ in range(n)])
    body = stream(*pa.table(columns).to_batches(max_chunksize=rng.choice([40, 10_000])))
    plain = probe_push(body, kind=ARROW, query=b"queue=q")
    counted = probe_push(body, kind=ARROW, query=b"queue=q&format=counts")
    assert [json.loads(item["payload"])[1] for item in plain] == list(range(n))
    assert by_partition(counted) == by_partition(plain)


def test_stretches_of_a_partition_are_runs():
    n = 300
    one = table(partition=["a"] * n, payload=["1"] * n)
    mixed = pa.table({"partition": pa.array(["ab"[i % 2] for i in range(n)]).dictionary_encode(),
                      "payload": pa.array(["1"] * n)})

    def runs(data, query):
        return [count for count, _ in probe_push_runs(stream(data), kind=ARROW, query=query)]

    assert runs(one, b"queue=q") == [n] and runs(mixed, b"queue=q") == [1] * n
    assert runs(mixed, b"queue=q&format=counts") == [n // 2] * 2


def test_a_bad_row_is_named_wherever_it_is_taken():
    data = pa.table({"partition": pa.array(["ab"[i % 2] for i in range(100)]).dictionary_encode(),
                     "payload": pa.array(["1"] * 57 + ["x"] + ["1"] * 42)})
    for query in (b"queue=q", b"queue=q&format=counts"):
        assert refused(data, query) == "Invalid JSON: unexpected byte at byte 0 (row 57, field payload)"
    assert refused(data) == "Queue must be a string (row 0, field queue)"


HOUR = 3_600_000_000


@pytest.mark.parametrize(("unit", "scale"), [("s", 1_000_000), ("ms", 1000), ("us", 1), ("ns", 0)])
def test_moments_of_delivery(unit, scale):
    now = time.time_ns() // 1000
    due = [(now + HOUR) // (scale or 1) * (scale or 1), None, now - HOUR, 5]
    column = pa.array([one if one is None else one // scale if scale else one * 1000 for one in due],
                      pa.timestamp(unit, "UTC"))
    items = push(pa.table({"queue": ["q"] * 4, "payload": ["1"] * 4, "deliverAt": column}))
    assert [item.get("due", 0) for item in items] == [due[0], 0, 0, 0]


def test_rows_with_a_trace_are_items_of_their_own():
    parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    data = pa.table({"payload": ["1"] * 100, "traceparent": [parent if n == 50 else None for n in range(100)]})
    items = push(data, b"queue=q")
    assert [n for n, item in enumerate(items) if item.get("headers")] == [50]
    assert json.loads(items[50]["headers"]) == {"traceparent": parent}


@pytest.mark.parametrize("columns, message", [
    (dict(deliverAt=pa.array([0, 1 << 62], pa.timestamp("us"))),
     "deliverAt must be a time with its zone (ISO 8601) or milliseconds since 1970, "
     "at most 366 days ahead (row 1, field deliverAt)"),
    (dict(deliverAt=pa.array([0, 1 << 62], pa.timestamp("s"))),
     "deliverAt must be a time with its zone (ISO 8601) or milliseconds since 1970, "
     "at most 366 days ahead (row 1, field deliverAt)"),
    (dict(deliverAt=[1, 2]), "Invalid Arrow stream: column deliverAt must be a timestamp"),
    (dict(deliverAt=["2030-01-01", None]), "Invalid Arrow stream: column deliverAt must be a timestamp"),
    (dict(traceparent=[None, "00-0-0-0"]), "traceparent must be one of W3C trace context (row 1, field traceparent)"),
], ids=["us", "s", "number", "text", "trace"])
def test_what_rows_may_not_have(columns, message):
    assert refused(pa.table({"payload": ["1", "1"], **columns}), b"queue=q") == message
