"""Prints docs/metrics.md: what a daemon tells Prometheus, as it tells it. A test compares the two.

    python tools/metrics.py

Starts a daemon with a PostgreSQL of its own in a folder that is removed, and has it do a little of everything."""
from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

HEAD = """# Metrics

This page lists the metrics of `GET /metrics/prometheus`, with their help texts. The [Prometheus](prometheus.md) page
says which of them to watch, and has alert rules. A counter's name ends with `_total`; a histogram has `_bucket`, `_sum`
and `_count`. Families marked with * are present only while they have a value.

Metrics `queen_cluster_…` have the label `scope="cluster"`, as in Queen MQ. Only `queen_cluster_ack_total` covers all
daemons.
"""
PARTS = {"queend_": "Names of queend", "queen_": "Names of Queen MQ"}
FAMILY = re.compile(r"^# HELP (\S+) (.*)\n# TYPE \S+ (\S+)\n((?:(?!# ).*\n)*)", re.M)
# Present only at times: type, labels, text.
SOMETIMES = {
    "queend_certificate_expires_seconds": (
        "gauge", "", "Time until the certificate of the port expires; negative after its expiry."),
    "queend_doctor_finding": ("gauge", "check, level", "Findings of queend doctor, by check and level."),
    "queend_doctor_round_failed": ("gauge", "", "1 if the doctor's last round failed and has no findings."),
    "queend_doctor_round_seconds": ("gauge", "", "Duration of the doctor's last round."),
    "queend_doctor_round_timestamp_seconds": ("gauge", "", "Unix time at which the doctor's last round ended."),
    "queend_spans_sent_total": ("counter", "", "Trace spans that the collector accepted."),
    "queend_spans_failed_total": ("counter", "", "Trace spans that the collector did not accept."),
    "queend_standing_partitions": ("gauge", "queue, group", "Blocked partitions: leases with the same first message "
                                                            "expire again and again."),
    "queend_standing_seconds": ("gauge", "queue, group", "Time since the oldest blocked partition was blocked."),
}


def families(told: str) -> dict[str, tuple[str, str, str]]:
    """Name → type, labels, what it is; from an exposition."""
    found = {}
    for name, text, kind, samples in FAMILY.findall(told):
        labels = dict.fromkeys(re.findall(r'(\w+)="', "".join(re.findall(r"\{[^}]*\}", samples.partition("\n")[0]))))
        found[name] = (kind, ", ".join(one for one in labels if one != "le"), text)
    return found


def document(found: dict[str, tuple[str, str, str]]) -> str:
    parts = [HEAD]
    for prefix, title in PARTS.items():
        parts.append(f"## {title}\n\n| metric | type | labels | description |\n|---|---|---|---|")
        for name, (kind, labels, text) in sorted((found | SOMETIMES).items()):
            if name.startswith(prefix):
                parts.append(f"| `{name}`{'*' * (name in SOMETIMES)} | {kind} | {labels} | {text} |")
        parts.append("")
    return "\n".join(parts)


def busy(url: str) -> str:
    """Has the daemon do a little of everything; what it tells then."""
    def ask(path: str, body: object = None) -> bytes:
        data = None if body is None else json.dumps(body).encode()
        with urllib.request.urlopen(urllib.request.Request(url + path, data)) as answer:
            return answer.read()

    ask("/api/v1/configure", {"queue": "metrics", "options": {"retryLimit": 0}})
    ask("/api/v1/push", {"items": [{"queue": "metrics", "payload": n} for n in range(3)]})
    (first, *_) = json.loads(ask("/api/v1/pop/queue/metrics?consumerGroup=group&batch=1&wait=true"))["messages"]
    ask("/api/v1/ack", {**{name: first[name] for name in ("transactionId", "partitionId", "leaseId")},
                        "consumerGroup": "group", "status": "failed"})
    ask("/api/v1/stats/refresh", {})
    return ask("/metrics/prometheus").decode()


@contextmanager
def daemon() -> Iterator[str]:
    """Runs a daemon with a PostgreSQL of its own. Yields its URL."""
    with tempfile.TemporaryDirectory() as folder:
        kept = {name: os.environ[name] for name in ("PATH", "PYTHONPATH") if name in os.environ}
        process = subprocess.Popen([sys.executable, "-m", "queend", "serve"], stdin=subprocess.DEVNULL, text=True,
                                   stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                                   env={**kept, "QUEEND_DATA_DIR": str(Path(folder) / "data"), "PORT": "0"})
        try:
            told = (json.loads(line) for line in process.stderr or () if line.startswith("{"))
            port = next(line["port"] for line in told if line["event"] == "ready")
            yield f"http://127.0.0.1:{port}"
        finally:
            process.terminate()
            process.communicate()


if __name__ == "__main__":
    with daemon() as base:
        print(document(families(busy(base))), end="")
