"""The trades DAG by Spark's own streaming: a query per view, RocksDB state, one file a batch."""

from __future__ import annotations

import json
import sys
import tempfile
from datetime import datetime
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

SCHEMA = "trade_id BIGINT, symbol STRING, price DOUBLE, volume BIGINT, event_time TIMESTAMP"
ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.adaptive.enabled": "false",
    "spark.driver.memory": "4g",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.streaming.stateStore.providerClass": ROCKSDB,
    "spark.sql.streaming.numRecentProgressUpdates": "1000",
}


def main(path: str) -> None:
    """Run three queries side by side; print the end of each batch and the totals."""
    builder = SparkSession.builder.master("local[2]")
    for name, value in SETTINGS.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    with tempfile.TemporaryDirectory() as out:
        queries = _start(spark, path, Path(out))
        for query in queries:
            query.awaitTermination()
        progress = [[_end(each) for each in query.recentProgress] for query in queries]
        batches = min(len(each) for each in progress)
        # A batch is done when the slowest of the three has it.
        ends = [max(each[place] for each in progress) for place in range(batches)]
        start = min(_start_of(query.recentProgress[0]) for query in queries)
        positions = spark.read.parquet(f"{out}/position")
        latest = positions.groupBy("symbol").agg(
            f.max("total_volume").alias("v"), f.max("trade_count").alias("c")
        )
        totals = list(latest.agg(f.sum("v"), f.sum("c")).collect()[0])
        totals.append(spark.read.parquet(f"{out}/anomalies").count())
        print(json.dumps({"ends": [start, *ends], "totals": totals}))
    spark.stop()


def _start(spark: SparkSession, path: str, out: Path) -> list[Any]:
    def normalized() -> DataFrame:
        reader = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1)
        return reader.json(path).selectExpr(
            "symbol",
            "price",
            "volume",
            "event_time",
            "CASE WHEN volume > 10000 THEN 'HIGH' ELSE 'NORMAL' END AS volume_class",
        )

    vwap = (
        normalized()
        .withWatermark("event_time", "5 seconds")
        .groupBy("symbol", f.window("event_time", "1 minute"))
        .agg(f.expr("SUM(price * volume) / SUM(volume) AS vwap"))
    )
    anomalies = normalized().where("volume_class = 'HIGH'")
    position = (
        normalized()
        .groupBy("symbol")
        .agg(f.sum("volume").alias("total_volume"), f.count("*").alias("trade_count"))
    )

    def keep(batch: DataFrame, _: int) -> None:
        batch.write.mode("append").parquet(str(out / "position"))

    def writer(frame: DataFrame, name: str) -> Any:
        return frame.writeStream.option(
            "checkpointLocation", str(out / f"checkpoint-{name}")
        ).trigger(availableNow=True)

    return [
        writer(vwap, "vwap").format("parquet").option("path", str(out / "vwap")).start(),
        writer(anomalies, "anomalies")
        .format("parquet")
        .option("path", str(out / "anomalies"))
        .start(),
        writer(position, "position").outputMode("update").foreachBatch(keep).start(),
    ]


def _start_of(progress: Any) -> float:
    return datetime.fromisoformat(progress["timestamp"].replace("Z", "+00:00")).timestamp()


def _end(progress: Any) -> float:
    return _start_of(progress) + float(progress["durationMs"]["triggerExecution"]) / 1000


if __name__ == "__main__":
    main(sys.argv[1])
