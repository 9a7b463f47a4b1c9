"""The jobs as people run them: a process of their own, with everything it starts, that can be killed."""
from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import psutil
from support.daemon import PACKAGE


class Job:
    """`queend spark …`. One process group; its output in files. before: what starts it."""

    def __init__(self, folder: Path, *words: str, before: tuple[str, ...] = (), **environment: str):
        folder.mkdir(parents=True, exist_ok=True)
        self.out, self.err = folder / "out", folder / "err"
        settings = ["--conf", "spark.driver.memory=1g", "--conf", f"spark.local.dir={folder / 'local'}", "--conf",
                    "spark.sql.shuffle.partitions=2",
                    "--conf", f"spark.sql.warehouse.dir={folder / 'warehouse'}", "--master", "local[2]",
                    "--conf",
                    # it starts in half the time
                    "spark.driver.extraJavaOptions=-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"]
        with self.out.open("wb") as out, self.err.open("wb") as err:
            self.process = subprocess.Popen([*before, sys.executable, "-m", "queend", "spark", *words, *settings],
                                            stdin=subprocess.DEVNULL, stdout=out, stderr=err,
                                            env={**os.environ, "PYTHONPATH": str(PACKAGE),
                                                 "SPARK_LOCAL_IP": "127.0.0.1", **environment}, start_new_session=True)

    def __enter__(self) -> Job:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    def kill(self) -> None:
        """SIGKILL to the driver, its JVM and the workers, which are in a group of their own."""
        if self.process.poll() is None:
            below = psutil.Process(self.process.pid).children(recursive=True)
            os.killpg(self.process.pid, signal.SIGKILL)
            for one in below:
                try:
                    one.kill()
                except psutil.NoSuchProcess:
                    pass    # it has just ended
        self.process.wait()

    def over(self) -> bool:
        return self.process.poll() is not None

    def ended(self, seconds: float = 300) -> int:
        return self.process.wait(seconds)

    def done(self, seconds: float = 300) -> dict[str, Any]:
        """What it says it did."""
        assert self.ended(seconds) == 0, self.err.read_text()
        return json.loads(self.out.read_text())

    def failed(self, seconds: float = 300) -> str:
        """What it says went wrong: the last line."""
        assert self.ended(seconds) == 1, self.err.read_text()
        text = self.err.read_text()
        assert "Traceback" not in text and "\tat " not in text, text
        return text.splitlines()[-1]
