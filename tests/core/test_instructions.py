"""Instructions per message of what every message goes through, counted by callgrind on fixed inputs: no clock, so no
noise. The budgets stand in instructions.toml; a change that costs more than 5 % fails here, and one that saves much
asks for a lower budget."""
import json
import pickle
import sys
import tomllib
from pathlib import Path

import pyarrow as pa
import pytest
from support.callgrind import instructions

from queend import _core as core

pytestmark = [pytest.mark.counted, pytest.mark.skipif(not core.probe_optimized(), reason="built with QUICK=1")]
HERE = Path(__file__).resolve().parent
BUDGETS = tomllib.loads((HERE / "instructions.toml").read_text())
ITEMS = 1000
OVER, UNDER = 1.05, 0.75
HEAD = (b"POST /api/v1/push HTTP/1.1\r\nHost: broker.example:6632\r\nUser-Agent: producer/1.0\r\nAccept:"
        b" */*\r\nContent-Type: application/json\r\n"
        b"Content-Length: 245000\r\nConnection: keep-alive\r\n\r\n")
NOTES = ["leave it at the door", "ring the bell twice", "call before delivery", "signature is required"]


def payload(i: int) -> str:
    return (f'{{"order":"{i:08}","customer":"c-{i * 7919 % 10000:04}","items":{i % 9 + 1},'
            f'"amount":{i * 104729 % 100000},"currency":"EUR","at":17000000{i:08},"note":"{NOTES[i % 4]}"}}')


def item(i: int) -> str:
    identifier = f"0192f0c0-{i:04x}-7aaa-8bbb-{i * 2654435761 & 0xffffffffffff:012x}"
    return f'{{"queue":"bench","partition":"p{i * 31 % 10:05}","transactionId":"{identifier}","payload":{payload(i)}}}'


def rows() -> bytes:
    batch = pa.record_batch({"partition": pa.array([f"p{i * 31 % 10:05}" for i in range(ITEMS)]).dictionary_encode(),
                             "transactionId": pa.array([json.loads(item(i))["transactionId"] for i in range(ITEMS)]),
                             "payload": pa.array([payload(i) for i in range(ITEMS)])})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write(batch)
    return sink.getvalue().to_pybytes()


JSON = ('{"items":[' + ",".join(map(item, range(ITEMS))) + "]}").encode()
# what is counted: (head, Content-Type, query, body, what happens: the last step counts). What grows memory is done
# before, so that where the allocator puts it does not count.
PLAN = {
    "http_head": (HEAD, None, b"", b"", ["count_head"]),
    "json_slice": (b"", None, b"", ("[" + ",".join(map(payload, range(ITEMS))) + "]").encode(), ["count_json"]),
    "push_json": (b"", None, b"", JSON, ["count_push"]),
    "push_ndjson": (b"", b"application/x-ndjson", b"", "\n".join(map(item, range(ITEMS))).encode(), ["count_push"]),
    "push_ndjson_line": (b"", b"application/x-ndjson", b"queue=bench&payload=line",
                         "\n".join(map(payload, range(ITEMS))).encode(), ["count_push"]),
    "push_arrow": (b"", b"application/vnd.apache.arrow.stream", b"queue=bench", rows(), ["count_push"]),
    "push_batch": (b"", None, b"", JSON, ["count_push", "stored", "count_batch", "stored", "count_batch"]),
    "push_reply": (b"", None, b"", JSON, ["count_push", "stored", "count_reply", "count_reply"]),
    "push_reply_counts": (b"", None, b"format=counts", JSON, ["count_push", "stored", "count_reply", "count_reply"]),
    "pop_reply": (b"", None, b"", JSON, ["count_push", "stored", "count_pop", "count_pop"]),
}


@pytest.fixture(scope="module")
def counted(tmp_path_factory) -> dict[str, float]:
    """Instructions per message (http_head: per request) of the last step of each plan."""
    out = tmp_path_factory.mktemp("callgrind")
    (out / "plan").write_bytes(pickle.dumps(list(PLAN.values())))
    totals = instructions("__pyx_pw_*ProbeCount_*count_*", [sys.executable, "-I", "-S", HERE / "counted.py",
                                                            core.__file__, out / "plan"], out)
    steps = [(name, step) for name, (*_, plan) in PLAN.items() for step in plan if step.startswith("count_")]
    assert len(totals) == len(steps)
    # the last step of a name counts
    return {name: total / (1 if name == "http_head" else ITEMS) for (name, _), total in zip(steps, totals)}


def test_every_budget_is_for_something_counted():
    assert set(BUDGETS) == set(PLAN)


@pytest.mark.parametrize("name", PLAN)
def test_instructions_per_message(counted, name):
    now, budget = counted[name], BUDGETS[name]
    assert now <= budget * OVER, f"{name}: {now:.0f} instructions, {budget} allowed (tests/core/instructions.toml)"
    assert now >= budget * UNDER, (f"{name}: {now:.0f} instructions;"
                                   f" lower its budget of {budget} in tests/core/instructions.toml")
