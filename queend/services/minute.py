"""The figures of one minute, until they are written."""
from __future__ import annotations

from operator import add

MINUTE_US = 60_000_000
# Counts of a worker, in the order of metric_workers.counts. The last five are summed over its queues. Only queue_pushed
# includes the messages of transactions, stream cycles and the failover buffer; push_messages does not.
COUNTS = ("push_requests", "push_messages", "pop_requests", "pop_messages", "ack_requests", "ack_messages",
          "transactions", "requests", "errors", "db_errors", "dead_lettered", "empty_pops", "push_us", "pop_us",
          "ack_us", "ack_done", "ack_failed", "lag_us", "lag_n", "queue_pushed")
SUMMED = (6, 7, 9, 10, 1)      # places in Core.tallies of those that are summed
OF_QUEUES = len(COUNTS) - len(SUMMED)
NOTHING, SUMS = (0,) * 12, 11            # of Core.tallies: the last one is not a sum
PORTION = 1000             # queues of one statement: a cancellation while it is sent costs the connection


class Levels:
    """Measurements by name: [sum, samples, least, most, last]."""

    def __init__(self) -> None:
        self.values: dict[str, list[float]] = {}

    def add(self, **measured: float) -> None:
        for name, value in measured.items():
            one = self.values.get(name)
            if one is None:
                self.values[name] = [value, 1, value, value, value]
            else:
                one[0] += value
                one[1] += 1
                one[2], one[3], one[4] = min(one[2], value), max(one[3], value), value


class Minute:
    """The unwritten figures of one minute. workers: number of workers."""

    def __init__(self, workers: int) -> None:
        self.queues: dict[tuple[int, int], list[int]] = {}       # (queue, worker) → as Core.tallies
        self.parked: dict[int, int] = {}
        self.samples = 0
        self.workers = [[0] * len(COUNTS) for _ in range(workers)]
        self.levels = [Levels() for _ in range(workers)]

    def add(self, key: tuple[int, int], more: list[int], lag_most: int) -> None:
        """Adds what a queue did on a worker."""
        one = self.queues.get(key)
        if one is None:
            self.queues[key] = [*more, lag_most]
        else:
            one[:SUMS] = map(add, one, more)
            one[SUMS] = max(one[SUMS], lag_most)
        mine = self.workers[key[1]]
        for at, i in enumerate(SUMMED, OF_QUEUES):
            mine[at] += more[i]
        if lag_most:
            self.levels[key[1]].add(lag_most_ms=lag_most / 1000)

    def portions(self) -> list[list[tuple[int, int]]]:
        """Returns (queue, worker) of the active queues, in order, in portions of one statement. The last portion also
        stands for the workers: it exists even if no queue was active."""
        keys = sorted(self.queues.keys() | {(queue, 0) for queue in self.parked})
        return [keys[i:i + PORTION] for i in range(0, max(len(keys), 1), PORTION)]

    def values(self, keys: list[tuple[int, int]]) -> list[int]:
        """Returns the numbers of a portion for metrics_keep."""
        return [value for key in keys for value in (
            *self.queues.get(key, NOTHING), self.parked.get(key[0], 0) if key[1] == 0 else 0, self.samples)]

    def drop(self, keys: list[tuple[int, int]]) -> None:
        """Drops a portion that was written."""
        for key in keys:
            self.queues.pop(key, None)
            if key[1] == 0:
                self.parked.pop(key[0], None)

    def take(self, other: Minute) -> None:
        """Adds the counts of another minute; its levels are lost."""
        for key, counts in other.queues.items():
            self.add(key, counts[:SUMS], counts[SUMS])
        for mine, theirs in zip(self.workers, other.workers, strict=True):
            mine[:OF_QUEUES] = (one + more for one, more in zip(mine[:OF_QUEUES], theirs[:OF_QUEUES], strict=True))
