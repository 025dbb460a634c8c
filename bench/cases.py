"""The questions of the benchmark, as each engine asks them, with what we promise beside them."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from bench.measure import Case, Goal
from bench.tables import REGIONS
from tidelake import Table

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

FLOOR = "plain parquet"
APACHE = "apache hudi"
OURS = "tidelake"
OURS_BY_MASK = "tidelake (mask)"
OURS_BY_ROWS = "tidelake (rows)"
OURS_DATAFRAME_FILTER = "tidelake (df.where)"

_AS_PARQUET = (
    Goal(ours=OURS, than=FLOOR, at_most=1.1),
    Goal(ours=OURS, than=APACHE, at_most=1.0),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """A query in one place, so that every engine is asked the very same."""

    name: str
    ask: Callable[[DataFrame], DataFrame]
    where: str | None = None
    partition: str | None = None


def questions(rows: int) -> tuple[Question, ...]:
    """Return the four scans over a table that was written with `rows` rows."""
    region = REGIONS[3]
    number = rows // 2 + 1
    key = f"{hashlib.sha1(str(number).encode()).hexdigest()}-{number}"
    return (
        Question(name="full aggregate", ask=six_columns),
        Question(
            name="partition filter",
            ask=six_columns,
            where=f"region = '{region}'",
            partition=f"region={region}",
        ),
        Question(name="key look-up", ask=_user_columns, where=f"id = '{key}'"),
        Question(name="2 of 11 columns", ask=_two_columns),
    )


def six_columns(df: DataFrame) -> DataFrame:
    """Aggregate over six columns; sums are over quarters and integers, so they are exact."""
    return df.groupBy("city").agg(
        {"amount": "sum", "price": "sum", "quantity": "sum", "created": "max", "day": "min"}
    )


def _two_columns(df: DataFrame) -> DataFrame:
    return df.groupBy("city").agg({"amount": "sum"})


def _user_columns(df: DataFrame) -> DataFrame:
    return df.select(
        "id", "region", "ts", "amount", "price", "quantity", "day", "created", "city", "note"
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Bench:
    """One table under test, and the engines over it."""

    spark: SparkSession
    label: str
    path: Path
    base_files: tuple[str, ...]

    @classmethod
    def over(cls, spark: SparkSession, label: str, path: Path) -> Bench:
        """Take the base files of the newest slices from Apache Hudi itself."""
        found = (
            spark.read.format("hudi")
            .option("hoodie.datasource.query.type", "read_optimized")
            .load(str(path))
            .selectExpr("input_file_name() as name")
            .distinct()
            .collect()
        )
        files = tuple(sorted(row["name"] for row in found))
        return cls(spark=spark, label=label, path=path, base_files=files)

    def parquet(self, partition: str | None = None) -> DataFrame:
        """Read base files as bare Parquet; with a partition only the files in it."""
        files = [f for f in self.base_files if partition is None or f"/{partition}/" in f]
        return self.spark.read.parquet(*files)

    def apache(self, **options: str) -> DataFrame:
        """Read with Apache Hudi; option names have `__` for a dot."""
        named = {key.replace("__", "."): value for key, value in options.items()}
        return self.spark.read.format("hudi").options(**named).load(str(self.path))

    def open(self, **options: str) -> Table:
        """Open with tidelake, anew each time: opening is part of what is measured."""
        named = {key.replace("__", "."): value for key, value in options.items()}
        return Table.open(self.spark, str(self.path), options=named)

    def scans(self, rows: int, query: str) -> Iterator[Case]:
        """Yield the four scans of a query that needs no merge: a COW snapshot or read-optimized."""
        for question in questions(rows):
            yield self._scan(question, query)

    def _scan(self, question: Question, query: str) -> Case:
        def filtered(df: DataFrame) -> DataFrame:
            return question.ask(df.where(question.where) if question.where else df)

        def ours(where: str | None) -> DataFrame:
            table = self.open()
            return (
                table.read(where=where)
                if query == "snapshot"
                else table.read_optimized(where=where)
            )

        engines: dict[str, Callable[[], DataFrame]] = {
            FLOOR: lambda: filtered(self.parquet(question.partition)),
            OURS: lambda: question.ask(ours(question.where)),
            APACHE: lambda: filtered(self.apache(hoodie__datasource__query__type=query)),
        }
        if question.where:
            engines[OURS_DATAFRAME_FILTER] = lambda: filtered(ours(None))
        return Case(
            name=f"{self.label} {query}: {question.name}", engines=engines, goals=_AS_PARQUET
        )

    def snapshot_with_logs(self) -> Case:
        """Return the merge: six columns over base files and eight rounds of logs."""
        return Case(
            name=f"{self.label} snapshot: six columns",
            engines={
                FLOOR: lambda: six_columns(self.parquet()),
                OURS: lambda: six_columns(self.open().read()),
                OURS_BY_MASK: lambda: six_columns(
                    self.open(hoodie__read__merge__path="mask").read()
                ),
                OURS_BY_ROWS: lambda: six_columns(
                    self.open(hoodie__read__merge__path="rows").read()
                ),
                APACHE: lambda: six_columns(self.apache()),
            },
            goals=(
                Goal(ours=OURS, than=FLOOR, at_most=1.5),
                Goal(ours=OURS, than=APACHE, at_most=0.4),
            ),
            incomparable=frozenset({FLOOR}),  # it knows nothing of the logs
        )

    def last_two_commits(self) -> Case:
        """Return the incremental query that starts after the last commit but two."""
        start = _completion_times(self.path)[-3]
        return Case(
            name=f"{self.label} incremental: last two of eight",
            engines={
                APACHE: lambda: six_columns(
                    self.apache(
                        hoodie__datasource__query__type="incremental",
                        hoodie__datasource__read__begin__instanttime=start,
                    )
                ),
                OURS: lambda: six_columns(self.open().incremental(start=start)),
            },
            goals=(Goal(ours=OURS, than=APACHE, at_most=1 / 1.5),),
        )


def _completion_times(path: Path) -> list[str]:
    """Read completion times off the names on disk, so that no engine under test is asked."""
    names = (path / ".hoodie" / "timeline").glob("*_*commit")
    return sorted(name.stem.split("_")[1] for name in names)
