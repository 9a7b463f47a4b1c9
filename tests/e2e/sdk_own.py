"""pytest plugin, run in an environment of the SDK: what the SDK's own tests expect of their conftest, which is not
published with them."""
from __future__ import annotations

import os
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from queen import Queen


@pytest_asyncio.fixture(loop_scope="session")
async def client() -> AsyncIterator[Queen]:
    token = os.environ.get("QUEEN_TOKEN")
    one = Queen(url=os.environ["QUEEN_SERVER_URL"], **({"bearer_token": token} if token else {}))
    yield one
    await one.close()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What is deliberately different has to fail: a line in the list that nothing needs is an error, too."""
    for item in items:
        if item.name in os.environ["DIFFERENT"].split():
            item.add_marker(pytest.mark.xfail(strict=True))
