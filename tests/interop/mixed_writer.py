"""One of two processes that write a table at the same time: tidelake, or Apache Hudi.

Run as a module with the engine, the table's path and a JSON object of options. It says that it
is ready, waits for a line, makes its commits, and says how often it had to try.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from random import Random  # noqa: TID251 - seeded

from pyspark.sql import SparkSession

from tests.interop import apache_hudi
from tidelake import Table
from tidelake.env import SystemClock

COMMITS = 20
SCHEMA = "id string, ts bigint, v bigint, writer string"
TIDELAKE, APACHE = "tidelake", "apache"
READY, TRIES = "ready to write", "tries: "
#: Writers of commit numbers that never tie.
WRITERS = (TIDELAKE, APACHE)
_SHARED_KEYS = 12
_TRIES = 60

Written = tuple[str, int, int, str]


def rows_of(writer: str, number: int) -> list[Written]:
    """Return what a writer upserts with its commit `number`: keys of all, and some of its own."""
    ts = 1 + number * len(WRITERS) + WRITERS.index(writer)
    random = Random(ts)
    shared = [f"all-{at}" for at in random.sample(range(_SHARED_KEYS), 5)]
    own = [f"{writer}-{number % 7}"]
    return [(key, ts, number, writer) for key in (*shared, *own)]


def _upsert(
    spark: SparkSession,
    engine: str,
    path: str,
    rows: list[Written],
    options: Mapping[str, str],
) -> None:
    frame = spark.createDataFrame(rows, SCHEMA).coalesce(1)
    if engine == TIDELAKE:
        Table.open(spark, path).upsert(frame, options=dict(options))
        return
    frame.write.format("hudi").options(**options).mode("append").save(path)


def main(engine: str, path: str, options: Mapping[str, str]) -> None:
    """Make the commits; one that has to give way is made again."""
    spark = apache_hudi.session(cores=1, memory="1g")
    spark.range(1).count()
    _say(READY)
    sys.stdin.readline()
    tries = 0
    for number in range(COMMITS):
        for attempt in range(_TRIES):
            tries += 1
            try:
                _upsert(spark, engine, path, rows_of(engine, number), options)
                break
            except Exception as error:
                if attempt + 1 == _TRIES or not _gave_way(error):
                    raise
                SystemClock().sleep_ms(100 + 200 * (attempt % 5))
    _say(f"{TRIES}{tries}")
    spark.stop()


def _gave_way(error: Exception) -> bool:
    told = f"{type(error).__name__}: {error}"
    return any(
        sign in told
        for sign in ("WriteConflict", "ConcurrentModification", "Unable to acquire", "LockTimeout")
    )


def _say(word: str) -> None:
    sys.stdout.write(f"{word}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], json.loads(sys.argv[3]))
