"""Queries for Spark's Kafka connector, in the forms in which tutorials have them. test_tutorials.py replaces only the
name of the format, the address and the folder, and runs them."""
from __future__ import annotations

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import (
    col,
    count,
    expr,
    from_json,
    session_window,
    split,
    struct,
    to_json,
    to_timestamp,
    window,
)
from pyspark.sql.functions import explode as exploded
from pyspark.sql.streaming import StreamingQuery
from pyspark.sql.types import DoubleType, LongType, StringType, StructField, StructType, TimestampType

# -- batches -----------------------------------------------------------------------------------------------------------


def batch_of_a_topic(spark: SparkSession) -> DataFrame:
    df = (spark.read
          .format("kafka")
          .option("kafka.bootstrap.servers", "host1:9092,host2:9092")
          .option("subscribe", "topic1")
          .load())
    return df.selectExpr("CAST(key AS STRING)", "CAST(value AS STRING)")


def batch_of_several_topics(spark: SparkSession) -> DataFrame:
    df = (spark.read
          .format("kafka")
          .option("kafka.bootstrap.servers", "host1:9092,host2:9092")
          .option("subscribe", "topic1,topic2")
          .option("startingOffsets", """{"topic1":{"0":2,"1":-2},"topic2":{"0":-2}}""")
          .option("endingOffsets", """{"topic1":{"0":5,"1":-1},"topic2":{"0":-1}}""")
          .load())
    return df.selectExpr("topic", "partition", "offset", "CAST(value AS STRING)")


def batch_by_pattern(spark: SparkSession) -> DataFrame:
    df = (spark.read
          .format("kafka")
          .option("kafka.bootstrap.servers", "host1:9092,host2:9092")
          .option("subscribePattern", "topic.*")
          .option("startingOffsets", "earliest")
          .option("endingOffsets", "latest")
          .load())
    return df.groupBy("topic").count()


def batch_by_assign(spark: SparkSession) -> DataFrame:
    df = (spark.read
          .format("kafka")
          .option("kafka.bootstrap.servers", "localhost:9092")
          .option("assign", """{"topic1":["0"],"topic2":["0"]}""")
          .load())
    return df.selectExpr("topic", "CAST(value AS STRING)")


def batch_by_assigned_numbers(spark: SparkSession) -> DataFrame:
    return (spark.read
            .format("kafka")
            .option("kafka.bootstrap.servers", "localhost:9092")
            .option("assign", """{"orders":[0,1]}""")
            .load())


def batch_between_times(spark: SparkSession, since: int, until: int) -> DataFrame:
    df = (spark.read
          .format("kafka")
          .option("kafka.bootstrap.servers", "localhost:9092")
          .option("subscribe", "times")
          .option("startingTimestamp", since)
          .option("endingTimestamp", until)
          .load())
    return df.select(col("value").cast("string"))


def batch_with_every_column(spark: SparkSession) -> DataFrame:
    df = spark.read.format("kafka").option("kafka.bootstrap.servers", "localhost:9092").option("subscribe",
                                                                                              "topic1").load()
    return df.select("key", "value", "topic", "partition", "offset", "timestamp", "timestampType")


def batch_between_times_of_partitions(spark: SparkSession, since: int, until: int) -> DataFrame:
    return (spark.read
            .format("kafka")
            .option("kafka.bootstrap.servers", "localhost:9092")
            .option("subscribe", "times")
            .option("startingOffsetsByTimestamp", '{"times": {"0": %d}}' % since)
            .option("endingOffsetsByTimestamp", '{"times": {"0": %d}}' % until)
            .load()
            .select(col("value").cast("string")))


def batch_in_sql(spark: SparkSession) -> DataFrame:
    df = spark.read.format("kafka").option("kafka.bootstrap.servers", "localhost:9092").option("subscribe",
                                                                                              "topic1").load()
    df.createOrReplaceTempView("records")
    return spark.sql("""SELECT partition, MAX(offset) AS last, COUNT(*) AS records
                          FROM records GROUP BY partition ORDER BY partition""")


def batch_with_headers(spark: SparkSession) -> DataFrame:
    df = (spark.read
          .format("kafka")
          .option("kafka.bootstrap.servers", "localhost:9092")
          .option("subscribe", "traced")
          .option("includeHeaders", "true")
          .load())
    return df.selectExpr("CAST(key AS STRING)", "CAST(value AS STRING)", "headers")


