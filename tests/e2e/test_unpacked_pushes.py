"""Small bodies that become large: a zstd frame of a binary push, a compressed buffer of an Arrow stream, a value of a
dictionary that thousands of rows name. They take no more memory than large bodies do, and no time of other clients."""
from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from support.client import Client
from support.daemon import Daemon
from support.frames import KIND, form_b, frames, group_a, group_b, message_ids, transaction
from support.http import Wire, request
from support.sanitizer import PRELOAD
from support.wait import PATIENCE, until

from queend._core import probe_zip

MIB = 1 << 20
ARROW = {"Content-Type": "application/vnd.apache.arrow.stream"}
TEXT = b'"%s"' % (b"x" * 998)


@pytest.fixture(scope="module")
def daemon(start_daemon: Callable[..., Daemon]) -> Daemon:
    return start_daemon(NUM_WORKERS=1)


def stream(*batches: pa.RecordBatch, **options: object) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batches[0].schema, options=pa.ipc.IpcWriteOptions(**options)) as writer:
        for batch in batches:
            writer.write(batch)
    return sink.getvalue().to_pybytes()


def arrow(queue: str, rows: int) -> bytes:
    return stream(pa.record_batch([[queue] * rows, [TEXT.decode()] * rows], ["queue", "payload"]), compression="zstd")


def dictionary(queue: str, rows: int, value: bytes = TEXT) -> bytes:
    names = pa.DictionaryArray.from_arrays(pa.array([0] * rows, pa.int32()), [value.decode()])
    return stream(pa.record_batch([[queue] * rows, names], ["queue", "payload"]), compression="zstd")


def form_a(queue: str, rows: int) -> bytes:
    groups = (1).to_bytes(4, "little") + group_a([TEXT] * rows, queue=queue)
    return b"QPB1" + bytes([1]) + len(groups).to_bytes(4, "little") + probe_zip(groups)


def packed(queue: str, rows: int) -> bytes:
    return group_b(rows, probe_zip(frames([TEXT] * rows, [""] * rows, message_ids(rows))), queue)


BODIES: dict[str, Callable[[str, int], bytes]] = {
    "arrow": arrow, "dictionary": dictionary, "form a": form_a,
    "form b": lambda queue, rows: form_b(packed(queue, rows)),
    "transaction": lambda queue, rows: transaction(b"", packed(queue, rows))}


def asked(kind: str, queue: str, rows: int) -> bytes:
    path = "/api/v1/transaction" if kind == "transaction" else "/api/v1/push"
    return request("POST", path, BODIES[kind](queue, rows), ARROW if kind in ("arrow", "dictionary") else KIND)


def beside(client: Client) -> float:
    return client.metric("queend_worker_read_beside_total")


def total(client: Client, queue: str) -> int:
    return client.show(queue).json["totals"]["total"]


@pytest.mark.parametrize("kind", BODIES)
def test_what_unpacks_to_much_is_read_beside_the_loop(daemon: Daemon, client: Client, queue: str, kind: str) -> None:
    before = beside(client)
    with Wire(daemon.address) as wire:
        wire.send(asked(kind, queue, 100))
        assert wire.receive().status in (200, 201)
        assert beside(client) == before
        wire.send(asked(kind, queue, 1000))
        assert wire.receive().status in (200, 201)
    assert beside(client) == before + 1
    until(lambda: total(client, queue) == 1100, "all are stored, once")


def test_a_dictionary_in_many_pieces_is_read_beside_the_loop(daemon: Daemon, client: Client, queue: str) -> None:
    """A look-up of a value passes all pieces."""
    def batch(values: list[str]) -> pa.RecordBatch:
        names = pa.DictionaryArray.from_arrays(pa.array([len(values) - 1], pa.int32()), values)
        return pa.record_batch([[queue], names], ["queue", "payload"])

    before = beside(client)
    values = [f'"{number}"' for number in range(40)]
    with Wire(daemon.address) as wire:
        for pieces, more in ((10, 0), (40, 1)):
            wire.send(request("POST", "/api/v1/push", stream(*(batch(values[:n + 1]) for n in range(pieces)),
                                                             emit_dictionary_deltas=True), ARROW))
            assert wire.receive().status == 201
            assert beside(client) == before + more
    until(lambda: total(client, queue) == 50, "all are stored")


def test_rows_of_one_value_have_no_more_bytes_than_a_body(daemon: Daemon, client: Client, queue: str) -> None:
    with Wire(daemon.address) as wire:
        wire.send(request("POST", "/api/v1/push", dictionary(queue, 10_000, b'"%s"' % (b"x" * 100_000)), ARROW))
        answer = wire.receive()
    assert answer.status == 413 and answer.json == {
        "error": "Payloads and headers have more than 67108864 bytes together"}
    assert client.show(queue).status == 404


@pytest.mark.skipif(PRELOAD is not None, reason="a sanitizer keeps what is freed")
@pytest.mark.parametrize("kind", ["arrow", "form a"])
def test_many_that_unpack_to_much_take_turns(daemon: Daemon, queue: str, kind: str) -> None:
    """Of 24 with 10 MB each, few are unpacked at the same time, and none is refused."""
    one = asked(kind, queue, 10_000)
    before = daemon.memory()
    Path(f"/proc/{daemon.pid}/clear_refs").write_text("5")      # VmHWM counts from now
    statuses = []

    def ask() -> None:
        with Wire(daemon.address, PATIENCE) as wire:
            wire.send(one)
            statuses.append(wire.receive().status)

    threads = [threading.Thread(target=ask) for _ in range(24)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert statuses == [201] * 24
    assert daemon.memory("VmHWM") < before + 128 * MIB
