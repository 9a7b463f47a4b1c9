"""Queries for Spark's Kafka connector (kafka_queries.py) run with only the name of the format, the address and the
folder replaced. Those that cannot run say why in one sentence (docs/spark-kafka.md)."""
from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, GroupedData, SparkSession
from pyspark.sql.streaming import StreamingQuery
from support.client import Client
from support.daemon import Daemon
from support.log import heads, stored
from support.wait import until

from queend.spark.compat import LIMITS

FILE = Path(__file__).with_name("kafka_queries.py")
ORDERS = [(1, 100), (2, 250), (1, 300), (3, 50), (2, 700)]
STORE = "spark.sql.streaming.stateStore.providerClass"
PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


@pytest.fixture
def query(spark: SparkSession, daemon: Daemon, tmp_path: Path) -> Iterator[Callable[..., Any]]:
    """Runs a query of the file, after the three replacements. Waits until a stream has read all records."""
    text, formats = re.subn(r'\.format\("kafka"\)', '.format("queend")', FILE.read_text())
    text, addresses = re.subn(r'"kafka\.bootstrap\.servers",\s*"[^"]*"', f'"url", "{daemon.url}"', text)
    assert formats == addresses > 25
    names: dict[str, Any] = {"__name__": "__main__"}     # functions of the query travel to the workers
    exec(compile(re.sub(r'(f?)"/tmp/', rf'\1"{tmp_path}/', text), str(FILE), "exec"), names)  # noqa: S102

    def run(name: str, *arguments: object) -> Any:
        done = names[name](spark, *arguments)
        if isinstance(done, StreamingQuery):
            try:
                done.processAllAvailable()
            finally:
                done.stop()
        return rows(done) if isinstance(done, DataFrame) else done

    yield run
    for one in spark.streams.active:
        one.stop()


def rows(frame: DataFrame) -> list[tuple]:
    return sorted(map(tuple, frame.collect()))


@pytest.fixture(scope="module")
def filled(daemon: Daemon) -> None:
    """The topics of the batches: partitions are named as Kafka numbers them."""
    with daemon.client() as client:
        client.push("topic1", *range(10), partition="0")
        client.push("topic1", *range(100, 103), partition="1")
        client.push("topic2", "x", "y", partition="0")
        for customer, cents in ORDERS:
            client.push("orders", {"customer": customer, "cents": cents}, partition=f"c{customer}")


@pytest.mark.usefixtures("filled")
class TestBatches:
    def test_a_topic(self, query: Callable[..., Any]) -> None:
        assert query("batch_of_a_topic") == sorted([("0", str(n)) for n in range(10)]
                                                   + [("1", str(n)) for n in range(100, 103)])

    def test_several_topics(self, query: Callable[..., Any]) -> None:
        assert query("batch_of_several_topics") == [
            *[("topic1", "0", n, str(n)) for n in range(2, 5)], *[("topic1", "1", n, str(100 + n)) for n in range(3)],
            ("topic2", "0", 0, '"x"'), ("topic2", "0", 1, '"y"')]

    def test_a_pattern(self, query: Callable[..., Any]) -> None:
        assert query("batch_by_pattern") == [("topic1", 13), ("topic2", 2)]

    def test_partitions_that_are_assigned(self, query: Callable[..., Any]) -> None:
        assert query("batch_by_assign") == sorted([("topic1", str(n)) for n in range(10)]
                                                  + [("topic2", '"x"'), ("topic2", '"y"')])

    def test_sql(self, query: Callable[..., Any]) -> None:
        assert query("batch_in_sql") == [("0", 9, 10), ("1", 2, 3)]

    def test_times(self, query: Callable[..., Any], spark: SparkSession, daemon: Daemon, client: Client) -> None:
        def stored_at() -> dict[int, int]:
            """Pushes one more record. Returns the millisecond of each."""
            client.push("times", len(client_values()), partition="0")
            return dict(client_values())

        def client_values() -> list[tuple[int, int]]:
            if not heads(client, "times"):
                return []
            frame = spark.read.format("queend").options(url=daemon.url, subscribe="times").load()
            return [(int(value), ms) for value, ms in frame.selectExpr(
                "CAST(value AS STRING)", "unix_millis(timestamp)").collect()]

        times = until(lambda: len(set((found := stored_at()).values())) > 2 and found, "three moments")
        _, since, *_, last = sorted(set(times.values()))
        expected = [(str(n),) for n, ms in times.items() if since <= ms < last]
        assert expected
        assert query("batch_between_times", since, last) == sorted(expected)
        assert query("batch_between_times_of_partitions", since, last) == sorted(expected)

    def test_headers(self, query: Callable[..., Any], client: Client) -> None:
        client.push("traced", 1, partition="k", traceparent=PARENT)
        ((key, value, ((name, parent),)),) = query("batch_with_headers")
        assert (key, value, name, bytes(parent).decode()) == ("k", "1", "traceparent", PARENT)

    def test_pairs_are_written(self, query: Callable[..., Any], client: Client) -> None:
        query("write_pairs")
        assert {key: stored(client, "pairs", key) for key in heads(client, "pairs")} == {
            str(n): [{"id": n}] for n in range(4)}

    def test_headers_are_written(self, query: Callable[..., Any], client: Client) -> None:
        query("write_headers")
        (message,) = client.pop("texts", "k")
        assert (message["data"], message["headers"]) == (1, {"h": "v"})

    def test_a_column_names_the_topic(self, query: Callable[..., Any], client: Client) -> None:
        query("write_to_a_column")
        assert sorted(stored(client, "even", "k")) == [0, 2, 4] and sorted(stored(client, "odd", "k")) == [1, 3, 5]


