"""queend serve: runs the daemon."""
from __future__ import annotations

import os
import sys
from typing import Annotated

import typer

from ..settings.messages import ConfigError
from .common import fail, refuse, settings_or_exit

SESSION = """
queend listens on {address} - try:{note}

  curl -X POST {address}/api/v1/push -d '{{"items":[{{"queue":"demo","payload":{{"hello":"world"}}}}]}}'
  M=$(curl -s '{address}/api/v1/pop/queue/demo'); echo "$M"
  curl -X POST {address}/api/v1/ack -d \\
    "{{$(echo "$M" | grep -oE '"(transactionId|partitionId|leaseId)":"[^"]*"' | sort -u | paste -sd,)}}"

Ctrl-C stops it; the messages stay in {where}.
"""
OF_TLS = """

  # The URL needs a name of the certificate. If its authority is your own: export SSL_CERT_FILE=ca.pem"""


def serve(
    host: Annotated[str | None, typer.Option(help="Address to listen on (HOST).")] = None,
    port: Annotated[int | None, typer.Option(help="HTTP port (PORT); 0 picks a free port.")] = None,
    log_level: Annotated[str | None, typer.Option(help="Log level: trace, debug, info, warn or error "
                                                       "(LOG_LEVEL).")] = None,
) -> None:
    """Run the daemon, with the configured PostgreSQL or with an embedded one."""
    from ..daemon.supervisor import StartError, Supervisor  # here: the other commands do not need them

    words = (("host", host), ("port", port), ("log_level", log_level))
    given = {name: value for name, value in words if value is not None}
    settings = settings_or_exit(**given)

    def greet(address: str) -> None:
        where = str(supervisor.embedded.folder) if supervisor.embedded else "the database"
        sys.stdout.write(SESSION.format(address=address, where=where,
                                        note=OF_TLS if address.startswith("https:") else ""))
        sys.stdout.flush()

    try:
        supervisor = Supervisor(settings, given)
        status = supervisor.run(greet if sys.stdout.isatty() or supervisor.embedded else None)
    except ConfigError as error:
        refuse(error)
    except StartError as error:
        fail(str(error))
    # Everything is ended in order and written. Taking the interpreter down object by object would delay the end of the
    # process.
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)
