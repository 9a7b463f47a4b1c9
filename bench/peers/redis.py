"""Redis, one server, with its append-only file."""

from peers.system import System, free_port, version_of


class Redis(System):
    wire, package = "resp", "redis-server"

    def __init__(self, fsync: str) -> None:
        """fsync: `everysec` or `always`, as of appendfsync."""
        super().__init__()
        self.fsync, self.name = fsync, f"Redis, {fsync}"
        self.durability = ("flushed before the answer" if fsync == "always"
                           else "flushed once a second; a crash may lose that much")

    def start(self) -> None:
        self.version, self.port = version_of(self.package), free_port()
        process = self.launch(["redis-server", "--port", str(self.port), "--bind", "127.0.0.1", "--save", "",
                               "--appendonly", "yes", "--appendfsync", self.fsync, "--dir", str(self.home)])
        self.await_port(process, self.port)
