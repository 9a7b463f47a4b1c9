"""Queues without order in SQL: the partition of a message, as the daemon chooses it."""
from __future__ import annotations

import random
import uuid

import pytest

from queend._core import probe_spread


def raw(db, text: str) -> bytes:
    return bytes(db.value("SELECT queend.record_id(%s)", text))


@pytest.mark.parametrize("version", [1, 4, 7, 8])
def test_sql_and_the_daemon_choose_alike(db, version: int) -> None:
    dice = random.Random(version)
    for _ in range(50):
        text = str(uuid.UUID(int=dice.getrandbits(128) & ~(15 << 76) | version << 76))
        assert db.value("SELECT queend.spread_number(queend.record_id(%s))", text) == probe_spread(raw(db, text))


def test_texts_are_chosen_alike_and_evenly(db) -> None:
    seen = [0] * 64
    for n in range(640):
        number = db.value("SELECT queend.spread_number(queend.record_id(%s))", f"order-{n}")
        assert number == probe_spread(raw(db, f"order-{n}"))
        seen[number % 64] += 1
    assert min(seen) > 0 and max(seen) < 30


@pytest.mark.parametrize(("number", "name"), [(0, "~00"), (9, "~09"), (10, "~10"), (99, "~99"), (100, "~100"),
                                              (1023, "~1023")])
def test_names(db, number: int, name: str) -> None:
    assert db.value("SELECT queend.spread_name(%s)", number) == name


def test_only_the_default_partition_of_queues_without_order_is_spread(db) -> None:
    db.rows("SELECT queend.configure('spread', NULL, NULL, '{\"ordered\": false, \"spreadPartitions\": 4}')")
    db.rows("SELECT queend.configure('kept', NULL, NULL, '{\"spreadPartitions\": 4}')")
    number = db.value("SELECT queend.spread_number(queend.record_id('t'))")
    places = db.value("SELECT queend.spread_places(%s, %s, %s)", ["spread", "kept", "unknown", "spread"],
                      ["Default", "Default", "Default", "mine"], ["t"] * 4)
    assert places == [f"~{number % 4:02d}", "Default", "Default", "mine"]
    assert db.value("SELECT queend.spread_places(%s, %s, %s)", ["kept"], ["Default"], ["t"]) == ["Default"]


def test_items_pushed_again_are_duplicates(db) -> None:
    db.rows("SELECT queend.configure('again', NULL, NULL, '{\"ordered\": false}')")
    call = "SELECT * FROM queend.push_items(%s, %s, %s, %s, %s, %s)"
    items = (["again"] * 50, ["Default"] * 50, [f"t{n}" for n in range(50)], ["1"] * 50, [None] * 50, [None] * 50)
    first = {row.ord: row for row in db.rows(call, *items)}
    again = {row.ord: row for row in db.rows(call, *items)}
    assert not any(row.duplicate for row in first.values()) and all(row.duplicate for row in again.values())
    assert all(again[n][2:4] == first[n][2:4] for n in range(50))
    assert len({row.partition_id for row in first.values()}) > 20


def test_the_catalog_names_the_partitions(db) -> None:
    db.rows("SELECT queend.configure('told', NULL, NULL, '{\"ordered\": false}')")
    loaded = {row.name: row.spread for row in db.rows("SELECT * FROM queend.catalog_load()")}
    assert loaded["told"] == 64
    db.rows("SELECT queend.configure('told', NULL, NULL, '{\"ordered\": null}')")
    assert {row.name: row.spread for row in db.rows("SELECT * FROM queend.catalog_load()")}["told"] == 0


def test_ids_of_a_session_count_up(db) -> None:
    ids = [db.value("SELECT queend.id_counted()") for _ in range(300)]
    numbers = [probe_spread(one.bytes) for one in ids]
    assert [(n - numbers[0]) % 2**32 for n in numbers] == list(range(300))
    assert len(set(ids)) == 300 and {(one.version, one.variant) for one in ids} == {(7, uuid.RFC_4122)}
    assert [one.int >> 80 for one in ids] == sorted(one.int >> 80 for one in ids)
