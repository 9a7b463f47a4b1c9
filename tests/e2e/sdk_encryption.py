"""An encrypted queue through the SDK, run by test_encryption.py inside the SDK's own environment.

Usage: sdk_encryption.py URL OPTIONS (of the client, as JSON) NAME. Prints the queues that were used; an assertion ends
the program.
"""
from __future__ import annotations

import asyncio
import json
import sys

from queen import Queen

SOURCE, TARGET = f"{sys.argv[3]}-in", f"{sys.argv[3]}-out"
VALUES = [{"n": n, "text": f"plainly-seen {n}"} for n in range(300)]


async def main() -> None:
    async with Queen(url=sys.argv[1], **json.loads(sys.argv[2])) as queen:
        for name in (SOURCE, TARGET):
            made = await queen.queue(name).config({"encryption_enabled": True, "retry_limit": 0}).create()
            assert made["options"]["encryptionEnabled"] is True, made
        await queen.queue(SOURCE).push([{"data": one} for one in VALUES])
        seen: list = []
        while messages := await queen.queue(SOURCE).group("one").batch(70).wait(False).pop():
            seen += [one["data"] for one in messages]
            await queen.ack(messages, True, {"group": "one"})
        assert seen == VALUES, seen
        first, second = await queen.queue(SOURCE).batch(2).wait(False).pop()
        await queen.transaction().ack(first).queue(TARGET).push([{"data": {"moved": first["data"]}}]).commit()
        await queen.ack(second, False, {"error": "no good"})
        (moved,) = await queen.queue(TARGET).batch(5).wait(False).pop()
        assert moved["data"] == {"moved": VALUES[0]}, moved
        assert [one["data"] for one in (await queen.queue(SOURCE).dlq().get())["messages"]] == [VALUES[1]]
        assert (await queen.admin.get_message(first["partitionId"], first["transactionId"]))["payload"] == VALUES[0]
    print(f"{SOURCE}\n{TARGET}")


asyncio.run(main())