@pytest.fixture(scope="module")
def events(daemon: Daemon) -> None:
    with daemon.client() as client:
        for kind, minute in (("a", "00:01"), ("a", "00:04"), ("b", "00:07"), ("a", "00:30"), ("a", "02:00")):
            client.push("events", {"type": kind, "ts": f"2026-01-01T{minute}:00Z"})


def collected(spark: SparkSession, text: str) -> list[tuple]:
    return rows(spark.sql(text))


@pytest.mark.usefixtures("filled")
class TestStreams:
    def test_words_are_counted(self, query: Callable[..., Any], spark: SparkSession, client: Client) -> None:
        """A text is stored as a JSON string. The query counts its quotation marks as parts of the words."""
        client.push("lines", "apache spark", "spark streaming")
        query("word_count")
        assert collected(spark, "SELECT * FROM word_counts") == [
            ('"apache', 1), ('"spark', 1), ('spark"', 1), ('streaming"', 1)]

    def test_json_into_parquet(self, query: Callable[..., Any], spark: SparkSession, client: Client,
                               tmp_path: Path) -> None:
        client.push("sensors", *({"device": f"d{n}", "temperature": 20.5 + n, "time": f"2026-01-01T00:00:0{n}Z"}
                                 for n in range(3)))
        query("parsed_into_parquet")
        found = spark.read.parquet(str(tmp_path / "sensors"))
        assert rows(found.selectExpr("device", "temperature", "unix_seconds(time)", "timestamp > time")) == [
            (f"d{n}", 20.5 + n, 1767225600 + n, True) for n in range(3)]

    def test_windows_that_slide(self, query: Callable[..., Any], spark: SparkSession, events: None) -> None:
        """The watermark is at 01:50: all windows before it are complete."""
        query("windows_in_append_mode")
        assert collected(spark, "SELECT date_format(window.start, 'HH:mm'), type, count FROM windowed") == [
            ("00:00", "a", 2), ("00:00", "b", 1), ("00:05", "b", 1), ("00:25", "a", 1), ("00:30", "a", 1),
            ("23:55", "a", 2)]

    def test_windows_that_are_updated(self, query: Callable[..., Any], events: None) -> None:
        """On the console, which is that of the JVM: Spark's progress has the numbers."""
        progress = query("windows_in_update_mode").recentProgress
        assert sum(one["numInputRows"] for one in progress) == 5
        assert sum(one["stateOperators"][0]["numRowsUpdated"] for one in progress) == 3
        assert "ConsoleTable" in progress[0]["sink"]["description"]

    def test_sessions(self, query: Callable[..., Any], spark: SparkSession, events: None) -> None:
        query("sessions")
        assert collected(spark, "SELECT date_format(session_window.end, 'HH:mm'), type, count FROM sessions") == [
            ("00:09", "a", 2), ("00:12", "b", 1), ("00:35", "a", 1), ("02:05", "a", 1)]

    def test_duplicates_are_dropped(self, query: Callable[..., Any], spark: SparkSession, client: Client) -> None:
        client.push("retried", *({"guid": f"g{n % 3}", "ts": "2026-01-01T00:00:00Z"} for n in range(9)))
        query("without_duplicates")
        assert collected(spark, "SELECT guid FROM unique_events") == [("g0",), ("g1",), ("g2",)]

    def test_two_streams_are_joined(self, query: Callable[..., Any], spark: SparkSession, client: Client) -> None:
        client.push("impressions", *({"impressionAdId": n, "impressionTime": f"2026-01-01T00:0{n}:00Z"}
                                     for n in range(4)))
        client.push("clicks", {"clickAdId": 1, "clickTime": "2026-01-01T00:30:00Z"},
                    {"clickAdId": 2, "clickTime": "2026-01-01T05:00:00Z"},      # too late
                    {"clickAdId": 3, "clickTime": "2026-01-01T01:03:00Z"})
        query("impressions_and_clicks")
        assert collected(spark, "SELECT impressionAdId, date_format(clickTime, 'HH:mm') FROM ads") == [
            (1, "00:30"), (3, "01:03")]

    def test_a_stream_is_joined_with_a_table(self, query: Callable[..., Any], spark: SparkSession) -> None:
        query("stream_and_table")
        assert collected(spark, "SELECT customer, cents, coalesce(name, '?') FROM named_orders") == sorted(
            (customer, cents, {1: "Anna", 2: "Ben"}.get(customer, "?")) for customer, cents in ORDERS)

    def test_batches_with_two_sinks(self, query: Callable[..., Any], spark: SparkSession, tmp_path: Path) -> None:
        query("for_each_batch")
        assert rows(spark.read.json(str(tmp_path / "first")).select("customer", "cents")) == sorted(ORDERS)
        assert rows(spark.read.json(str(tmp_path / "second")).select("customer", "sum(cents)")) == [
            (1, 400), (2, 950), (3, 50)]

    @pytest.mark.skipif(not LIMITS, reason="refused before PySpark 4.2")
    def test_from_topic_to_topic(self, query: Callable[..., Any], client: Client) -> None:
        done = query("from_topic_to_topic")
        assert {key: stored(client, "orders-enriched", key) for key in heads(client, "orders-enriched")} == {
            "c1": [{"customer": 1, "euros": 3.0}],
            "c2": [{"customer": 2, "euros": 2.5}, {"customer": 2, "euros": 7.0}]}
        assert [one["numInputRows"] for one in done.recentProgress if one["numInputRows"]] == [2, 2, 1]

    def test_offsets_of_a_stream(self, query: Callable[..., Any], spark: SparkSession) -> None:
        query("stream_from_offsets")
        assert collected(spark, "SELECT topic, value FROM from_offsets") == [
            *[("topic1", str(n)) for n in range(4, 10)], ("topic2", '"x"'), ("topic2", '"y"')]

    @pytest.mark.skipif(not hasattr(GroupedData, "transformWithState"), reason="PySpark 4.0 lacks transformWithState")
    def test_state_of_a_processor(self, query: Callable[..., Any], spark: SparkSession, tmp_path: Path) -> None:
        spark.conf.set(STORE, "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider")
        try:
            query("counting_processor")
        finally:
            spark.conf.unset(STORE)
        assert rows(spark.read.json(str(tmp_path / "counting")).select("key", "n")) == [("c1", 2), ("c2", 2), ("c3", 1)]

    def test_state_in_pandas(self, query: Callable[..., Any], spark: SparkSession, tmp_path: Path) -> None:
        query("running_totals")
        assert rows(spark.read.json(str(tmp_path / "totals")).select("customer", "cents")) == [
            (1, 400), (2, 950), (3, 50)]


