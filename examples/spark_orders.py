"""A table into a queue and a queue as a table (queend's extra `spark`)."""
import os
import sys

import queend.spark  # noqa: F401 - Spark's workers run on this interpreter, too
from pyspark.sql import SparkSession

URL = os.environ.get("QUEEND_URL", "http://localhost:6632")
QUEUE = sys.argv[1] if len(sys.argv) > 1 else "orders-by-spark"

spark = SparkSession.builder.appName("orders").getOrCreate()

orders = spark.range(1000).selectExpr("concat('customer-', id % 10) AS key", "struct(id, id * 5 AS cents) AS value")
orders.write.format("queend").option("url", URL).option("queue", QUEUE).mode("append").save()

frame = spark.read.format("queend").option("url", URL).option("subscribe", QUEUE).load()
cents = frame.selectExpr("partition", "CAST(get_json_object(CAST(value AS STRING), '$.cents') AS LONG) AS cents")
for row in cents.groupBy("partition").sum("cents").orderBy("partition").collect():
    print(f"{row[0]}: {row[1]} cents")
