"""A streaming query into a table, in a process that may be killed.

`python -m tests.spark.sink_job SOURCE TABLE CHECKPOINT` writes every JSON file in SOURCE as a
batch of its own, and ends when there are no more.
"""

from __future__ import annotations

import sys

import tidelake
from tests.sessions import local_session

SCHEMA = "id string, file int, v int"
#: Inserts, because an upsert would hide a batch that was written twice.
OPTIONS = {
    "hoodie.datasource.write.operation": "insert",
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.datasource.write.table.type": "MERGE_ON_READ",
}


def main(source: str, table: str, checkpoint: str) -> None:
    """Run the query to its end."""
    spark = local_session()
    stream = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).json(source)
    query = (
        stream.writeStream.foreachBatch(tidelake.sink(table, OPTIONS))
        .option("checkpointLocation", checkpoint)
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
