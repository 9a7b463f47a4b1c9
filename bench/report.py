"""One JSON line per scenario on standard output; the same as a table on standard error."""

import json
import sys

FIELDS = ("scenario", "messages_per_s", "requests_per_s", "p50_ms", "p99_ms", "daemon_cpu_us_per_message",
          "postgres_cpu_us_per_message", "wal_bytes_per_message", "disk_bytes_per_message", "rss_mb", "floor_ratio")
HEADS = ("scenario", "msg/s", "req/s", "p50 ms", "p99 ms", "daemon us", "pg us", "WAL B", "disk B", "RSS MB", "floor")


def shorten(value):
    """Four significant digits, more for large numbers; None stays None."""
    if not isinstance(value, float):
        return value
    return round(value) if abs(value) >= 1000 else float(f"{value:.4g}")


def cell(value) -> str:
    if value is None:
        return "-"
    return f"{value:,}".replace(",", " ") if isinstance(value, (int, float)) else value


class Report:
    def __init__(self, environment: dict):
        self.environment = environment
        self.lines = []

    def say(self, text: str) -> None:
        print(text, file=sys.stderr, flush=True)

    def add(self, **values) -> None:
        """A finished scenario: the fields every line has, then whatever else the scenario knows."""
        line = {field: shorten(values.pop(field, None)) for field in FIELDS}
        line |= {key: shorten(value) for key, value in values.items()}
        self.lines.append(line)
        print(json.dumps(line | {"environment": self.environment}), flush=True)
        extra = " ".join(f"{key}={cell(value)}" for key, value in line.items() if key not in FIELDS
                         and value not in (0, None))
        self.say(f"  {line['scenario']}: {cell(line['messages_per_s'])} msg/s  {extra}")

    def table(self) -> None:
        rows = [HEADS] + [tuple(cell(line[field]) for field in FIELDS) for line in self.lines]
        widths = [max(len(row[i]) for row in rows) for i in range(len(HEADS))]
        self.say("")
        for row in rows:
            self.say("  ".join(text.ljust(width) if i == 0 else text.rjust(width)
                               for i, (text, width) in enumerate(zip(row, widths))))