def batch_with_kafka_security(spark: SparkSession) -> DataFrame:
    return (spark.read
            .format("kafka")
            .option("kafka.bootstrap.servers", "localhost:9092")
            .option("kafka.security.protocol", "SASL_SSL")
            .option("kafka.sasl.mechanism", "PLAIN")
            .option("subscribe", "orders")
            .load())


def write_pairs(spark: SparkSession) -> None:
    df = spark.range(4).select(col("id").cast("string").alias("key"), to_json(struct("id")).alias("value"))
    (df.selectExpr("CAST(key AS STRING)", "CAST(value AS STRING)")
     .write
     .format("kafka")
     .mode("append")
     .option("kafka.bootstrap.servers", "host1:9092,host2:9092")
     .option("topic", "pairs")
     .save())


def write_without_a_mode(spark: SparkSession) -> None:
    (spark.sql("SELECT 'k' AS key, '1' AS value")
     .write
     .format("kafka")
     .option("kafka.bootstrap.servers", "localhost:9092")
     .option("topic", "texts")
     .save())


def write_to_a_column(spark: SparkSession) -> None:
    df = spark.range(6)
    (df.selectExpr("IF(id % 2 = 0, 'even', 'odd') AS topic", "'k' AS key", "CAST(id AS STRING) AS value")
     .write
     .format("kafka")
     .option("kafka.bootstrap.servers", "host1:9092,host2:9092")
     .mode("append")
     .save())


def write_text(spark: SparkSession) -> None:
    (spark.createDataFrame([("a", "hello world")], ["key", "value"])
     .write
     .format("kafka")
     .mode("append")
     .option("kafka.bootstrap.servers", "localhost:9092")
     .option("topic", "texts")
     .save())


def write_headers(spark: SparkSession) -> None:
    (spark.sql("""SELECT 'k' AS key, '1' AS value,
                         array(named_struct('key', 'h', 'value', encode('v', 'utf-8'))) AS headers""")
     .write
     .format("kafka")
     .mode("append")
     .option("kafka.bootstrap.servers", "localhost:9092")
     .option("includeHeaders", "true")
     .option("topic", "texts")
     .save())


# -- streams -----------------------------------------------------------------------------------------------------------


def word_count(spark: SparkSession) -> StreamingQuery:
    lines = (spark
             .readStream
             .format("kafka")
             .option("kafka.bootstrap.servers", "localhost:9092")
             .option("subscribe", "lines")
             .option("startingOffsets", "earliest")
             .load()
             .selectExpr("CAST(value AS STRING)"))
    words = lines.select(exploded(split(lines.value, " ")).alias("word"))
    word_counts = words.groupBy("word").count()
    return (word_counts
            .writeStream
            .outputMode("complete")
            .format("memory")
            .queryName("word_counts")
            .start())


def parsed_into_parquet(spark: SparkSession) -> StreamingQuery:
    schema = StructType([StructField("device", StringType()), StructField("temperature", DoubleType()),
                         StructField("time", TimestampType())])
    df = (spark.readStream
          .format("kafka")
          .option("kafka.bootstrap.servers", "localhost:9092")
          .option("subscribe", "sensors")
          .option("startingOffsets", "earliest")
          .option("failOnDataLoss", "false")
          .load())
    parsed = (df.select(from_json(col("value").cast("string"), schema).alias("data"), col("timestamp"))
              .select("data.*", "timestamp"))
    return (parsed.writeStream
            .format("parquet")
            .option("path", "/tmp/sensors")
            .option("checkpointLocation", "/tmp/checkpoint/sensors")
            .trigger(availableNow=True)
            .start())


def windows_in_append_mode(spark: SparkSession) -> StreamingQuery:
    df = spark.readStream.format("kafka").option("kafka.bootstrap.servers", "localhost:9092").option(
        "subscribe", "events").option("startingOffsets", "earliest").load()
    events = df.select(from_json(col("value").cast("string"), "type STRING, ts STRING").alias("e")).select(
        "e.type", to_timestamp("e.ts").alias("ts"))
    counts = (events
              .withWatermark("ts", "10 minutes")
              .groupBy(window("ts", "10 minutes", "5 minutes"), "type")
              .count())
    return counts.writeStream.outputMode("append").format("memory").queryName("windowed").start()


def windows_in_update_mode(spark: SparkSession) -> StreamingQuery:
    events = (spark.readStream
              .format("kafka")
              .option("kafka.bootstrap.servers", "localhost:9092")
              .option("subscribe", "events")
              .option("startingOffsets", "earliest")
              .load()
              .select(from_json(col("value").cast("string"), "type STRING, ts TIMESTAMP").alias("e"))
              .select("e.*"))
    return (events
            .withWatermark("ts", "1 minute")
            .groupBy(window(events.ts, "1 hour"), events.type)
            .agg(count("*").alias("n"))
            .writeStream
            .outputMode("update")
            .format("console")
            .option("truncate", "false")
            .trigger(availableNow=True)
            .start())


