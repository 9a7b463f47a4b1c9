"""A bucket of an object store, opened by obstore, and its errors in one line."""
from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from .fault import JobError

REASON = re.compile(r"<Code>(.*?)</Code>.*?<Message>(.*?)</Message>", re.DOTALL)


class ObjectError(JobError, OSError):
    """A request to an object store that failed, in one line."""


@contextmanager
def asking_store(url: str) -> Iterator[None]:
    """Turns errors of obstore in the enclosed code into ObjectError, which names the store."""
    from obstore.exceptions import BaseError

    try:
        yield
    except BaseError as error:
        found = REASON.search(str(error))
        text = ": ".join(found.groups()) if found else str(error).partition("\n")[0]
        raise ObjectError(f"{url}: {text}") from None


def bucket(url: str) -> Any:
    """Opens a bucket and a prefix, s3://bucket/prefix, with the variables AWS_… of the environment or the role of the
    machine."""
    from obstore.store import from_url

    with asking_store(url):
        return from_url(url)
