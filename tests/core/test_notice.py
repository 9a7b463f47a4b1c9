"""What daemons tell each other: a packet is what was written or nothing, and each is heeded once, in any order."""
from __future__ import annotations

import hashlib
import hmac
import struct
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from queend._core import probe_packet, probe_packet_read, probe_senders, probe_told

SECRET = b"0123456789abcdef" * 4
NUMBER = st.integers(-2**31, 2**31 - 1)
WORD = st.integers(0, 2**64 - 1)
DEAD = 5_000_000
MINUTE = 60_000_000


@given(st.lists(st.tuples(NUMBER, NUMBER), max_size=161), st.integers(0, 255), st.integers(1, 2**64 - 1), WORD, WORD,
       WORD, WORD, st.sampled_from([b"", SECRET]))
def test_what_was_written_is_read(entries, flags, sequence, began, random, sent_us, database, secret):
    packet = probe_packet(secret, entries, flags, b"host:6633", began, random, sequence, sent_us, database)
    assert len(packet) == 108 + 8 * len(entries) <= 1400
    assert probe_packet_read(secret, packet) == ("good", {
        "flags": flags, "name": b"host:6633", "began": began, "random": random, "sequence": sequence,
        "sent_us": sent_us, "database": database}, entries)


def test_its_bytes_are_those_of_the_document():
    """docs/peers.md: another program may write them."""
    packet = probe_packet(SECRET, [(5, 0), (6, 9)], 1, b"a:1", 10, 11, 12, 13, 14)
    head = struct.pack(">BBH32x5Q32s", 2, 1, 16, 10, 11, 12, 13, 14, b"a:1")
    bare = head + struct.pack(">iiii", 5, 0, 6, 9)
    assert packet == bare[:4] + hmac.new(SECRET, bare, hashlib.sha256).digest() + bare[36:]
    assert probe_packet(b"", [(5, 0), (6, 9)], 1, b"a:1", 10, 11, 12, 13, 14) == bare


