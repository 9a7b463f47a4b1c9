"""Errors of the connector reach the user as their message, in the first line of Spark's exception."""
from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any, TypeVar

OWN = __name__.rpartition(".")[0]
# Spark's workers read it when they report an error (pyspark.util.handle_worker_exception), and end then.
HIDE = "SPARK_HIDE_TRACEBACK"
Class = TypeVar("Class", bound=type)


def plain(*methods: str) -> Callable[[Class], Class]:
    """Returns a decorator of a class: errors that are declared in this package leave its methods without a traceback,
    if Spark calls them in one of its Python workers. Other errors keep theirs: they are faults, and the place counts.
    The decorator handles what a returned iterator raises, too."""

    def decorated(owner: Class) -> Class:
        for name in methods:
            setattr(owner, name, _plain(getattr(owner, name)))
        return owner
    return decorated


def _plain(method: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(method)
    def called(*arguments: Any, **more: Any) -> Any:
        with _hiding():
            found = method(*arguments, **more)
        return _each(found) if isinstance(found, Iterator) else found
    return called


def _each(found: Iterator[Any]) -> Iterator[Any]:
    with _hiding():
        yield from found


@contextmanager
def _hiding() -> Iterator[None]:
    try:
        yield
    except Exception as error:
        main = getattr(sys.modules.get("__main__"), "__spec__", None)
        if type(error).__module__.startswith(OWN) and getattr(main, "name", "").startswith("pyspark."):
            os.environ[HIDE] = "1"
        raise
