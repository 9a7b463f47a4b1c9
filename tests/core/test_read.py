"""Answers of a log read, made from rows as PostgreSQL sends them: three formats, the budgets, every codec, damage."""
import io
import json
import struct
import uuid

import pyarrow as pa
import pytest
from hypothesis import given, settings, strategies as st
from sql.records import body, framed, id7, id_text, inner, meta, packed
from support.frames import frames

from queend._core import read_answer, read_moment, read_moment_text, read_partition_id, read_partition_number

OIDS = {"q": 20, "i": 23, "b": 17}
T0 = 1_767_323_045_678_901          # 2026-01-02T03:04:05.678901Z
MOST = 1 << 23


def array(kind, values):
    """A one-dimensional array in PostgreSQL's binary format."""
    raw = [v if kind == "b" else struct.pack(">" + kind, v) for v in values]
    return struct.pack(">iiIii", 1, 0, OIDS[kind], len(raw), 1) + b"".join(struct.pack(">i", len(v)) + v for v in raw)


def columns(*rows):
    """rows: (base, n, created_at, ids, body, meta)."""
    return tuple(array(kind, values) for kind, values in zip("qiqbbb", zip(*rows)))


def row(base, payloads, texts=None, created=T0, encode=body):
    """One log row; texts: transaction ids that are no UUIDs, by place."""
    texts = texts or {}
    ids = [id_text(texts[i]) if i in texts else id7() for i in range(len(payloads))]
    return (base, len(payloads), created, b"".join(ids), encode(payloads),
            meta({i: (None, None, t) for i, t in texts.items()}) or b"")


def entry(rows=(), partition=b"p", error=None, head=100, floor=0, offset=0, most=MOST, queue=b"q"):
    return queue, partition, error, head, floor, offset, most, [columns(*rows)] if rows else []


def read(entries, form="json", most=MOST):
    answer, records, size, behind, unreadable = read_answer(form, entries, most)
    return bytes(answer), (records, size, behind, unreadable)


def parsed(entries, most=MOST):
    return json.loads(read(entries, most=most)[0])["entries"]


def offsets(entries, most=MOST):
    return [[r["offset"] for r in one["records"]] for one in parsed(entries, most)]


def table(answer):
    stream = pa.ipc.open_stream(io.BytesIO(answer))
    told = json.loads(stream.schema.metadata[b"queend.entries"])["entries"]
    rows = stream.read_all()
    rows.validate(full=True)
    return rows, told


SCHEMA = pa.schema([pa.field(name, kind, nullable=False) for name, kind in (
    ("queue", pa.dictionary(pa.int32(), pa.string())), ("partition", pa.dictionary(pa.int32(), pa.string())),
    ("offset", pa.int64()),
    ("ts", pa.timestamp("us", "UTC")), ("transactionId", pa.string()), ("payload", pa.string()))])


@pytest.mark.parametrize("column", range(1, 6))
def test_a_column_that_is_cut_off_makes_the_row_unreadable(column):
    cut = tuple(c[:20] if i == column else c for i, c in enumerate(columns(row(0, [b"1"]))))
    (_, records, _, _, unreadable) = read_answer("json", [(b"q", b"p", None, 1, 0, 0, MOST, [cut])], MOST)
    assert (records, unreadable) == (0, True)


def test_json_to_the_byte():
    one = row(7, [b'{"a": 1}', b"null"], {1: 'my "id"'})
    text = str(uuid.UUID(bytes=one[3][:16]))
    answer, told = read([entry([one], partition="ü\"".encode(), offset=7, head=9, floor=3),
                         entry(error=b"UNKNOWN_TOPIC_OR_PARTITION", head=-1)])
    assert answer.decode() == (
        '{"entries":[{"queue":"q","partition":"ü\\"","records":[{"offset":7,"transactionId":"' + text + '",'
        '"payload":{"a": 1},"ts":"2026-01-02T03:04:05.678901Z"},{"offset":8,"transactionId":"my \\"id\\"",'
        '"payload":null,"ts":"2026-01-02T03:04:05.678901Z"}],"highWatermark":9,"logStartOffset":3},'
        '{"queue":"q","partition":"p","records":[],"highWatermark":null,"logStartOffset":null,'
        '"error":"UNKNOWN_TOPIC_OR_PARTITION"}]}')
    assert told == (2, 12, False, False)


