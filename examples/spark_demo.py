"""Events by HTTP → queue → a streaming aggregation → a second queue and Parquet → a chart; then the counts are
compared. `make demo-spark`.

Starts a daemon with a PostgreSQL of its own in a folder that is removed, and Spark on two threads.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections import Counter
from datetime import datetime, timedelta
from pathlib import Path

try:
    import matplotlib
    from matplotlib import pyplot
    from matplotlib.dates import DateFormatter, MinuteLocator
except ImportError:
    raise SystemExit("the chart requires matplotlib: pip install 'matplotlib>=3.9,<4'") from None

matplotlib.use("agg")     # into a file
EVENTS, KINDS = 20_000, ("order", "payment", "refund", "visit", "login")


def daemon(folder: str) -> tuple[subprocess.Popen, str]:
    environment = {**os.environ, "QUEEND_DATA_DIR": folder, "PORT": "0", "HOST": "127.0.0.1"}
    process = subprocess.Popen(
        [sys.executable, "-m", "queend", "serve"],
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    for line in process.stderr or ():
        told = json.loads(line) if line.startswith("{") else {}
        if told.get("event") == "ready":
            return process, f"http://127.0.0.1:{told['port']}"
    raise SystemExit("the daemon did not start")


def send(url: str) -> Counter:
    """Events of the last ten minutes, in pushes of 1000."""
    sent: Counter = Counter()
    now = int(time.time())
    for at in range(0, EVENTS, 1000):
        events = [{"kind": random.choice(KINDS), "at": now - random.randrange(600), "n": at + n} for n in range(1000)]
        items = [{"queue": "events", "partition": event["kind"], "payload": event} for event in events]
        request = urllib.request.Request(
            f"{url}/api/v1/push?format=counts",
            json.dumps({"items": items}).encode(),
            {"Content-Type": "application/json"},
        )
        with urllib.request.urlopen(request) as answer:
            assert json.load(answer)["queued"] == 1000
        sent.update(event["kind"] for event in events)
    return sent


def aggregate(url: str, folder: str) -> tuple[Counter, Counter]:
    """Counts per minute and kind; as the second queue has them, and as the Parquet files do."""
    from pyspark.sql import SparkSession
    from pyspark.sql import functions as F

    import queend.spark  # noqa: F401 - Spark's workers run on this interpreter, too

    spark = (
        SparkSession.builder.master("local[2]")
        .appName("demo")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.memory", "1g")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.local.dir", folder)
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("ERROR")
    events = (
        spark.readStream.format("queend")
        .options(url=url, subscribe="events", startingOffsets="earliest", commitGroup="demo")
        .load()
    )
    parsed = events.select(F.from_json(F.col("value").cast("string"), "kind string, at long").alias("e")).select(
        "e.kind", F.timestamp_seconds("e.at").alias("at")
    )
    counts = (
        parsed.groupBy(F.window("at", "1 minute"), "kind")
        .count()
        .select("kind", F.col("window.start").alias("minute"), "count")
    )

    def both(batch, epoch):  # noqa: ANN001, ANN202
        rows = batch.orderBy("minute", "kind").coalesce(1).persist()
        rows.write.mode("overwrite").parquet(f"{folder}/totals/epoch={epoch}")
        (
            rows.select(F.col("kind").alias("key"), F.to_json(F.struct("kind", "minute", "count")).alias("value"))
            .write.format("queend")
            .options(url=url, queue="totals", queryId=f"totals-{epoch}")
            .mode("append")
            .save()
        )
        rows.unpersist()

    query = (
        counts.writeStream.outputMode("update")
        .option("checkpointLocation", f"{folder}/checkpoint")
        .trigger(availableNow=True)
        .foreachBatch(both)
        .start()
    )
    query.awaitTermination()
    totals = spark.read.format("queend").options(url=url, subscribe="totals").schema("value string").load()
    queue = [json.loads(row.value) for row in totals.collect()]
    files = spark.read.parquet(f"{folder}/totals").collect()
    minutes: Counter = Counter()
    for one in queue:
        minutes[one["minute"], one["kind"]] += one["count"]
    in_files: Counter = Counter()
    for row in files:
        in_files[row["kind"]] += row["count"]
    spark.stop()
    return minutes, in_files


def chart(path: Path, minutes: Counter) -> None:
    """Draws a bar per minute, stacked by kind, with its sum on top. minutes: by minute (ISO 8601, UTC) and kind."""
    figure, axes = pyplot.subplots(figsize=(9, 5), layout="constrained")
    times = sorted({minute for minute, _ in minutes})
    places = [datetime.fromisoformat(minute) for minute in times]
    heights = [0] * len(times)
    for kind in KINDS:
        counts = [minutes[minute, kind] for minute in times]
        bars = axes.bar(places, counts, timedelta(seconds=48), bottom=heights, align="edge", label=kind)
        heights = [height + count for height, count in zip(heights, counts, strict=True)]
    axes.bar_label(bars, [f"{height:,}" for height in heights], padding=2, fontsize="small")
    axes.xaxis.set_major_locator(MinuteLocator())
    axes.xaxis.set_major_formatter(DateFormatter("%H:%M"))
    axes.yaxis.set_major_formatter("{x:,.0f}")
    axes.set_xlabel(f"minute of the event on {places[0]:%Y-%m-%d}, UTC")
    axes.set_ylabel("events")
    axes.set_ylim(0, 1.1 * max(heights))
    axes.set_title(f"{sum(heights):,} events in the queue “events”, counted by Spark per minute and kind")
    handles, labels = axes.get_legend_handles_labels()     # in the order of the bars
    axes.legend(handles[::-1], labels[::-1], title="kind", loc="center left", bbox_to_anchor=(1, 0.5))
    figure.savefig(path, dpi=120)


def main() -> None:
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ["PYTHONPATH"] = os.pathsep.join(
        [str(Path(__file__).resolve().parents[1]), os.environ.get("PYTHONPATH", "")]
    )
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
    picture = Path(sys.argv[1] if len(sys.argv) > 1 else "spark-demo.png").resolve()
    with tempfile.TemporaryDirectory() as folder:
        process, url = daemon(f"{folder}/data")
        try:
            sent = send(url)
            minutes, in_files = aggregate(url, folder)
        finally:
            process.terminate()
            process.communicate()
    counted: Counter = Counter()
    for (_, kind), count in minutes.items():
        counted[kind] += count
    chart(picture, minutes)
    for kind in KINDS:
        print(f"{kind:8} sent {sent[kind]:6} queue {counted[kind]:6} Parquet {in_files[kind]:6}")
    if not sent == counted == in_files:
        raise SystemExit("the counts differ")
    print(f"all {EVENTS} events counted once; the chart: {picture}")


if __name__ == "__main__":
    main()
