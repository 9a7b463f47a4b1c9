"""The number from which a message of a queue without order gets its partition."""
from __future__ import annotations

import hashlib
import os
import struct
import uuid

from queend._core import probe_spread
from queend.cli import sending
from queend.client import message


def test_of_version_seven_the_parts_that_are_no_time() -> None:
    for _ in range(200):
        raw = bytearray(os.urandom(16))
        raw[6] = raw[6] & 15 | 0x70
        _, b, c, d = struct.unpack(">4I", raw)
        assert probe_spread(bytes(raw)) == ((b & 0xfff) + c + d) % 2**32
        raw[:6] = os.urandom(6)
        assert probe_spread(bytes(raw)) == ((b & 0xfff) + c + d) % 2**32, "the time counts for nothing"


def test_of_other_versions_a_digest() -> None:
    for made in (uuid.uuid1(), uuid.uuid4(), uuid.UUID(int=0)):
        assert probe_spread(made.bytes) == int.from_bytes(hashlib.sha256(made.bytes).digest()[:4], "big")


def test_ids_of_one_machine_and_of_neighbouring_offsets_part() -> None:
    """UUIDs of version 1 end alike; message ids of one partition differ in their offset alone."""
    assert len({probe_spread(uuid.uuid1().bytes) % 64 for _ in range(1000)}) == 64
    offsets = [uuid.UUID(int=123 << 80 | 7 << 76 | 1 << 63 | n << 32 | 77).bytes for n in range(64)]
    assert len({probe_spread(one) % 64 for one in offsets}) == 64


def test_ids_of_the_python_client_and_the_command_line_count_up() -> None:
    for made in (message.made_id, sending.made_id):
        numbers = [probe_spread(uuid.UUID(made()).bytes) for _ in range(200)]
        assert [(n - numbers[0]) % 2**32 for n in numbers] == list(range(200))


def test_ids_of_queues_between_which_a_program_alternates_count_up_each() -> None:
    numbers = {queue: [] for queue in ("a", "b")}
    for _ in range(64):
        for queue, seen in numbers.items():
            seen.append(probe_spread(uuid.UUID(message.made_id(queue)).bytes) % 64)
    if hash("a") % 256 != hash("b") % 256:
        assert all(len(set(seen)) == 64 for seen in numbers.values())
