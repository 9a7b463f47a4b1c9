"""How much a pop takes that leaves it to the daemon, by what was seen of its group."""
from __future__ import annotations

import pytest
from queend import _core as core

MINUTE = 60_000_000


def chosen(claims: list[int], acks: list[tuple[int, int]], ready: int = 1000, waiting: int = 0,
           lease_us: int = MINUTE) -> tuple[int, int]:
    batch, width, _ = core.pilot_chooses(claims, acks, lease_us, ready, waiting)
    return batch, width


def test_before_anything_was_seen():
    assert chosen([], []) == (200, 16)
    assert chosen([], [], ready=3) == (200, 3)
    assert chosen([], [], ready=0) == (200, 1)
    assert chosen([], [], ready=9, waiting=2) == (200, 3)


@pytest.mark.parametrize("each, width", [(1, 64), (2, 64), (20, 50), (100, 10), (400, 2), (1000, 1)])
def test_few_messages_of_a_partition_many_partitions(each, width):
    """64 messages are done with in a millisecond."""
    assert chosen([each], [(1000, 64)]) == (1000, width)


@pytest.mark.parametrize("us, batch", [(10, 1000), (1000, 1000), (2000, 500), (5000, 200), (10_000, 100),
                                       (250_000, 100), (1_000_000, 30), (40_000_000, 1), (10**12, 1)])
def test_a_batch_is_done_in_a_second_if_it_can_and_fits_half_of_the_lease(us, batch):
    assert chosen([1], [(us, 1)])[0] == batch


def test_the_lease_bounds_the_batch():
    assert chosen([1], [(10_000, 1)], lease_us=1_000_000)[0] == 50
    assert chosen([1], [(10_000, 1)], lease_us=1)[0] == 1


@pytest.mark.parametrize("ready, waiting, width", [(8, 0, 1), (64, 0, 8), (1000, 0, 64), (64, 31, 2), (64, 100, 1)])
def test_slow_consumers_leave_the_rest_to_others(ready, waiting, width):
    assert chosen([1], [(50_000, 1)], ready, waiting)[1] == width


@pytest.mark.parametrize("ready", [1, 8, 64])
def test_fast_consumers_take_what_is_there(ready):
    """More partitions than are ready is none."""
    assert min(chosen([1], [(100, 1)], ready)[1], ready) == ready


@pytest.mark.parametrize("claims, acks, soon", [([], [], 0), ([1], [], 0), ([], [(100, 1)], 0), ([1], [(100, 1)], 64),
                                                ([1], [(1000, 1)], 20), ([4], [(1000, 1)], 5), ([1], [(30_000, 1)], 0)])
def test_what_need_not_be_shared(claims, acks, soon):
    assert core.pilot_chooses(claims, acks, MINUTE, 0, 0)[2] == soon


def test_a_change_is_seen_by_and_by():
    """A backlog that is gone, consumers that became slow."""
    behind = chosen([1000] * 100, [(1000, 64)])
    after = chosen([1000] * 100 + [1] * 60, [(1000, 64)])
    assert behind[1] == 1 and after[1] == 64
    assert chosen([1], [(100, 1)] * 100)[0] == 1000
    assert chosen([1], [(100, 1)] * 100 + [(20_000, 1)] * 30)[0] == 100


def test_nothing_comes_of_nothing():
    """Neither an acknowledgment of no messages nor one that took no time."""
    assert chosen([1], [(1000, 0)]) == chosen([1], [])
    assert chosen([1], [(0, 1)]) == (1000, 64)
    assert chosen([1], [(-5, 1)]) == (1000, 64)
