"""Prints docs/configuration.md: what queend/settings/fields.py says, as tables. A test compares the two."""
from queend.settings.fields import (Clients, Copying, Database, Engine, Failover, Figures, Keeping, Policies, Queues,
                                    Sealing, Server, Telling, Tokens)
from queend.settings.messages import values
from queend.settings.model import Settings
from queend.settings.sources import NO_EFFECT, OLD_STREAMS

HEAD = """# Settings

None has to be set: `queend serve` alone runs. There are four places for them; the first that has a value wins.

1. The command line: `queend serve --host`, `--port`, `--log-level`.
2. Credentials, for what is secret: files of the folder `CREDENTIALS_DIRECTORY`, one a setting.
   `LoadCredential=jwt_secret:/path` of systemd and secrets that a container mounts make such a folder. A file has the
   name of its setting (`pg_password`), perhaps behind `queend.`; its text is the value.
3. The environment: `PORT=7000 LOG_LEVEL=debug queend serve`.
4. A TOML file that `QUEEND_CONFIG` names. Its keys are in lower case: `port = 7000`.

`queend config --show-origin` prints what is in effect and where it comes from. A wrong value, an unknown `QUEEND_…`
variable or an unknown key stops the daemon with status 2 and a line that says what was given and what may be.

How to read the tables: where the default is empty there is none, or the meaning says what it is. A number is a whole
one, in the unit that stands beside it and without a unit behind it (`10000`, not `10s`); where no largest one stands
it is 2147483647. Where no values stand it is a text.

At SIGHUP (`systemctl reload queend`) the daemon reads the TOML file and the credentials again. Those marked with ↻
change then, and no connection ends. Another one that differs stays as it was, and the log says so
(`setting_needs_restart`). Where anything is wrong nothing changes (`reload_refused`). The environment of a process that
runs cannot change.

Without `QUEEND_DSN`, `DATABASE_URL` and any of `PG_HOST`, `PG_PORT`, `PG_USER`, `PG_PASSWORD`, `PG_DB` the daemon runs
a PostgreSQL of its own in `QUEEND_DATA_DIR` and touches no other.

Names without `QUEEND_` are those of Queen MQ, so that a deployment can be switched over as it is. Those that mean
nothing here are accepted and listed at the end, each with the reason; where one is set, that is told at start.
"""
GROUPS = {"Server": Server, "Clients": Clients, "PostgreSQL": Database, "Engine": Engine,
          "Batching by job type": Policies,
          "Queues and long poll": Queues, "Failover buffer": Failover, "Copying": Copying, "Retention": Keeping,
          "Figures": Figures,
          "Daemons that tell each other": Telling, "Tokens": Tokens, "Encryption": Sealing}


def shown(value) -> str:
    return "" if value is None else str(value).lower() if isinstance(value, bool) else str(value)


def document() -> str:
    parts = [HEAD]
    for title, group in GROUPS.items():
        parts.append(f"## {title}\n\n| setting | default | unit | values | meaning |\n|---|---|---|---|---|")
        for name in group.__annotations__:
            field = Settings.model_fields[name]
            extra = field.json_schema_extra
            default = "half the processors" if name == "num_workers" else shown(field.default)
            mark = " ↻" if extra["live"] else ""
            parts.append(f"| {name.upper()}{mark} | {default} | {extra['unit']} | {values(field)} | "
                         f"{field.description} |")
        parts.append("")
    parts.append("## Names without effect\n\n| names | why |\n|---|---|")
    for why in dict.fromkeys(NO_EFFECT.values()):
        names = [name for name in NO_EFFECT if NO_EFFECT[name] == why]
        names += [f"{OLD_STREAMS}…"] * (why == NO_EFFECT["QUEUE_POLL_INTERVAL"])
        parts.append(f"| {', '.join(names)} | {why} |")
    parts.append("")
    return "\n".join(parts)


if __name__ == "__main__":
    print(document(), end="")
