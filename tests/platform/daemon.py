"""A real `queend serve` in a process of its own, watched through its log lines."""
import json
import os
import signal
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from pathlib import Path
from queue import Queue

import queend
from support.sanitizer import RUNTIME

ROOT = Path(__file__).parent.parent.parent


class Daemon:
    """Started at once; `lines` are the parsed lines of its log so far."""

    def __init__(self, data: Path, **environment: str):
        inherited = {name: os.environ[name] for name in ("PATH", "ASAN_OPTIONS", "UBSAN_OPTIONS", "PYTHONMALLOC") if name in os.environ}
        self.process = subprocess.Popen(
            [sys.executable, "-m", "queend", "serve"], cwd="/", stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            env={**inherited, **RUNTIME, "PYTHONPATH": str(Path(queend.__file__).parent.parent), "HOST": "127.0.0.1", "PORT": "0", "QUEEND_DATA_DIR": str(data), **environment})
        self.lines: list[dict] = []
        self.other: list[str] = []
        self.queue: Queue[dict | None] = Queue()
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()
        self.port = 0

    def _read(self) -> None:
        for line in self.process.stderr:
            try:
                record = json.loads(line)
            except ValueError:
                self.other.append(line)
                continue
            self.lines.append(record)
            self.queue.put(record)
        self.queue.put(None)

    def await_event(self, event: str, timeout: float = 60.0) -> dict:
        while True:
            record = self.queue.get(timeout=timeout)
            assert record is not None, f"ended with {self.process.wait(10)} before {event}: {self.lines} {self.other}"
            if record["event"] == event:
                return record

    def await_ready(self) -> "Daemon":
        self.port = self.await_event("ready")["port"]
        return self

    def request(self, method: str, path: str, body=None) -> tuple[int, dict, object]:
        data = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}{path}", data, method=method)
        try:
            with urllib.request.urlopen(request, timeout=30) as answer:
                status, headers, content = answer.status, answer.headers, answer.read()
        except urllib.error.HTTPError as error:
            status, headers, content = error.code, error.headers, error.read()
        is_json = headers.get("content-type") == "application/json"
        return status, headers, json.loads(content) if is_json and content else content.decode()

    def end(self, number: int = signal.SIGTERM) -> int:
        if self.process.poll() is None:
            self.process.send_signal(number)
        status = self.process.wait(60)
        self.reader.join()
        return status

    def __enter__(self) -> "Daemon":
        return self

    def __exit__(self, *error) -> None:
        if self.process.poll() is None:
            self.end()
        self.process.stdout.close()
        self.process.stderr.close()