def sessions(spark: SparkSession) -> StreamingQuery:
    events = (spark.readStream
              .format("kafka")
              .option("kafka.bootstrap.servers", "localhost:9092")
              .option("subscribe", "events")
              .option("startingOffsets", "earliest")
              .load()
              .select(from_json(col("value").cast("string"), "type STRING, ts TIMESTAMP").alias("e"))
              .select("e.*"))
    return (events
            .withWatermark("ts", "1 minute")
            .groupBy(session_window("ts", "5 minutes"), "type")
            .count()
            .writeStream
            .outputMode("complete")
            .format("memory")
            .queryName("sessions")
            .start())


def without_duplicates(spark: SparkSession) -> StreamingQuery:
    df = (spark.readStream
          .format("kafka")
          .option("kafka.bootstrap.servers", "localhost:9092")
          .option("subscribe", "retried")
          .option("startingOffsets", "earliest")
          .load())
    events = df.select(from_json(col("value").cast("string"), "guid STRING, ts TIMESTAMP").alias("e")).select("e.*")
    return (events
            .withWatermark("ts", "10 seconds")
            .dropDuplicatesWithinWatermark(["guid"])
            .writeStream
            .format("memory")
            .queryName("unique_events")
            .start())


def impressions_and_clicks(spark: SparkSession) -> StreamingQuery:
    def stream(topic: str, schema: str) -> DataFrame:
        return (spark.readStream
                .format("kafka")
                .option("kafka.bootstrap.servers", "localhost:9092")
                .option("subscribe", topic)
                .option("startingOffsets", "earliest")
                .load()
                .select(from_json(col("value").cast("string"), schema).alias("e"))
                .select("e.*"))

    impressions = stream("impressions", "impressionAdId LONG, impressionTime TIMESTAMP")
    clicks = stream("clicks", "clickAdId LONG, clickTime TIMESTAMP")
    joined = impressions.withWatermark("impressionTime", "2 hours").join(
        clicks.withWatermark("clickTime", "3 hours"),
        expr("""
            clickAdId = impressionAdId AND
            clickTime >= impressionTime AND
            clickTime <= impressionTime + interval 1 hour
            """))
    return joined.writeStream.format("memory").queryName("ads").start()


def stream_and_table(spark: SparkSession) -> StreamingQuery:
    customers = spark.createDataFrame([(1, "Anna"), (2, "Ben")], "customer LONG, name STRING")
    orders = (spark.readStream
              .format("kafka")
              .option("kafka.bootstrap.servers", "localhost:9092")
              .option("subscribe", "orders")
              .option("startingOffsets", "earliest")
              .load()
              .select(from_json(col("value").cast("string"), "customer LONG, cents LONG").alias("o"))
              .select("o.*"))
    return (orders.join(customers, "customer", "left_outer")
            .writeStream
            .outputMode("append")
            .format("memory")
            .queryName("named_orders")
            .start())


def for_each_batch(spark: SparkSession) -> StreamingQuery:
    def write_batch(batch_df: DataFrame, batch_id: int) -> None:
        batch_df.persist()
        batch_df.write.mode("append").json("/tmp/first")
        batch_df.groupBy("customer").sum("cents").write.mode("append").json("/tmp/second")
        batch_df.unpersist()

    schema = StructType([StructField("customer", LongType()), StructField("cents", LongType())])
    return (spark.readStream
            .format("kafka")
            .option("kafka.bootstrap.servers", "localhost:9092")
            .option("subscribe", "orders")
            .option("startingOffsets", "earliest")
            .load()
            .selectExpr("CAST(value AS STRING) AS json")
            .select(from_json("json", schema).alias("data"))
            .select("data.*")
            .writeStream
            .foreachBatch(write_batch)
            .option("checkpointLocation", "/tmp/checkpoint/batches")
            .trigger(once=True)
            .start())


