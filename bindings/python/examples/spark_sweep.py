"""A sweep divided over the workers of Spark: each partition of a table of targets is swept by one worker.

    pip install hailer-query pyspark pyarrow pandas      # and a Java runtime
    python spark_sweep.py 2 a2s://192.0.2.0/28 play.example.com

The first argument is the number of local workers. On a cluster, install `hailer-query` on every worker. The limits of a sweep are
those of one worker, so each one gets its share of the rate. A range is the target of one worker: divide large ranges before.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator

import pyarrow
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

import hailer_query

#: Datagrams per second of all workers.
RATE = 1_000.0


def columns() -> StructType:
    """Returns the columns of a sweep as Spark writes them."""
    return from_arrow_schema(pyarrow.schema(hailer_query.sweep([])))


def sweep_table(targets: DataFrame, workers: int) -> DataFrame:
    """Returns the results of the targets in the first column of a table."""

    def sweep_partition(batches: Iterator[pyarrow.RecordBatch]) -> Iterator[pyarrow.RecordBatch]:
        partition = [target for batch in batches for target in batch.column(0).to_pylist()]
        if partition:
            results = hailer_query.sweep(partition, rate=RATE / workers)
            # The batches leave as they arrive, without a copy in Python.
            yield from pyarrow.RecordBatchReader.from_stream(results)

    return targets.repartition(workers).mapInArrow(sweep_partition, columns())


def main(workers: int, targets: list[str]) -> None:
    """Sweeps the targets and prints a summary for each protocol."""
    # Workers need the same version of Python.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    spark = SparkSession.builder.master(f"local[{workers}]").appName("hailer").getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    table = spark.createDataFrame([(target,) for target in targets], "target string")
    results = sweep_table(table, workers).cache()
    results.groupBy("protocol", "ok").agg({"players_online": "sum", "target": "count"}).show()
    results.select("target", "title", "players_online", "map", "error_kind").orderBy("target").show(20, truncate=40)
    spark.stop()


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2:])
