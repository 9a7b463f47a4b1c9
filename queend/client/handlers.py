"""Where handlers run: coroutines in the event loop of the program, functions in threads, and neither in the loop that
keeps their leases."""
from __future__ import annotations

import asyncio
import contextvars
import inspect
import threading
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Union

from .context import Context

Handler = Callable[..., Union[Awaitable[None], None]]
CallNext = Callable[[], Awaitable[None]]
Middleware = Callable[[Any, CallNext], Awaitable[None]]


class Handlers:
    """Calls handlers from another loop. loop: that of coroutines; middleware: runs around handlers, the first
    outermost."""

    def __init__(self, loop: asyncio.AbstractEventLoop, middleware: Sequence[Middleware] = ()):
        self._loop, self._middleware = loop, tuple(middleware)

    def handle(self, handler: Handler, argument: Any, context: Context) -> asyncio.Future[None]:
        """Begins a call of the handler of a worker inside the middleware. Returns its result like `call`."""
        if not self._middleware:
            return self.call(handler, (argument,), context)
        context.returned = False
        return self._in_loop(self._within, (self._middleware, handler, argument, context))

    def call(self, handler: Handler, arguments: tuple[Any, ...], context: Context) -> asyncio.Future[None]:
        """Begins a call and returns its result as a future of the caller's loop. To cancel it cancels a coroutine; a
        function in a thread goes on, and its result counts for nothing."""
        if takes_context(handler, len(arguments)):
            arguments = (*arguments, context)
        return self._in_loop(handler, arguments) if is_coroutine(handler) else _in_thread(handler, arguments)

    def _in_loop(self, handler: Handler, arguments: tuple[Any, ...]) -> asyncio.Future[None]:
        return asyncio.wrap_future(asyncio.run_coroutine_threadsafe(_awaited(handler, arguments), self._loop))

    async def _within(self, middleware: Sequence[Middleware], handler: Handler, argument: Any,
                      context: Context) -> None:
        """Calls the first middleware, which calls the rest; without middleware left, the handler."""
        if middleware:
            called = False

            async def call_next() -> None:
                nonlocal called
                if called:
                    raise RuntimeError("call_next was called twice; to repeat a failure, let the exception pass")
                called = True
                await self._within(middleware[1:], handler, argument, context)

            await _finished(middleware[0](argument, call_next))
            return
        arguments = (argument, context) if takes_context(handler, 1) else (argument,)
        await (_awaited if is_coroutine(handler) else _in_thread)(handler, arguments)
        context.returned = True


async def _awaited(handler: Handler, arguments: tuple[Any, ...]) -> None:
    try:
        result = handler(*arguments)
        if result is not None:
            await _finished(result)
    except (KeyboardInterrupt, SystemExit) as error:     # of the handler, and not meant for the loop
        raise RuntimeError(f"the handler raised {error!r}") from error


async def _finished(running: Awaitable[object]) -> None:
    refuse_unrun(await running)


def _in_thread(handler: Handler, arguments: tuple[Any, ...]) -> asyncio.Future[None]:
    loop = asyncio.get_running_loop()
    future: asyncio.Future[None] = loop.create_future()
    variables = contextvars.copy_context()

    def told(error: BaseException | None) -> None:
        if future.done():
            return
        if error is None:
            future.set_result(None)
        elif isinstance(error, Exception) and not isinstance(error, StopIteration):
            future.set_exception(error)
        else:
            future.set_exception(RuntimeError(f"the handler raised {error!r}"))

    def body() -> None:
        caught: BaseException | None = None
        try:
            refuse_unrun(variables.run(handler, *arguments))
        except BaseException as error:
            caught = error
        try:
            loop.call_soon_threadsafe(told, caught)
        except RuntimeError:        # the worker has ended without waiting for this thread
            pass

    threading.Thread(target=body, name=f"queend-{getattr(handler, '__name__', 'handler')}", daemon=True).start()
    return future


def refuse_unrun(result: object) -> None:
    """Raises TypeError if a handler returned a coroutine, a generator or the like: its body was not run."""
    if inspect.isawaitable(result) or inspect.isgenerator(result) or inspect.isasyncgen(result):
        if inspect.iscoroutine(result):
            result.close()
        raise TypeError(f"the handler returned a value of type {type(result).__name__}, which was not run: make it a "
                        "coroutine function (async def) that awaits and does not yield")


def is_coroutine(handler: Handler) -> bool:
    """Whether a call of a handler returns a coroutine."""
    return inspect.iscoroutinefunction(handler) or inspect.iscoroutinefunction(getattr(handler, "__call__", None))


def takes_context(handler: Handler, arguments: int) -> bool:
    """Whether a handler has a parameter for a context behind its other arguments."""
    try:
        parameters = inspect.signature(handler).parameters.values()
    except ValueError:
        return False
    if any(one.kind is one.VAR_POSITIONAL for one in parameters):
        return True
    return sum(one.kind in (one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD) for one in parameters) > arguments
