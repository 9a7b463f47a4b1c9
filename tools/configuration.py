"""Prints docs/configuration.md, made of the descriptions in queend/settings/fields.py. A test compares the two."""
from queend.settings.fields import (Clients, Copying, Database, Engine, Failover, Figures, Keeping, Policies, Queues,
                                    Sealing, Server, Telling, Tokens)
from queend.settings.messages import traits, values
from queend.settings.model import Settings
from queend.settings.sources import NO_EFFECT, OLD_STREAMS

HEAD = """# Settings

No setting is required: `queend serve` runs without any. The first of these places that has a value wins.

1. The command line: `queend serve --host`, `--port`, `--log-level`.
2. Credentials, for secrets: files in the directory `CREDENTIALS_DIRECTORY`, one per setting. `LoadCredential=` of
   systemd (`LoadCredential=jwt_secret:/path`) and secrets mounted into a container create such a directory. The name of
   a file is the name of its setting (`pg_password`), with or without the prefix `queend.`; its text is the value.
3. The environment: `PORT=7000 LOG_LEVEL=debug queend serve`.
4. A TOML file that `QUEEND_CONFIG` names. Its keys are in lower case: `port = 7000`.

`queend config --show-origin` prints the effective values and where they come from. An invalid value, an unknown
`QUEEND_…` variable or an unknown key stops the daemon with exit status 2. The message contains the value and the
allowed values.

In the tables, an empty default means none, unless the description says otherwise. Numbers are integers in the unit of
the column, written without the unit (`10000`, not `10s`). Without an upper bound, the maximum is 2147483647. An empty
column of values means any text.

At SIGHUP (`systemctl reload queend`) the daemon reads the TOML file and the credentials again. Settings marked with ↻
change at once, and connections stay open. Changes of other settings take effect at the next start; the log names them
(`setting_needs_restart`). If any value is invalid, nothing changes (`reload_refused`). The environment of a running
process cannot change.

If none of `QUEEND_DSN`, `DATABASE_URL`, `PG_HOST`, `PG_PORT`, `PG_USER`, `PG_PASSWORD` and `PG_DB` is set, the daemon
runs an embedded PostgreSQL in `QUEEND_DATA_DIR`.

Names without `QUEEND_` are those of Queen MQ, so that a deployment can switch without changes. Those without an
effect here are accepted and listed at the end, each with the reason. The daemon logs a warning for each of them that
is set.
"""
GROUPS = {"Server": Server, "Clients": Clients, "PostgreSQL": Database, "Engine": Engine,
          "Batching by job type": Policies,
          "Queues and long poll": Queues, "Failover buffer": Failover,
          "Copying to another database": Copying, "Retention": Keeping,
          "Statistics and metrics": Figures,
          "Peer notices": Telling, "Tokens": Tokens, "Encryption": Sealing}


def shown(value) -> str:
    return "" if value is None else str(value).lower() if isinstance(value, bool) else str(value)


def document() -> str:
    parts = [HEAD]
    for title, group in GROUPS.items():
        parts.append(f"## {title}\n\n| setting | default | unit | values | meaning |\n|---|---|---|---|---|")
        for name in group.__annotations__:
            field = Settings.model_fields[name]
            extra = traits(field)
            default = "half the processors" if name == "num_workers" else shown(field.default)
            mark = " ↻" if extra["live"] else ""
            parts.append(f"| {name.upper()}{mark} | {default} | {extra['unit']} | {values(field)} | "
                         f"{field.description} |")
        parts.append("")
    parts.append("## Names without effect\n\n| names | reason |\n|---|---|")
    for why in dict.fromkeys(NO_EFFECT.values()):
        names = [name for name in NO_EFFECT if NO_EFFECT[name] == why]
        names += [f"{OLD_STREAMS}…"] * (why == NO_EFFECT["QUEUE_POLL_INTERVAL"])
        parts.append(f"| {', '.join(names)} | {why} |")
    parts.append("")
    return "\n".join(parts)


if __name__ == "__main__":
    print(document(), end="")
