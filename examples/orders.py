"""Orders by the Python client (queend's extra `client`): two groups, a failing message, a transaction.

    python examples/orders.py

Workers, which do most of this by themselves: fastapi_orders.py."""
import os
import sys

from queend.client import Client, Message

URL = os.environ.get("QUEEND_URL", "http://localhost:6632")
ORDERS, BILLS = sys.argv[1:3] if len(sys.argv) > 2 else ("orders-by-python", "bills-by-python")


def take(client: Client, group: str, count: int = 10) -> list[Message]:
    """Waits for messages of the queue. They are leased to this program until they are acknowledged."""
    return client.pop(ORDERS, group=group, batch=count, wait=10)


def main() -> None:
    with Client(URL) as client:
        client.call("POST", "/api/v1/configure", body={"queue": ORDERS, "options": {"leaseTime": 60, "retryLimit": 1}})
        stored = [client.push(ORDERS, {"order": n, "cents": 100 * n}, partition="customer-7", id=f"order-{n}")
                  for n in (1, 2, 3)]
        print("stored:", [one.status for one in stored])

        # A group for statistics gets every message, whatever billing does with them.
        seen = take(client, "statistics")
        print("statistics:", sum(message.data["cents"] for message in seen), "cents")
        client.ack(seen)

        # Billing fails with the first order: it is delivered once more, then becomes a dead letter.
        for _ in range(2):
            first, *_ = take(client, "billing", 1)
            client.fail(first, "no such account")
        dead = client.call("GET", "/api/v1/dlq", query={"queue": ORDERS, "consumerGroup": "billing"})["messages"]
        print("dead letters:", [(letter["data"]["order"], letter["errorMessage"]) for letter in dead])

        # The others become bills, which are stored and acknowledged in one transaction. The client sends it again after
        # a lost answer; because of the ids it takes effect once.
        rest = take(client, "billing")
        with client.transaction() as step:
            step.ack(rest)
            for message in rest:
                step.push(BILLS, {"bill": message.data["order"]}, partition=message.partition,
                          id=f"bill-of-{message.key}")
        bills = client.pop(BILLS, batch=10, wait=10)
        print("bills:", [message.data["bill"] for message in bills])
        client.ack(bills)


main()
