"""A group gets messages again (queend's extra `client`): reads by offset, lag, a seek.

    python examples/replay.py

Billing takes all orders and forgets the tax of large ones. The repaired program gets these orders again."""
import os
import sys
from datetime import timedelta

from queend.client import Client

URL = os.environ.get("QUEEND_URL", "http://localhost:6632")
ORDERS = sys.argv[1] if len(sys.argv) > 1 else "orders-to-replay"


def bill(client: Client) -> list[int]:
    """Bills all orders that billing has not consumed. Returns their numbers. A real program would store each bill under
    `message.key`, so that a second one replaces the first."""
    billed: list[int] = []
    while messages := client.pop(ORDERS, group="billing", batch=10, partitions=10):
        billed += [message.data["order"] for message in messages]
        client.ack(messages)
    return sorted(billed)


def main() -> None:
    with Client(URL) as client:
        client.configure(ORDERS, lease_time=60, retry_limit=3)
        for n in range(1, 6):
            client.push(ORDERS, {"order": n, "cents": 100 * n}, partition=f"customer-{n % 2}", id=f"order-{n}")
        print("to bill:", client.depth(ORDERS, "billing"))
        print("billed:", bill(client))

        # Reading by offset takes no message from any group.
        large = [record for record in client.fetch(ORDERS) if record.data["cents"] >= 400]
        print("without tax:", sorted(record.data["order"] for record in large))

        # A seek moves past all messages that were stored at or before a moment.
        before = min(record.created_at for record in large) - timedelta(microseconds=1)
        client.pause(ORDERS, "billing")
        client.seek(ORDERS, "billing", before)
        for group in client.groups(ORDERS):
            print(f"{group.name}: {group.lag} to bill,", "paused" if group.paused else "running")
        client.resume(ORDERS, "billing")
        print("billed again:", bill(client))


main()
