"""A real Prometheus that scrapes daemons of tests."""
from __future__ import annotations

import json
import shutil
import subprocess
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from support.ports import free_port
from support.wait import until

Ask = Callable[[str], list[dict]]


@contextmanager
def scraping(folder: Path, config: dict) -> Iterator[Ask]:
    """Runs Prometheus with this configuration, one second between two scrapes, until each target of the job queend is
    scraped. Yields how to query it."""
    config = {**config, "global": {"scrape_interval": "1s", "evaluation_interval": "1s"}}
    (folder / "prometheus.yml").write_text(json.dumps(config))      # JSON is YAML
    program = shutil.which("prometheus")
    assert program, "prometheus is missing: tools/system.sh tests"
    port = free_port()

    def ask(path: str) -> dict:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=10) as answer:
            return json.load(answer)["data"]

    def query(expression: str) -> list[dict]:
        try:
            return ask(f"/api/v1/query?query={urllib.parse.quote(expression)}")["result"]
        except ConnectionError:
            return []      # it starts
        except urllib.error.URLError as error:
            if isinstance(error, urllib.error.HTTPError) and error.code != 503:
                raise
            return []

    with (folder / "log").open("wb") as log:
        process = subprocess.Popen([program, f"--config.file={folder}/prometheus.yml",
                                    f"--storage.tsdb.path={folder}/data", f"--web.listen-address=127.0.0.1:{port}"],
                                   stdout=log, stderr=log)
        try:
            up = 'up{job="queend"}'
            until(lambda: process.poll() is not None or [one["value"][1] for one in query(up)] == ["1"],
                  "the daemon is scraped")
            assert process.poll() is None, (folder / "log").read_text()
            yield query
        finally:
            process.terminate()
            process.wait()