def test_every_bit_counts():
    packet = probe_packet(SECRET, [(1, 2), (3, 4)])
    for bit in range(8 * len(packet)):
        other = bytearray(packet)
        other[bit // 8] ^= 1 << bit % 8
        assert probe_packet_read(SECRET, bytes(other))[0] != "good"
    assert probe_packet_read(SECRET[::-1], packet)[0] == "forged"
    assert probe_packet_read(SECRET, probe_packet(b"", [(1, 2)]))[0] == "forged"


@pytest.mark.parametrize("change, verdict", [
    (lambda p: b"", "broken"), (lambda p: p[:107], "broken"), (lambda p: p[:-1], "broken"),
    (lambda p: p + b"\0", "broken"), (lambda p: p[:2] + b"\0\x07" + p[4:-1], "broken"),
    (lambda p: b"\1" + p[1:], "other_version"), (lambda p: p + bytes(1400), "broken"),
    (lambda p: p[:52] + bytes(8) + p[60:], "broken"), (lambda p: p[:76] + bytes(32) + p[108:], "broken"),
    (lambda p: p[:76] + b"a" * 32 + p[108:], "broken"), (lambda p: p[:76] + b"a\n" + p[78:], "broken"),
], ids=["empty", "short", "cut", "longer", "uneven", "version", "huge", "sequence", "nameless", "endless", "line"])
def test_nonsense_is_refused(change, verdict):
    assert probe_packet_read(b"", change(probe_packet(b"", [(1, 2)])))[0] == verdict


def heard(*sequences: int, began: int = 1, at: int = 0) -> list[tuple]:
    return [(b"a:1", began, sequence, at, at, at) for sequence in sequences]


def test_each_is_taken_once_in_any_order():
    numbers = list(range(1, 65))
    Random(1).shuffle(numbers)
    first = numbers.index(1)
    numbers[0], numbers[first] = numbers[first], numbers[0]      # what came before the first one heard is not asked for
    verdicts, senders = probe_senders(heard(*numbers, *numbers))
    assert [word for word, _ in verdicts] == ["good"] * 64 + ["again"] * 64
    assert senders == [(b"a:1", 64, 0, 0)]


def test_what_is_missing_is_seen_at_once_and_counted():
    verdicts, senders = probe_senders(heard(1, 2, 5, 6, 4))
    assert verdicts == [("good", True), ("good", False), ("good", True), ("good", False), ("good", False)]
    assert senders == [(b"a:1", 5, 1, 0)]


def test_what_is_far_behind_is_not_taken():
    verdicts, senders = probe_senders(heard(1, 1000, 936, 937))
    assert [word for word, _ in verdicts] == ["good", "good", "again", "good"]
    assert senders == [(b"a:1", 3, 997, 0)]


def test_a_restart_begins_anew_and_what_was_before_is_over():
    verdicts, senders = probe_senders([*heard(7, 9), *heard(1, began=2), *heard(10)])
    assert verdicts == [("good", True), ("good", True), ("good", True), ("ended", False)]
    assert senders == [(b"a:1", 3, 1, 1)]


def test_a_restart_after_its_clock_was_set_back_is_believed_when_the_one_before_is_silent():
    early = heard(1, began=5)
    assert probe_senders([*heard(1, began=9), *early])[0][1][0] == "ended"
    assert probe_senders([*heard(1, began=9), *heard(1, began=5, at=DEAD + 1)])[0][1] == ("good", True)


def test_packets_of_another_hour_are_not_taken():
    for sent, verdict in ((-MINUTE - 1, "stale"), (-MINUTE, "good"), (MINUTE, "good"), (MINUTE + 1, "stale")):
        assert probe_senders([(b"a:1", 1, 1, 10 * MINUTE + sent, 0, 10 * MINUTE)])[0] == [(verdict, verdict == "good")]


def test_as_many_senders_as_there_is_room_for():
    many = [(b"s%d:1" % i, 1, 1, 0, i, 0) for i in range(64)]
    more = (b"more:1", 1, 1, 0, 100, 0)
    verdicts, senders = probe_senders([*many, more])
    assert verdicts[-1] == ("crowded", False) and len(senders) == 64
    late = (*more[:4], DEAD + 1, 0)      # the first of them is gone by then
    verdicts, senders = probe_senders([*many, late])
    assert verdicts[-1] == ("good", True) and senders[0][0] == b"more:1" and len(senders) == 64


@pytest.mark.parametrize("forged", [heard(1, began=2**62), heard(2**62), heard(*range(3, 99))],
                         ids=["a later session", "a later number", "the next numbers"])
def test_without_a_secret_nobody_is_silenced(forged):
    verdicts, _ = probe_senders([*heard(1, 2), *forged, *heard(3, 4)], verified=False)
    assert [word for word, _ in verdicts[-2:]] == ["good", "good"]
    assert "good" not in [word for word, _ in probe_senders([*heard(1, 2), *forged, *heard(3, 4)])[0][-2:]]


def test_without_a_secret_made_up_senders_crowd_nobody_out():
    many = [(b"s%d:1" % i, 1, 1, 0, i, 0) for i in range(200)]
    verdicts, senders = probe_senders([*many, *heard(1, at=300)], verified=False)
    assert verdicts[-1] == ("good", True) and len(senders) == 64 and b"a:1" in [name for name, *_ in senders]


@given(st.lists(st.integers(1, 300), min_size=1, max_size=300))
def test_nothing_is_taken_twice(numbers):
    verdicts, ((_, packets, lost, _),) = probe_senders(heard(*numbers))
    taken = [number for number, (word, _) in zip(numbers, verdicts, strict=True) if word == "good"]
    assert len(taken) == len(set(taken)) == packets
    assert lost == max(numbers) - numbers[0] + 1 - len(taken)


def test_what_is_told_leaves_once_in_order():
    keys = [(1, 0), (2, 0), (1, 0), (1, 9), (2, 0), (2**31 - 1, 2**31 - 1)]
    assert probe_told(keys) == [([(1, 0), (2, 0), (1, 9), (2**31 - 1, 2**31 - 1)], 0)] * 4


def test_what_has_no_room_becomes_a_look_at_everything():
    keys = [(1 + 4096 * i, 0) for i in range(5000)]      # alike for a bad hash
    assert probe_told(keys) == [(keys[:4096], 1)] * 4
