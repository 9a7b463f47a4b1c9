"""The benchmark of queend. See METHODOLOGY.md.

    python bench/run.py [--quick] [--only push1,cycle] [--seconds N] [--postgres MAJOR] [--profile]
    URL=http://HOST:PORT python bench/run.py      any server that speaks the protocol

One JSON line per scenario on standard output, a table on standard error; exit 1 when any answer was wrong."""

import argparse
import os
import signal
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))  # the checkout's own queend

from cluster import open_cluster
from environment import environment
from report import Report
from scenarios import NAMES, Scenarios
from server import Daemon, Server


def main() -> int:
    parser = argparse.ArgumentParser(description="Benchmark of queend.")
    parser.add_argument("--quick", action="store_true", help="all scenarios in less than a minute: figures are rough")
    parser.add_argument("--only", default="", metavar="NAMES", help="comma-separated scenarios: " + " ".join(NAMES))
    parser.add_argument("--seconds", type=float, help="length of the measured window of the throughput scenarios")
    parser.add_argument("--postgres", type=int, metavar="MAJOR",
                        help="PostgreSQL major version; default: 15, or what queend itself takes where that is missing")
    parser.add_argument("--profile", action="store_true",
                        help="perf profiles of daemon and PostgreSQL into bench/out/; costs some speed")
    words = parser.parse_args()
    names = [name for name in words.only.split(",") if name] or list(NAMES)
    unknown = set(names) - set(NAMES)
    if unknown:
        parser.error(f"unknown scenario: {', '.join(sorted(unknown))}")
    url = os.environ.get("URL", "")
    cluster, server = None, None
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # what was started is stopped
    try:
        if url:
            server = Server(url)
        else:
            cluster = open_cluster(words.postgres)
            server = Daemon(cluster)
        report = Report(environment(cluster, words.quick))
        report.say("\n".join(f"{key}: {value}" for key, value in report.environment.items() if value is not None))
        scenarios = Scenarios(server, cluster, report, words.quick, words.seconds, words.profile)
        for name in names:
            scenarios.run(name)
        report.table()
        for fault in scenarios.faults:
            report.say(f"FAULT {fault}")
        return 1 if scenarios.faults else 0
    finally:
        if server is not None:
            server.stop()
        if cluster is not None:
            cluster.stop()


if __name__ == "__main__":
    sys.exit(main())
