"""Metrics in the form of /metrics/prometheus: families of a name, each with its samples, in a fixed order."""
from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric


class Families:
    """Families by name, in the order of their first sample."""

    def __init__(self) -> None:
        self.all: dict[str, Any] = {}

    def __iter__(self) -> Iterator[Metric]:
        return iter(self.all.values())

    def add(self, name: str, text: str, labels: dict[str, str], value: float, kind: type = GaugeMetricFamily) -> None:
        self.each(name, text, tuple(labels), [(tuple(labels.values()), value)], kind)

    def gauge(self, name: str, text: str, value: float) -> None:
        self.add(name, text, {}, value)

    def counter(self, name: str, text: str, value: float) -> None:
        self.add(name, text, {}, value, CounterMetricFamily)

    def each(self, name: str, text: str, labels: Sequence[str], samples: Iterable[tuple[Sequence[str], float]],
             kind: type = GaugeMetricFamily) -> None:
        """Adds a family, even without samples."""
        if name not in self.all:
            self.all[name] = kind(name, text, labels=labels)
        for values, value in samples:
            self.all[name].add_metric(values, value)
