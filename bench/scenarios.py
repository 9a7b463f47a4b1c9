"""The scenarios: what each one sends, and what it counts. METHODOLOGY.md explains them in words."""

import psycopg

from generator import run_floor
from lab import Lab, Window

PUSHES = {
    "push1": dict(conns=64, items=1, partitions=1000, ids=7),
    "push100": dict(conns=16, items=100, partitions=1000, ids=7),
    "push100v4": dict(conns=16, items=100, partitions=1000, ids=4),
    "push100few": dict(conns=16, items=100, partitions=10, ids=7),
    "push1000few": dict(conns=8, items=1000, partitions=10, ids=7),
}
POPS = {"pop50": "push100", "pop50few": "push100few", "cycle": "push100"}  # and what fills the queue for it
# what the consumers of a pipeline ask for
PIPELINES = {"pipeline": dict(batch=50), "pipeline64": dict(batch=50, claim=64), "pipelineauto": dict(autopilot=1)}
NAMES = ("push1", "push100", "push100v4", "push100few", "push1000few", "pop50", "pop50few", "cycle", *PIPELINES,
         "latency", "idle", "xmin")
MOST_MESSAGES = 12_000_000  # one scenario stores no more than that, however fast the server is
LEAST_MESSAGES = 5000       # a window of pushes lasts until so many are stored, so that pops have a stock to measure


