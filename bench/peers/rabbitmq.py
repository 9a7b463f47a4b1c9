"""RabbitMQ, one node without plugins; `wire` names the type of queue."""

from peers.system import System, free_port, version_of

SERVER = "/usr/lib/rabbitmq/bin/rabbitmq-server"  # the one on the path insists on an account of its own


class RabbitMQ(System):
    package = "rabbitmq-server"

    def start(self) -> None:
        self.version, self.port = version_of(self.package), free_port()
        names, between = free_port(), free_port()
        # The daemon of names would otherwise be started in the background, and stay.
        self.await_port(self.launch(["epmd", "-address", "127.0.0.1", "-port", str(names)]), names)
        config, plugins = self.home / "rabbitmq.conf", self.home / "enabled_plugins"
        config.write_text(f"listeners.tcp.1 = 127.0.0.1:{self.port}\nlog.file.level = warning\n")
        plugins.write_text("[].\n")
        environment = {
            "ERL_EPMD_PORT": str(names), "RABBITMQ_NODENAME": "bench@localhost", "RABBITMQ_DIST_PORT": str(between),
            "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": "-kernel inet_dist_use_interface {127,0,0,1}",
            "RABBITMQ_CONFIG_FILE": str(config), "RABBITMQ_ENABLED_PLUGINS_FILE": str(plugins),
            "RABBITMQ_CONF_ENV_FILE": "/dev/null",
            "RABBITMQ_MNESIA_BASE": str(self.home / "data"), "RABBITMQ_LOG_BASE": str(self.home / "logs"),
            "RABBITMQ_PID_FILE": str(self.home / "pid"), "RABBITMQ_GENERATED_CONFIG_DIR": str(self.home / "generated"),
            "RABBITMQ_ADVANCED_CONFIG_FILE": str(self.home / "advanced.config"),
            "RABBITMQ_SCHEMA_DIR": str(self.home / "schema"),
        }
        (self.home / "data").mkdir(mode=0o777)
        (self.home / "data").chmod(0o777)
        self.await_port(self.launch([SERVER], environment), self.port)


class Quorum(RabbitMQ):
    name, wire = "RabbitMQ, quorum queue", "quorum"
    durability = ("confirmed after `fdatasync` of the write-ahead log, one replica,"
                  " log entries of many publishes per flush")


class Classic(RabbitMQ):
    name, wire = "RabbitMQ, durable classic queue", "classic"
    durability = "persistent messages, confirmed after the queue's journal was flushed"