# query → the sentence of its error. The words of Spark are marked by their condition.
REFUSED = {
    ("batch_by_assigned_numbers",): "option \"assign\" names partition \"0\", which queue 'orders' does not have: "
                                    'partitions have names, like "customer-7" or "Default"',
    ("batch_with_kafka_security",): 'there is no option "kafka.security.protocol": ',
    ("batch_with_every_column",): "[UNRESOLVED_COLUMN.WITH_SUGGESTION] A column, variable, or function parameter with "
                                  "name `timestampType` cannot be resolved",
    ("write_without_a_mode",): '[UNSUPPORTED_DATA_SOURCE_SAVE_MODE] The data source "queend" cannot be written in the '
                               '"ErrorIfExists" mode. Please use either the "Append" or "Overwrite" mode instead',
    ("write_text",): "Invalid JSON: unexpected byte at byte 0 (row 0, field payload); write value as a struct, ",
    ("counts_to_a_topic", "update"): "queend does not support Update mode",
    ("counts_to_a_topic", "complete"): "a queue cannot be overwritten",
    ("continuous",): "Data source queend does not support continuous processing",
}
WORKER_4_0 = "\n  An exception was thrown from the Python worker. Please see the stack trace below.\n"
if not LIMITS:
    REFUSED["from_topic_to_topic",] = 'option "maxOffsetsPerTrigger" needs PySpark 4.2: '


@pytest.mark.usefixtures("filled")
@pytest.mark.parametrize("refused", REFUSED, ids="-".join)
def test_a_query_that_cannot_run(query: Callable[..., Any], refused: tuple[str, ...]) -> None:
    with pytest.raises(PySparkException) as caught:
        query(*refused)
    text = str(caught.value).replace("the Python worker:\n", "")
    # PySpark 4.0 first says, in two lines, that the exception is of a Python worker
    assert REFUSED[refused] in text.removeprefix(WORKER_4_0).splitlines()[0]


def test_each_query_is_run() -> None:
    named = set(re.findall(r"^def (\w+)\(spark", FILE.read_text(), re.M))
    here = Path(__file__).read_text()
    assert len(named) > 30 and not [one for one in named if f'"{one}"' not in here]
