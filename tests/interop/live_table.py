"""A table that Apache Hudi writes while the test runs, and the questions both readers are asked."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from tests.golden.harness import Question, canonical
from tests.interop.apache_hudi import write_options

_COLUMNS = (
    "cast(concat('k', n) as string) as id",
    "concat('r', n % 3) as region",
    "cast({ts} as bigint) as ts",
    "cast(n + {ts} as double) / 4 as fare",
    "if(n % 5 = 0, null, concat('{note} ', n)) as note",
    "date_add(date'2026-01-01', cast(n as int)) as day",
    "timestamp_seconds(1767225600 + n * 61 + {ts}) as created",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveTable:
    """The writer's side: every call is one action of Apache Hudi on the table."""

    spark: SparkSession
    path: Path
    table_type: str
    table_version: int
    options: dict[str, str] = field(default_factory=dict)

    def insert(self, numbers: range, *, ts: int = 1) -> None:
        """Insert rows, one a number."""
        self._write("insert", self._rows(numbers, ts, "made"))

    def upsert(self, numbers: range, *, ts: int, **options: str) -> None:
        """Change or add rows; option names have `__` for a dot."""
        self._write("upsert", self._rows(numbers, ts, f"round {ts} of"), options)

    def delete(self, numbers: range, *, ts: int) -> None:
        """Delete rows by their keys."""
        self._write("delete", self._rows(numbers, ts, "gone"))

    def overwrite(self, numbers: range, *, ts: int) -> None:
        """Replace the partitions that the rows fall into."""
        self._write("insert_overwrite", self._rows(numbers, ts, "instead"))

    def delete_partition(self, region: str) -> None:
        """Drop a whole partition."""
        options = {"hoodie__datasource__write__partitions__to__delete": region}
        self._write("delete_partition", self._rows(range(1), 1, "none"), options)

    def times(self) -> list[str]:
        """Return the time of every completed write by which queries go: requested in version 6."""
        if self.table_version < 8:
            folder, at = self.path / ".hoodie", 0
        else:
            folder, at = self.path / ".hoodie" / "timeline", 1
        names = [path for path in folder.glob("*commit") if path.stem.count(".") == 0]
        return sorted(name.stem.split("_")[at] for name in names)

    def apache(self, question: Question) -> DataFrame:
        """Put `question` to Apache Hudi's own reader."""
        options = {}
        if question.kind == "read_optimized":
            options["hoodie.datasource.query.type"] = "read_optimized"
        if question.as_of is not None:
            options["as.of.instant"] = question.as_of
        if question.kind == "incremental":
            options["hoodie.datasource.query.type"] = "incremental"
            options["hoodie.datasource.read.begin.instanttime"] = question.start or "000"
            if question.end is not None:
                options["hoodie.datasource.read.end.instanttime"] = question.end
        return self.spark.read.format("hudi").options(**options).load(str(self.path))

    def questions(self) -> Iterator[Question]:
        """Yield each query with Apache's answer: now, as of each write, windows between."""
        asked = [Question(kind="snapshot", apache=()), Question(kind="read_optimized", apache=())]
        times = self.times()
        asked += [Question(kind="as of", as_of=at, apache=()) for at in times]
        windows = [*pairwise(times), (times[0], None), ("000", times[-1])]
        asked += [
            Question(kind="incremental", start=start, end=end, apache=()) for start, end in windows
        ]
        for question in asked:
            texts: list[str] = self.apache(question).toJSON().collect()  # type: ignore[assignment]  # an RDD of text
            rows = [json.loads(text) for text in texts]
            yield Question(
                kind=question.kind,
                as_of=question.as_of,
                start=question.start,
                end=question.end,
                apache=[json.loads(row) for row in canonical(rows)],
            )

    def _rows(self, numbers: range, ts: int, note: str) -> DataFrame:
        columns: Sequence[str] = [c.format(ts=ts, note=note) for c in _COLUMNS]
        source = self.spark.range(numbers.start, numbers.stop, numbers.step, numPartitions=1)
        return source.withColumnRenamed("id", "n").selectExpr(*columns)

    def _write(self, operation: str, rows: DataFrame, more: dict[str, str] | None = None) -> None:
        options = {
            **write_options("live", self.table_type, self.table_version, partition_by="region"),
            "hoodie.datasource.write.hive_style_partitioning": "false",
            "hoodie.datasource.write.operation": operation,
            **self.options,
            **{key.replace("__", "."): value for key, value in (more or {}).items()},
        }
        rows.write.format("hudi").options(**options).mode("append").save(str(self.path))
