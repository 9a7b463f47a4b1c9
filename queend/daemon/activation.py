"""Sockets that systemd binds and passes on (sd_listen_fds): LISTEN_PID, LISTEN_FDS. They stay open in systemd while the
daemon restarts, so that no connection is refused."""
from __future__ import annotations

import os
import socket

FIRST = 3                # the number of the first socket
MOST = 64
NAMES = ("LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES")


class ActivationError(RuntimeError):
    """The passed sockets cannot be served; the message is for the operator."""


def sockets() -> list[int]:
    """Returns the sockets passed to this process; an empty list without systemd. Child processes inherit neither the
    sockets nor the variables."""
    given = {name: os.environ.pop(name, "") for name in NAMES}
    if given["LISTEN_PID"] != str(os.getpid()):      # meant for the process that started this one
        return []
    if not given["LISTEN_FDS"].isdigit() or not 1 <= int(given["LISTEN_FDS"]) <= MOST:
        raise ActivationError(f"LISTEN_FDS: {given['LISTEN_FDS'] or 'an empty value'} is not a number from 1 to {MOST}")
    numbers = list(range(FIRST, FIRST + int(given["LISTEN_FDS"])))
    for number in numbers:
        try:
            os.set_inheritable(number, False)
            os.set_blocking(number, False)
            with socket.socket(fileno=os.dup(number)) as one:
                listens = (one.family in (socket.AF_INET, socket.AF_INET6) and one.type == socket.SOCK_STREAM
                           and one.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN))
        except OSError as error:
            raise ActivationError(f"LISTEN_FDS: descriptor {number}: {error.strerror}") from None
        if not listens:
            raise ActivationError(f"LISTEN_FDS: descriptor {number} is not a listening TCP socket (use ListenStream= "
                                  "with an address and a port)")
    return numbers
