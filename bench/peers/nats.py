"""NATS JetStream, one server, file storage."""

from peers.system import System, free_port, version_of


class Nats(System):
    name, wire, package = "NATS JetStream", "nats", "nats-server"
    durability = ("written to the file, not flushed: `fsync` every 2 minutes, which this version cannot change;"
                  " a crash of the machine may lose that much")

    def start(self) -> None:
        self.version, self.port = version_of(self.package), free_port()
        config = self.home / "nats.conf"
        config.write_text(f'listen: "127.0.0.1:{self.port}"\n'
                          f'jetstream {{ store_dir: "{self.home}/store", max_memory_store: 1GB,'
                          f' max_file_store: 64GB }}\n')
        self.await_port(self.launch(["nats-server", "-c", str(config)]), self.port)


class NatsIds(Nats):
    name, wire = "NATS JetStream, with ids", "natsids"
    durability = "as above; every message carries an id, duplicates are found for 2 minutes"