def test_lines():
    pretty = b'{\n  "text": "a\\nb",\r\n  "n": 1\n}'
    answer, _ = read([entry([row(0, [pretty, b"2"])], head=5), entry([row(4, [b"3"])], b"other", offset=4, head=5)],
                     "ndjson")
    *records, told = [json.loads(line) for line in answer.decode().removesuffix("\n").split("\n")]
    assert [(r["queue"], r["partition"], r["offset"], r["payload"]) for r in records] == [
        ("q", "p", 0, {"text": "a\nb", "n": 1}), ("q", "p", 1, 2), ("q", "other", 4, 3)]
    assert {tuple(r) for r in records} == {("queue", "partition", "offset", "transactionId", "payload", "ts")}
    assert told == {"entries": [{"queue": "q", "partition": "p", "nextOffset": 2, "highWatermark": 5,
                                 "logStartOffset": 0},
                                {"queue": "q", "partition": "other", "nextOffset": 5, "highWatermark": 5,
                                 "logStartOffset": 0}]}


def test_arrow():
    one, two = row(0, [b"1", b'"\xc3\xbc"'], {0: "tx"}), row(2, [b"[]"], created=T0 + 1)
    answer, told = read([entry([one, two], head=3), entry(error=b"OFFSET_OUT_OF_RANGE", head=4, floor=2, offset=9),
                         entry([row(5, [b"{}"])], b"r", offset=5, head=6, queue=b"other")], "arrow")
    rows, marks = table(answer)
    assert rows.schema.remove_metadata() == SCHEMA and told == (4, 9, False, False)
    assert [r["payload"] for r in rows.to_pylist()] == ["1", '"ü"', "[]", "{}"]
    assert rows["queue"].to_pylist() == ["q"] * 3 + ["other"] and rows["partition"].to_pylist() == ["p"] * 3 + ["r"]
    assert rows["offset"].to_pylist() == [0, 1, 2, 5]
    assert rows["ts"].cast(pa.int64()).to_pylist() == [T0, T0, T0 + 1, T0]
    assert rows["transactionId"].to_pylist()[:2] == ["tx", str(uuid.UUID(bytes=one[3][16:32]))]
    assert marks[1] == {"queue": "q", "partition": "p", "nextOffset": 9, "highWatermark": 4, "logStartOffset": 2,
                        "error": "OFFSET_OUT_OF_RANGE"}
    assert [m["nextOffset"] for m in marks] == [3, 9, 6]


def test_arrow_of_nothing():
    rows, marks = table(read([entry()], "arrow")[0])
    assert rows.schema.remove_metadata() == SCHEMA and rows.num_rows == 0 and marks[0]["nextOffset"] == 0


def test_a_row_is_entered_in_the_middle_and_rows_before_are_passed():
    rows = [row(0, [b"0", b"1"]), row(2, [b"2", b"3", b"4"]), row(9, [b"9"])]        # and a hole before 9
    assert offsets([entry(rows, offset=o) for o in (0, 1, 2, 3, 5, 9, 10)]) == [
        [0, 1, 2, 3, 4, 9], [1, 2, 3, 4, 9], [2, 3, 4, 9], [3, 4, 9], [9], [9], []]


def test_rows_in_several_pieces():
    one, two = columns(row(0, [b"0"])), columns(row(1, [b"1"]), row(2, [b"2"]))
    assert offsets([(b"q", b"p", None, 3, 0, 0, MOST, [one, two])]) == [[0, 1, 2]]


@pytest.mark.parametrize("encode",
                         [lambda p: packed(inner(p)), lambda p: framed(frames(p, ["t"] * len(p), [id7()] * len(p)))])
def test_compressed_rows_of_several_partitions(encode):
    payloads = [b'"%d"' % i + b" " * 50 for i in range(100)]
    got = parsed([entry([row(0, payloads, encode=encode)], most=1000), entry([row(0, payloads, encode=encode)], b"r")])
    fit = next(n for n in range(100) if sum(map(len, payloads[:n + 1])) > 1000)
    assert [len(one["records"]) for one in got] == [fit, 100]
    assert [r["payload"] for r in got[1]["records"]] == [str(i) for i in range(100)]


def test_budgets():
    ten = [b'"12345678"'] * 5
    rows = [row(0, ten)]
    assert offsets([entry(rows, most=30), entry(rows, most=29), entry(rows, most=1)]) == [[0, 1, 2], [0, 1], [0]]
    # the call's own: what no longer fits ends it, and the first record of all comes in any case
    assert offsets([entry(rows), entry(rows)], most=70) == [[0, 1, 2, 3, 4], [0, 1]]
    assert offsets([entry(rows), entry(rows)], most=69) == [[0, 1, 2, 3, 4], [0]]
    assert offsets([entry(), entry(rows), entry(rows)], most=1) == [[], [0], []]
    assert read([entry(rows, head=5)])[1] == (5, 50, False, False)
    assert read([entry(rows, head=5, most=30)])[1] == (3, 30, True, False)


