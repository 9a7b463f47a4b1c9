"""A server that only takes what clients send, as much of it as the daemon takes: the floor of what is possible here.

Bodies have a budget, as the daemon's: what finds no room is refused, and a few MiB of it are swallowed. A body that is
complete is answered and forgotten, also if it was pipelined. A question for a message of 60 MiB is answered with as
much as the kernel takes, one for a new group like a body, and any other question not at all.
"""
from __future__ import annotations

import contextlib
import multiprocessing
import re
import selectors
import socket
from collections.abc import Iterator

MIB = 1 << 20
BUDGET, SWALLOWED = 128 * MIB, 4 * MIB
HEAD = re.compile(rb"Content-Length: (\d+)\r\n(?:[^\r\n]+\r\n)*\r\n")
REFUSED = b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
NEW_GROUP = b"subscriptionMode=all"
DONE = b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n"


class Taking:
    """One client: bytes still to come, of which `held` are in the budget, and an incomplete head."""
    def __init__(self) -> None:
        self.left: int | None = None
        self.held = 0
        self.head = b""


def serve(told: multiprocessing.connection.Connection) -> None:
    room, into = BUDGET, bytearray(256 << 10)
    ready = selectors.DefaultSelector()
    listener = socket.create_server(("127.0.0.1", 0), backlog=4096)
    listener.setblocking(False)
    ready.register(listener, selectors.EVENT_READ)
    told.send(listener.getsockname())
    while True:
        for key, _ in ready.select():
            if key.fileobj is listener:
                with contextlib.suppress(BlockingIOError):
                    while True:
                        one, _ = listener.accept()
                        one.setblocking(False)
                        ready.register(one, selectors.EVENT_READ, Taking())
                continue
            one, taking = key.fileobj, key.data
            try:
                got = one.recv_into(into)
            except BlockingIOError:
                continue
            except OSError:
                got = 0
            came, at = memoryview(taking.head + into[:got]) if taking.head else memoryview(into)[:got], 0
            taking.head = b""
            while at < len(came):
                if taking.left is None:
                    if not (head := HEAD.search(came, at)):
                        if came[at:at + 4] == b"POST":
                            taking.head = bytes(came[at:])
                        break
                    taking.held = int(head[1]) if int(head[1]) <= room else 0
                    taking.left = int(head[1])
                    at = head.end()
                    room -= taking.held
                    if not taking.held:
                        taking.left = SWALLOWED
                        one.send(REFUSED)
                        one.shutdown(socket.SHUT_WR)
                more = min(len(came) - at, taking.left)
                at += more
                taking.left -= more
                if taking.left == 0 and taking.held:
                    with contextlib.suppress(OSError):
                        one.send(DONE)
                    room, taking.held, taking.left = room + taking.held, 0, None
                elif taking.left == 0:
                    got = 0
                    break
            if at == 0 and got and b"/queue/big/" in into[:got]:
                with contextlib.suppress(BlockingIOError):
                    while True:
                        one.send(bytes(MIB))
            elif at == 0 and got:
                with contextlib.suppress(OSError):
                    one.send(DONE * bytes(came).count(NEW_GROUP))
            if not got:
                room += taking.held
                ready.unregister(one)
                one.close()


@contextlib.contextmanager
def running() -> Iterator[tuple[str, int]]:
    """Its address."""
    spawn = multiprocessing.get_context("spawn")
    heard, told = spawn.Pipe(False)
    process = spawn.Process(target=serve, args=(told,), daemon=True)
    process.start()
    try:
        yield heard.recv()
    finally:
        process.terminate()
        process.join()
