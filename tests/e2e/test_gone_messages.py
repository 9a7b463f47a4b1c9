"""Messages that are cleared, expired or deleted while a consumer holds them: the next ones come at once."""
from __future__ import annotations

import pytest
from support.client import Client, data
from support.wait import until


@pytest.mark.parametrize("acked", [True, False])
@pytest.mark.parametrize("how", ["clear", "delete"])
def test_what_is_gone_keeps_no_partition_closed(client: Client, queue: str, how: str, acked: bool) -> None:
    client.push(queue, "old")
    (message,) = client.pop(queue, leaseSeconds=300)
    target = (f"/api/v1/queues/{queue}/clear" if how == "clear"
              else f"/api/v1/messages/{message['partitionId']}/{message['transactionId']}")
    assert client.request("DELETE", target.replace("[", "%5B").replace("]", "%5D")).status == 200
    client.push(queue, "new")
    if acked:
        told = client.ack(message)
        assert (told["success"], told["error"]) == (True, None)
    (new,) = client.pop(queue, wait=True, timeout=60_000)
    assert (new["data"], new["deliveryAttempt"]) == ("new", 1)
    told = client.ack(message)
    assert (told["success"], told["error"]) == (True, None), "it is gone, whoever holds the partition now"
    assert client.ack(new)["leaseReleased"] is True


def test_what_expired_keeps_no_partition_closed(start_daemon, queue: str) -> None:
    with start_daemon(RETENTION_INTERVAL=200).client() as client:
        client.configure(queue, retentionEnabled=True, retentionSeconds=1)
        client.push(queue, "old")
        (message,) = client.pop(queue, leaseSeconds=300)
        until(lambda: client.get(f"/api/v1/messages/{message['partitionId']}/{message['transactionId']}").status == 404,
              "retention removes it")
        client.push(queue, "new")
        assert data(client.pop(queue, wait=True, timeout=60_000)) == ["new"]
        assert client.ack(message)["success"] is True