class Scenarios(Lab):
    def __init__(self, server, cluster, report, quick: bool, seconds: float | None, profile: bool):
        super().__init__(server, cluster, profile)
        self.report, self.quick = report, quick
        self.seconds = seconds or (1.8 if quick else 12.0)
        self.warm = 0.5 if quick else 2.0
        self.floors = {}   # push scenario: the queue its floor filled

    def run(self, name: str) -> None:
        if name in PUSHES:
            self.push(name)
        elif name in POPS:
            self.pop(name, POPS[name])
        elif name in PIPELINES:
            self.pipeline(name)
        else:
            getattr(self, name)()

    def base(self, name: str, report: dict, role: str, window: Window, disk) -> dict:
        got, seconds = report["roles"][role], report["seconds"] or 1e-9
        messages = got["messages"]
        total = max(got["stored"], got["taken"], 1)
        return dict(scenario=name, messages_per_s=messages / seconds, requests_per_s=got["requests"] / seconds,
                    p50_ms=got["p50_ms"],
                    p99_ms=got["p99_ms"], max_ms=got["max_ms"],
                    disk_bytes_per_message=None if disk is None else disk / total,
                    errors=got["errors"], duplicates=got["duplicates"],
                    load_cpu_us_per_message=report["cpu_seconds"] / messages * 1e6
                    if messages else None) | window.per(messages)

    # the scenarios

    def push(self, name: str) -> None:
        queue, shape = "bench-" + name, PUSHES[name]
        self.prepare(queue, shape["partitions"])
        role = dict(kind="push", name=name, queue=queue, count=MOST_MESSAGES, least=LEAST_MESSAGES, **shape)
        report, window, disk = self.load(self.warm, self.seconds, role)
        self.check(name, queue)
        line = self.base(name, report, name, window, disk)
        self.report.add(**line, **self.push_floor(name, line))

    def push_floor(self, name: str, line: dict) -> dict:
        """The same statement with batches as large as those the daemon formed, by one connection and by two; the better
        one counts."""
        if self.cluster is None:
            return {}
        shape, queue = PUSHES[name], "floor-" + name
        batch = max(1, round(line["messages_per_commit"]))
        seconds = 0.6 if self.quick else 4.0
        rates = {n: run_floor(self.cluster.dsn, "push", seconds, n, batch, shape["partitions"], shape["ids"],
                              queue)["messages_per_s"]
                 for n in ((1,) if self.quick else (1, 2))}
        self.floors[name] = queue
        best = max(rates.values())
        copy = run_floor(self.cluster.dsn, "copy", seconds / 2, 1, batch, shape["partitions"], shape["ids"],
                         queue)["messages_per_s"]
        return dict(floor_ratio=line["messages_per_s"] / best, floor_messages_per_s=best, copy_messages_per_s=copy,
                    floor_connections=max(rates, key=rates.get))

    def fill(self, name: str) -> str:
        """The queue a push scenario filled, filling it now when that one did not run."""
        queue, shape = "bench-" + name, PUSHES[name]
        if queue not in self.stored:
            self.prepare(queue, shape["partitions"])
            self.load(0, self.seconds, dict(kind="push", name=name, queue=queue, count=MOST_MESSAGES // 2,
                                         least=LEAST_MESSAGES, **shape))
        return queue

    def pop(self, name: str, source: str) -> None:
        queue, lease = self.fill(source), int(name == "cycle")
        role = dict(kind="pop", name=name, queue=queue, conns=16, batch=50, lease=lease, wait=1, timeout=2000, least=1,
                    count=self.stored[queue] * 95 // 100)
        if lease:
            role["group"] = "cycle"
        report, window, disk = self.load(0.1, self.seconds, role)
        line = self.base(name, report, name, window, disk)
        self.report.add(**line, **self.pop_floor(name, source, line, report["roles"][name]))

    def pop_floor(self, name: str, source: str, line: dict, got: dict) -> dict:
        """The same statements with as many requests per call as the daemon fused, on a queue that the floor of the push
        filled."""
        if self.cluster is None or not got["messages"]:
            return {}
        if source not in self.floors:
            run_floor(self.cluster.dsn, "push", 1.0 if self.quick else 5.0, 1, 1000, PUSHES[source]["partitions"],
                      7, "floor-" + source)
            self.floors[source] = "floor-" + source
        lease = int(name == "cycle")
        requests = max(1, round(line["messages_per_commit"] * (1 + lease) / 50))
        floor = run_floor(self.cluster.dsn, "pop", 0.6 if self.quick else 4.0, requests, 50, lease,
                          self.floors[source])["messages_per_s"]
        return dict(floor_ratio=line["messages_per_s"] / floor if floor else None, floor_messages_per_s=floor)

    def pipeline(self, name: str) -> None:
        queue = "bench-" + name
        self.prepare(queue, 1000)
        report, window, disk = self.load(
            self.warm, self.seconds,
            dict(kind="push", name="push", queue=queue, conns=64, items=1, partitions=1000, ids=7),
            dict(kind="pop", name="pop", queue=queue, conns=16, lease=1, wait=1, timeout=5000, delivery=1, least=1,
                 **PIPELINES[name]))
        self.check(name, queue)
        pushed, popped = report["roles"]["push"], report["roles"]["pop"]
        line = self.base(name, report, "pop", window, disk)
        line |= dict(requests_per_s=(pushed["requests"] + popped["requests"]) / report["seconds"],
                     p50_ms=popped["delivery_p50_ms"],
                     p99_ms=popped["delivery_p99_ms"], pushed_per_s=pushed["messages"] / report["seconds"],
                     push_p50_ms=pushed["p50_ms"],
                     push_p99_ms=pushed["p99_ms"], errors=pushed["errors"] + popped["errors"],
                     duplicates=pushed["duplicates"])
        self.report.add(**line)

    def latency(self) -> None:
        queue = "bench-latency"
        self.prepare(queue, 1000)
        self.load(0, 10, dict(kind="pop", name="drain", queue=queue, conns=1, batch=1000, claim=1000,
                              count=self.stored[queue]))
        report, window, disk = self.load(
            self.warm, 2.0 if self.quick else 20.0,
            dict(kind="push", name="push", queue=queue, conns=32, items=1, partitions=1000, ids=7, rate=200),
            dict(kind="pop", name="pop", queue=queue, conns=16, batch=50, wait=1, timeout=5000, delivery=1,
                 least=1))
        self.check("latency", queue)
        pushed, popped = report["roles"]["push"], report["roles"]["pop"]
        line = self.base("latency", report, "pop", window, disk)
        line |= dict(p50_ms=popped["delivery_p50_ms"], p99_ms=popped["delivery_p99_ms"],
                     max_ms=popped["delivery_max_ms"], push_p50_ms=pushed["p50_ms"], push_p99_ms=pushed["p99_ms"])
        self.report.add(**line)

    def idle(self) -> None:
        queue = "bench-idle"
        self.server.call("POST", "/api/v1/configure", {"queue": queue, "options": {}})
        self.stored[queue] = 0
        report, window, _ = self.load(1.0, 2.0 if self.quick else 20.0,
                                      dict(kind="pop", name="pop", queue=queue, conns=5000, wait=1, timeout=100000))
        line = self.base("idle", report, "pop", window, None)
        self.report.add(**line | dict(p50_ms=None, p99_ms=None, parked=5000))

    def xmin(self) -> None:
        """push100 while another session keeps a transaction with a snapshot open; `retained` = last part of the run /
        first part."""
        if self.cluster is None:
            self.report.say("  xmin: left out, it needs a transaction of its own in the server's database")
            return
        queue, seconds = "bench-xmin", 4.0 if self.quick else 65.0
        self.prepare(queue, 1000)
        with psycopg.connect(self.cluster.dsn) as other:
            other.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
            other.execute("SELECT pg_current_xact_id(), (SELECT count(*) FROM queend.queues)")
            report, window, disk = self.load(self.warm, seconds,
                                             dict(kind="push", name="xmin", queue=queue, **PUSHES["push100"]))
            other.rollback()
        self.check("xmin", queue)
        series = report["roles"]["xmin"]["series"]
        part = max(1, min(5, len(series) // 2))
        self.report.add(**self.base("xmin", report, "xmin", window, disk),
                        retained=sum(series[-part:]) / max(1, sum(series[:part])))