def test_a_row_that_cannot_be_read_is_told_where_it_is_met():
    good, bad = row(0, [b"0"]), (1, 1, T0, id7(), b"\x77rubbish", b"")
    for form in ("json", "ndjson", "arrow"):
        _, told = read([entry([good, bad], head=2)], form)
        assert told == (1, 1, True, True)
    first, second = parsed([entry([good, bad]), entry([bad], offset=1)])
    assert [r["offset"] for r in first["records"]] == [0] and "error" not in first
    assert second["records"] == [] and second["error"] == "UNREADABLE"


@pytest.mark.parametrize("change", [(0, array("i", [0])), (1, array("i", [1, 2])), (4, b"short"), (3, array("b", []))])
def test_columns_that_do_not_belong_together(change):
    given_ = list(columns(row(0, [b"0"])))
    given_[change[0]] = change[1]
    with pytest.raises(ValueError):
        read([(b"q", b"p", None, 1, 0, 0, MOST, [tuple(given_)])])


def test_no_such_format():
    with pytest.raises(ValueError):
        read([entry()], "xml")


PAYLOAD = st.recursive(st.none() | st.booleans() | st.integers() | st.text(),
                       lambda x: st.lists(x, max_size=3) | st.dictionaries(st.text(), x, max_size=3), max_leaves=6)
ROWS = st.lists(st.tuples(st.lists(st.tuples(PAYLOAD, st.none() | st.text(min_size=1, max_size=40)), min_size=1,
                                   max_size=5), st.integers(0, 3)), max_size=5)


@settings(max_examples=100)
@given(st.lists(st.tuples(ROWS, st.integers(0, 12), st.integers(1, 200)), min_size=1, max_size=4), st.integers(1, 400),
       st.sampled_from([2, None]))
def test_all_formats_equal_a_model(parts, most, indent):
    entries, stored = [], []
    for number, (rows, offset, entry_most) in enumerate(parts):
        made, records, base = [], [], 0
        for items, gap in rows:
            base += gap
            payloads = [json.dumps(p, indent=indent).encode() for p, _ in items]
            one = row(base, payloads, {i: t for i, (_, t) in enumerate(items) if t is not None}, T0 + base)
            made.append(one)
            for i, (p, t) in enumerate(items):
                records.append((base + i, str(uuid.UUID(bytes=one[3][16 * i:16 * i + 16])) if t is None else t,
                                payloads[i], T0 + base))
            base += len(items)
        entries.append(entry(made, b"p%d" % number, head=base, offset=offset, most=entry_most))
        stored.append(records)
    expected, left, first = [], most, True
    for records, (_, offset, entry_most) in zip(stored, parts):
        mine = []
        for record in (r for r in records if r[0] >= offset):
            size = len(record[2])
            if left <= 0 or (mine and size > entry_most):
                break
            if not first and size > left:
                left = 0
                break
            mine.append(record)
            left, entry_most, first = left - size, entry_most - size, False
        expected.append(mine)
    flat = [(f"p{i}", *r) for i, mine in enumerate(expected) for r in mine]
    as_json = parsed(entries, most)
    assert [(f"p{i}", r["offset"], r["transactionId"], r["payload"], r["ts"]) for i, one in enumerate(as_json)
            for r in one["records"]] == [
        (p, o, t, json.loads(d), read_moment_text(at)) for p, o, t, d, at in flat]
    *lines, told = read(entries, "ndjson", most)[0].decode().removesuffix("\n").split("\n")
    assert [(r["partition"], r["offset"], r["transactionId"], r["payload"], r["ts"])
            for r in map(json.loads, lines)] == [
        (p, o, t, json.loads(d), read_moment_text(at)) for p, o, t, d, at in flat]
    rows, marks = table(read(entries, "arrow", most)[0])
    assert list(zip(rows["partition"].to_pylist(), rows["offset"].to_pylist(), rows["transactionId"].to_pylist(),
                    [p.encode() for p in rows["payload"].to_pylist()], rows["ts"].cast(pa.int64()).to_pylist())) == flat
    assert marks == json.loads(told)["entries"]
    assert [m["nextOffset"] for m in marks] == [mine[-1][0] + 1 if mine else offset
                                                for mine, (_, offset, _) in zip(expected, parts)]


def test_moments():
    assert read_moment(b"2026-01-02T03:04:05.678901Z") == T0 and read_moment_text(T0) == "2026-01-02T03:04:05.678901Z"
    assert read_moment_text(T0 // 10**6 * 10**6) == "2026-01-02T03:04:05.000000Z"
    assert read_moment(b"2026-01-02T04:04:05.678901+01:00") == T0 and read_moment(b"yesterday") is None


def test_partition_ids_go_there_and_back():
    seed = bytes(range(16))
    for number in (1, 7, 2**31 - 1):
        text = read_partition_id(seed, number).encode()
        assert read_partition_number(seed, text) == number
        assert read_partition_number(bytes(16), text) is None
    for text in (b"", b"7", b"x" * 36, str(uuid.uuid4()).encode()):
        assert read_partition_number(seed, text) is None