def from_topic_to_topic(spark: SparkSession) -> StreamingQuery:
    df = (spark.readStream
          .format("kafka")
          .option("kafka.bootstrap.servers", "localhost:9092")
          .option("subscribe", "orders")
          .option("startingOffsets", "earliest")
          .option("maxOffsetsPerTrigger", 2)
          .load())
    enriched = (df.select(col("key").cast("string"), from_json(col("value").cast("string"),
                                                               "customer LONG, cents LONG").alias("o"))
                .filter("o.cents >= 200")
                .select("key", to_json(struct("o.customer", (col("o.cents") / 100).alias("euros"))).alias("value")))
    return (enriched.writeStream
            .format("kafka")
            .option("kafka.bootstrap.servers", "localhost:9092")
            .option("topic", "orders-enriched")
            .option("checkpointLocation", "/tmp/checkpoint/enriched")
            .trigger(availableNow=True)
            .start())


def counts_to_a_topic(spark: SparkSession, mode: str) -> StreamingQuery:
    df = (spark.readStream
          .format("kafka")
          .option("kafka.bootstrap.servers", "localhost:9092")
          .option("subscribe", "orders")
          .option("startingOffsets", "earliest")
          .load())
    return (df.groupBy("key")
            .count()
            .selectExpr("CAST(key AS STRING) AS key", "CAST(count AS STRING) AS value")
            .writeStream
            .format("kafka")
            .outputMode(mode)
            .option("kafka.bootstrap.servers", "localhost:9092")
            .option("topic", f"order-counts-{mode}")
            .option("checkpointLocation", f"/tmp/checkpoint/counts-{mode}")
            .trigger(availableNow=True)
            .start())


def stream_from_offsets(spark: SparkSession) -> StreamingQuery:
    return (spark.readStream
            .format("kafka")
            .option("kafka.bootstrap.servers", "localhost:9092")
            .option("subscribePattern", "topic[12]")
            .option("startingOffsets", '{"topic1": {"0": 4, "1": -1}, "topic2": {"0": -2}}')
            .option("minPartitions", "4")
            .load()
            .selectExpr("topic", "CAST(value AS STRING)")
            .writeStream
            .format("memory")
            .queryName("from_offsets")
            .start())


def continuous(spark: SparkSession) -> StreamingQuery:
    return (spark.readStream
            .format("kafka")
            .option("kafka.bootstrap.servers", "localhost:9092")
            .option("subscribe", "orders")
            .load()
            .selectExpr("CAST(key AS STRING)", "CAST(value AS STRING)")
            .writeStream
            .format("console")
            .trigger(continuous="1 second")
            .start())


def running_totals(spark: SparkSession) -> StreamingQuery:
    import pandas as pd
    from pyspark.sql.streaming.state import GroupStateTimeout

    def total(key, frames, state):  # noqa: ANN001, ANN202
        (cents,) = state.get if state.exists else (0,)
        cents += int(sum(frame["cents"].sum() for frame in frames))
        state.update((cents,))
        yield pd.DataFrame({"customer": [key[0]], "cents": [cents]})

    orders = (spark.readStream
              .format("kafka")
              .option("kafka.bootstrap.servers", "localhost:9092")
              .option("subscribe", "orders")
              .option("startingOffsets", "earliest")
              .load()
              .select(from_json(col("value").cast("string"), "customer LONG, cents LONG").alias("o"))
              .select("o.*"))
    return (orders.groupBy("customer")
            .applyInPandasWithState(total, "customer LONG, cents LONG", "cents LONG", "update",
                                    GroupStateTimeout.NoTimeout)
            .writeStream
            .outputMode("update")
            .foreachBatch(lambda batch, number: batch.write.mode("append").json("/tmp/totals"))
            .start())


def counting_processor(spark: SparkSession) -> StreamingQuery:
    from pyspark.sql import Row
    from pyspark.sql.streaming import StatefulProcessor

    class Counting(StatefulProcessor):
        def init(self, handle):  # noqa: ANN001, ANN202
            self.number = handle.getValueState("number", "n LONG")

        def handleInputRows(self, key, rows, timer_values):  # noqa: ANN001, ANN202
            number = (self.number.get()[0] if self.number.exists() else 0) + sum(1 for _ in rows)
            self.number.update((number,))
            yield Row(key=key[0], n=number)

        def close(self):  # noqa: ANN202
            pass

    orders = (spark.readStream
              .format("kafka")
              .option("kafka.bootstrap.servers", "localhost:9092")
              .option("subscribe", "orders")
              .option("startingOffsets", "earliest")
              .load()
              .selectExpr("CAST(key AS STRING) AS key"))
    return (orders.groupBy("key")
            .transformWithState(Counting(), "key STRING, n LONG", "Update", "None")
            .writeStream
            .outputMode("update")
            .foreachBatch(lambda batch, number: batch.write.mode("append").json("/tmp/counting"))
            .start())
