"""Which public methods of the SDK a script of this folder has called: `watch` before, `tell` at the end.

Prints one line, `covered` and the names as Class.method, for test_sdk.py to put together. By itself: all there are.
"""
from __future__ import annotations

import functools
import importlib.util
import inspect
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

WATCHED = {"queen.client": ["Queen"], "queen.admin.admin": ["Admin"], "queen.streams.stream": ["Stream"],
           "queen.builders.queue_builder": ["QueueBuilder"],
           "queen.builders.dlq_builder": ["DLQBuilder"], "queen.builders.push_builder": ["PushBuilder"],
           "queen.builders.consume_builder": ["ConsumeBuilder"],
           "queen.builders.operation_builder": ["OperationBuilder"],
           "queen.builders.transaction_builder": ["TransactionBuilder", "TransactionQueueBuilder"]}
# of the second generation only, for services that only its servers have
SERVICES = {"queen.kv.kv": ["KV"], "queen.locks.locks": ["Lock", "Locks"],
            "queen.timers.timers": ["Timers", "TimerBuilder"], "queen.ephemeral.ephemeral": ["Ephemeral"],
            "queen.builders.transaction_builder": ["TransactionKvBuilder", "TransactionTimerBuilder"]}
called: set[str] = set()


def methods(modules: dict[str, list[str]] = WATCHED) -> dict[str, tuple[type, str, Any]]:
    """Class.method → (class, name, function) of every public method."""
    found = {}
    for module, names in modules.items():
        for name in names:
            cls = getattr(importlib.import_module(module), name)
            for method, function in inspect.getmembers(cls, inspect.isfunction):
                if not method.startswith("_") and method == function.__name__:      # flatMap is flat_map
                    found[f"{name}.{method}"] = (cls, method, function)
    return found


def watch() -> None:
    for label, (cls, name, function) in methods().items():
        setattr(cls, name, _noted(label, function))


def _noted(label: str, function: Any) -> Any:
    @functools.wraps(function)
    def call(*arguments: Any, **named: Any) -> Any:
        called.add(label)
        return function(*arguments, **named)

    return call


def tell() -> None:
    print("covered", *sorted(called))
    print("methods", *sorted(methods()))


async def checked(checks: Sequence[Callable[[Any], Awaitable[None]]], url: str, options: dict[str, Any]) -> None:
    """Each with a client of its own; their names are printed."""
    from queen import Queen     # of the environment this runs in

    watch()
    for check in checks:
        async with Queen(url=url, **options) as queen:
            await check(queen)
        print(check.__name__, flush=True)
    tell()


if __name__ == "__main__":
    print(*sorted(methods() | (methods(SERVICES) if importlib.util.find_spec("queen.kv") else {})))
