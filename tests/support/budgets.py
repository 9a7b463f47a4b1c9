"""What tests of the budgets of clients share: parts of requests, and the figures that say what is taken."""
import contextlib
import socket

from .edge import answers
from .wait import PATIENCE


MIB = 1 << 20


def head(length, path="/x", more=""):
    return f"POST {path} HTTP/1.1\r\nHost: h\r\n{more}Content-Length: {length}\r\n\r\n".encode()


def chunked(path="/x"):
    return f"POST {path} HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n".encode()


def clients(edge):
    return edge.core.stats()["clients"]


def counted(edge, name):
    return sum(worker[name] for worker in edge.core.stats()["workers"])


def elsewhere(edge, address="127.0.0.2"):
    """A connection from another address."""
    sock = socket.create_connection(("127.0.0.1", edge.port), source_address=(address, 0))
    sock.settimeout(PATIENCE)
    return sock


def served(edge):
    with contextlib.closing(edge.connect()) as sock:
        sock.sendall(b"GET /livez HTTP/1.1\r\nHost: h\r\n\r\n")
        return answers(sock, 1)[0][0] == 200


def close(*socks):
    for sock in socks:
        sock.close()


def select_now(sock):
    sock.settimeout(0.2)
    try:
        return bool(sock.recv(1, socket.MSG_PEEK))
    except TimeoutError:
        return False
    finally:
        sock.settimeout(PATIENCE)


def get(path):
    return f"GET {path} HTTP/1.1\r\nHost: h\r\n\r\n".encode()


def push(length, path="/x"):
    return head(length, path) + b"x" * length
