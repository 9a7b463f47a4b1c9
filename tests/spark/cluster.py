"""A standalone cluster on loopback, from the jars of PySpark: a master and two workers with addresses of their own,
because Spark starts the copy of a task only on another host. Run as a program, it is the driver of a stream from queue
to queue: master, url, source, target, folder, rows of a trigger."""
from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import urllib.request
import uuid
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyspark
from pyspark import TaskContext
from pyspark.sql import SparkSession
from support.daemon import PACKAGE
from support.ports import free_port
from support.wait import until

from queend.spark import QueendDataSource

HOSTS = ("127.0.0.1", "127.0.0.2")
TESTS = Path(__file__).parents[1]
# A copy of a task is started when half of the tasks have ended and this one took longer than they did.
SETTINGS = {
    "spark.speculation": "true", "spark.speculation.interval": "100ms", "spark.speculation.quantile": "0.5",
    "spark.speculation.multiplier": "1.1", "spark.task.maxFailures": "20", "spark.executor.cores": "1",
    "spark.executor.memory": "512m", "spark.driver.memory": "512m", "spark.driver.host": HOSTS[0],
    "spark.driver.bindAddress": HOSTS[0], "spark.ui.enabled": "false", "spark.eventLog.enabled": "true",
    "spark.eventLog.compress": "false", "spark.eventLog.rolling.enabled": "false",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "1000",
}


def slow_once(folder: Path, run: str, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Passes batches on. The first attempt of a task that finds the file `arm` waits until a copy of the task runs:
    then both write the same rows at the same time. run: names a run of the driver, because stages count from 0."""
    task = TaskContext.get()
    assert task is not None
    name = f"{run}-{task.stageId()}-{task.partitionId()}"
    arm, armed, copied = folder / "arm", folder / f"armed-{name}", folder / f"copied-{name}"
    for batch in batches:
        if task.attemptNumber() == 0:
            try:
                arm.rename(armed)
            except FileNotFoundError:
                pass
            else:
                while not copied.exists():
                    time.sleep(0.02)
        elif armed.exists():
            copied.touch()
        yield batch


def main(master: str, url: str, source: str, target: str, folder: str, rows: str) -> None:
    settings = {**SETTINGS, "spark.local.dir": f"{folder}/local", "spark.eventLog.dir": f"file://{folder}/events",
                "spark.executorEnv.PYTHONPATH": os.environ["PYTHONPATH"]}
    builder = SparkSession.builder.master(master).appName("queend-cluster")
    for name, value in settings.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.dataSource.register(QueendDataSource)
    reader = spark.readStream.format("queend").options(url=url, subscribe=source, startingOffsets="earliest",
                                                       maxOffsetsPerTrigger=rows, minPartitions="4")
    frame = reader.schema("key string, value string").load()
    place, run = Path(folder), uuid.uuid4().hex
    slowed = frame.mapInArrow(lambda batches: slow_once(place, run, batches), "key string, value string")
    (slowed.writeStream.format("queend")
     .options(url=url, queue=target, batchRows="500", checkpointLocation=f"{folder}/checkpoint")
     .trigger(processingTime="0 seconds").start().awaitTermination())


class Program:
    """A process with a session of its own, and its log. `kill` ends it with all that it started."""

    def __init__(self, log: Path, *words: str):
        self.log, self.begin = log, log.stat().st_size if log.exists() else 0
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(PACKAGE), str(TESTS)]),
                       "PYSPARK_PYTHON": sys.executable, "SPARK_DAEMON_MEMORY": "256m"}
        environment.pop("SPARK_LOCAL_IP", None)
        with log.open("ab") as file:
            self.process = subprocess.Popen(words, env=environment, stdin=subprocess.DEVNULL, stdout=file, stderr=file,
                                            start_new_session=True)

    def lives(self) -> bool:
        return self.process.poll() is None

    def story(self) -> str:
        return self.log.read_bytes()[self.begin:].decode(errors="replace")

    def kill(self) -> None:
        for pid in [self.process.pid, *_below(self.process.pid)]:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        self.process.wait()


def _below(pid: int) -> list[int]:
    """Returns the processes that a process started, and those that they started."""
    found: list[int] = []
    try:
        for task in Path(f"/proc/{pid}/task").iterdir():
            for child in (task / "children").read_text().split():
                found += [int(child), *_below(int(child))]
    except OSError:
        pass      # it has ended
    return found


class Cluster:
    """A master and a worker on each of the HOSTS."""

    def __init__(self, folder: Path):
        self.folder, self.port, self.page = folder, free_port(), free_port()
        self.url = f"spark://{HOSTS[0]}:{self.port}"
        (folder / "events").mkdir()
        self.master = self._start("master", "org.apache.spark.deploy.master.Master", "--host", HOSTS[0], "--port",
                                  str(self.port), "--webui-port", str(self.page))
        self.workers: dict[str, Program] = {}
        try:
            until(self._state, "the master answers")
            for host in HOSTS:
                self.start_worker(host)
        except BaseException:
            self.end()
            raise

    def _start(self, name: str, *words: str) -> Program:
        return Program(self.folder / f"{name}.log", str(Path(pyspark.__file__).parent / "bin/spark-class"), *words)

    def _state(self) -> dict:
        try:
            with urllib.request.urlopen(f"http://{HOSTS[0]}:{self.page}/json/", timeout=10) as answer:
                return json.load(answer)
        except OSError:
            assert self.master.lives(), self.master.story()
            return {}

    def start_worker(self, host: str) -> None:
        """Returns when the master knows it."""
        port = free_port()
        worker = self._start(f"worker-{host}", "org.apache.spark.deploy.worker.Worker", "--host", host, "--port",
                             str(port), "--webui-port", "0", "--cores", "1", "--memory", "1g", "--work-dir",
                             str(self.folder / f"work-{host}"), self.url)
        self.workers[host] = worker
        until(lambda: any(one["port"] == port and one["state"] == "ALIVE" for one in self._state()["workers"]),
              "the worker is registered")

    def drive(self, *words: str) -> Program:
        """Starts the program of this file as the driver."""
        return Program(self.folder / "driver.log", sys.executable, __file__, self.url, *words)

    def copies(self) -> int:
        """Returns how many speculative copies of tasks the event logs have."""
        return sum(line.count('"Speculative":true') for file in (self.folder / "events").iterdir()
                   for line in file.read_text(errors="replace").splitlines()
                   if '"Event":"SparkListenerTaskStart"' in line)

    def end(self) -> None:
        for one in (*self.workers.values(), self.master):
            one.kill()


if __name__ == "__main__":
    main(*sys.argv[1:])
