"""What a daemon that asks for tokens says to Spark; and that queend itself needs no Spark."""
from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from support.client import Client
from support.daemon import PACKAGE, Daemon
from support.tokens import SECRET, bearer, token


@pytest.fixture(scope="module")
def guarded(start_daemon: Callable[..., Daemon]) -> Daemon:
    return start_daemon(JWT_ENABLED="true", JWT_SECRET=SECRET)


def test_tokens(spark: SparkSession, guarded: Daemon, queue: str, tmp_path: Path) -> None:
    reader, writer = token(role="read-only"), token(role="read-write")
    file = tmp_path / "token"
    file.write_text(writer + "\n")
    frame = spark.sql("select '1' value").coalesce(1)

    def write(**options: str) -> None:
        frame.write.format("queend").options(url=guarded.url, queue=queue, **options).mode("append").save()

    for options, status in (({}, 401), ({"token": reader}, 403)):
        with pytest.raises(Exception, match=f"queue '{queue}', rows 0 to 0 of Spark partition 0: {guarded.url} "
                                            f"answered {status}: "):
            write(**options)
    write(tokenFile=str(file))

    def read(**options: str) -> list[str]:
        frame = spark.read.format("queend").options(url=guarded.url, subscribe=queue,
                                                    **options).schema("value string").load()
        return [row.value for row in frame.collect()]

    assert read(token=reader) == ["1"]
    with pytest.raises(Exception, match="answered 401: "):
        read()
    with guarded.client() as client:
        assert isinstance(client, Client)
        assert client.request("POST", "/api/v1/offsets", {"queue": queue},
                              bearer(reader)).json["partitions"][0]["highWatermark"] == 1


def test_queend_needs_no_spark() -> None:
    code = ("import sys; sys.modules['pyspark'] = sys.modules['pyarrow'] = None; import queend.cli, "
            "queend.control.app, queend.daemon.supervisor")
    subprocess.run([sys.executable, "-c", code], check=True, env={"PYTHONPATH": str(PACKAGE)}, timeout=120)
