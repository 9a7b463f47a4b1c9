"""A pop brings messages of as many partitions as it asks for."""
from __future__ import annotations

import pytest
from support.client import Client, ack_of


@pytest.mark.parametrize("query", [{}, {"frames": False, "consumerGroup": "g"}, {"autoAck": True}])
def test_of_a_thousand_partitions(client: Client, queue: str, query: dict) -> None:
    client.push_items([{"queue": queue, "partition": f"p{n}", "payload": n} for n in range(1100)])
    messages = client.pop(queue, batch=2000, partitions=1000, **query)
    assert len({one["partition"] for one in messages}) == len(messages) == 1000
    rest = client.pop(queue, batch=2000, partitions=1000, **query)
    assert len(rest) == 100 and not {one["partition"] for one in rest} & {one["partition"] for one in messages}
    if not query.get("autoAck"):
        told = client.ack_batch([ack_of(one) for one in messages + rest], query.get("consumerGroup"))
        assert [one for one in told if not one["success"]] == []
    assert client.pop(queue, batch=10, partitions=10, **query) == []
