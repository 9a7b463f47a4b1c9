"""A TCP proxy between a client and a server that does what the test says with each piece that passes."""
from __future__ import annotations

import select
import socket
import ssl
import struct
import threading

CUT = object()
MUTE = object()


class Listener:
    """Listens on `port` and hands each connection to `_take`, in its thread."""

    def __init__(self):
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self):
        if self.listener.fileno() >= 0:
            self.listener.shutdown(socket.SHUT_RDWR)
            self.listener.close()

    def _accept(self):
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            self._take(client)


class Proxy(Listener):
    """Listens on `port`, forwards to `target`. `rule(to_server: bool, data: bytes)` is called for one piece at a time
    and returns what to deliver, as a list of bytes; CUT in it ends the connection at that place, MUTE lets nothing more
    through in this direction, a function is called and delays what stands behind it. `speaks`: the client's socket of
    the connection that the piece belongs to."""

    def __init__(self, target):
        self.target = target
        self.rule = pass_on
        self.speaks = None
        self.lock = threading.Lock()
        self.reset = False                      # a cut is a RST instead of a FIN
        self.sockets = set()
        super().__init__()

    def close(self):
        """No more connections, and an end to those there are."""
        super().close()
        self.cut()

    def cut(self):
        with self.lock:
            for s in list(self.sockets):
                self._drop(s)

    def _take(self, client):
        try:
            server = socket.create_connection(("127.0.0.1", self.target))
        except OSError:
            client.close()
            return
        for s in (client, server):
            s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        with self.lock:
            self.sockets |= {client, server}
        threading.Thread(target=self._pump, args=(client, server, True), daemon=True).start()
        threading.Thread(target=self._pump, args=(server, client, False), daemon=True).start()

    def _pump(self, source, sink, to_server):
        mute = False
        try:
            while data := source.recv(65536):
                with self.lock:
                    self.speaks = source if to_server else sink
                    pieces = [] if mute else self.rule(to_server, data)
                for piece in pieces:
                    if piece is CUT:
                        return
                    if piece is MUTE:
                        mute = True
                        break
                    if callable(piece):
                        piece()
                        continue
                    sink.sendall(piece)
        except OSError:
            pass
        finally:
            with self.lock:
                self._drop(source)
                self._drop(sink)

    def _drop(self, s):
        if s in self.sockets:
            self.sockets.discard(s)
            try:
                if self.reset:
                    s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                # Also ends the other thread's recv, which would keep the socket open.
                s.shutdown(socket.SHUT_RD if self.reset else socket.SHUT_RDWR)
            except OSError:
                pass
            s.close()


def pass_on(to_server, data):
    return [data]


def one_by_one(to_server, data):
    """Every byte in a packet of its own."""
    return [data[i:i + 1] for i in range(len(data))]


def swallow(to_server, data):
    """The other side is there and says nothing."""
    return []


class TlsFront(Listener):
    """Speaks TLS with the client and plainly with the server behind it."""

    def __init__(self, target, context):
        self.target = target
        self.context = context
        self.versions = []                      # of the handshakes that succeeded
        self.failures = []                      # and why others did not
        super().__init__()

    def _take(self, client):
        threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _asked(self, client):
        """What is said before the handshake."""

    def _serve(self, client):
        with client, socket.create_connection(("127.0.0.1", self.target)) as server:
            self._asked(client)
            try:
                with self.context.wrap_socket(client, server_side=True) as tls:
                    self.versions.append(tls.version())
                    self._pump(tls, server)
            except (ssl.SSLError, OSError) as error:
                self.failures.append(str(error))

    def _pump(self, tls, server):
        # One thread for both directions: a TLS session must not be used from two.
        while True:
            ready = [tls] if tls.pending() else select.select([tls, server], [], [])[0]
            for source in ready:
                data = source.recv(65536)
                if not data:
                    return
                (server if source is tls else tls).sendall(data)


class PostgresTlsFront(TlsFront):
    """As a server of PostgreSQL does it, after SSLRequest."""

    SSL_REQUEST = struct.pack(">ii", 8, 80877103)

    def _asked(self, client):
        assert client.recv(8) == self.SSL_REQUEST
        client.sendall(b"S")
