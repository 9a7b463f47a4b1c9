"""The end of a service."""
import asyncio

from queend.services.running import Running


class Stubborn(Running):
    """Its library raises an error of its own when it is cancelled, as a pool of connections does that is closing."""

    async def _run(self) -> None:
        try:
            await self._rest(3600)
        except asyncio.CancelledError:
            raise RuntimeError("closed") from None


def test_a_service_ends_whose_cancellation_became_an_error() -> None:
    async def life() -> None:
        service = Stubborn()
        service.open()
        await asyncio.sleep(0)      # it begins
        await service.close()

    asyncio.run(life())
