"""Orders by the published client (`pip install queen-mq`): two groups, a message that fails, a transaction."""
import asyncio
import os
import sys

from queen import Queen

URL = os.environ.get("QUEEND_URL", "http://localhost:6632")
ORDERS, BILLS = sys.argv[1:3] if len(sys.argv) > 2 else ("orders-by-python", "bills-by-python")


async def take(queen: Queen, group: str, count: int = 10) -> list[dict]:
    """Waits for messages of the queue; they are leased to us until they are acknowledged."""
    return await queen.queue(ORDERS).group(group).batch(count).wait(True).timeout_millis(10_000).pop()


async def main() -> None:
    async with Queen(URL) as queen:
        await queen.queue(ORDERS).config({"lease_time": 60, "retry_limit": 1}).create()
        stored = await queen.queue(ORDERS).partition("customer-7").push(
            [{"data": {"order": n, "cents": 100 * n}} for n in (1, 2, 3)])
        print("stored:", [one["status"] for one in stored])

        # A group for statistics gets every message, whatever billing does with them.
        seen = await take(queen, "statistics")
        print("statistics:", sum(one["data"]["cents"] for one in seen), "cents")
        await queen.ack(seen, True, {"group": "statistics"})

        # Billing cannot do the first order: it is delivered once more, then put aside as a dead letter.
        for _ in range(2):
            first, *_ = await take(queen, "billing", 1)
            await queen.ack(first, False, {"group": "billing", "error": "no such account"})
        dead = await queen.queue(ORDERS).dlq("billing").get()
        print("dead letters:", [(one["data"]["order"], one["errorMessage"]) for one in dead["messages"]])

        # The others become bills: stored and acknowledged in one transaction, both or neither. The ids let it be sent
        # again after a lost answer: then it is refused as a duplicate.
        rest = await take(queen, "billing")
        transaction = queen.transaction()
        for one in rest:
            transaction.queue(BILLS).partition(one["partition"]).push(
                {"data": {"bill": one["data"]["order"]}, "transactionId": f"bill-of-{one['transactionId']}"})
        transaction.ack(rest, "completed", {"consumer_group": "billing"})
        await transaction.commit()
        bills = await queen.queue(BILLS).batch(10).wait(True).timeout_millis(10_000).pop()
        print("bills:", [one["data"]["bill"] for one in bills])
        await queen.ack(bills, True)


asyncio.run(main())
