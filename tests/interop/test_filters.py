"""Conditions on every type of column, answered through the metadata table that we keep.

Apache's default reader leaves out partitions and files by the statistics in the metadata table. It
has to find the rows for which the condition is true, and so has ours. What is true is asked of
Spark alone, over rows that are in no table. Where Apache's answer is another one, it is asked of a
twin as well, a table with the same rows that Apache wrote by itself: the difference passes if it is
of a known kind, and if Apache does not find the rows of its own table either.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from tests.interop.apache_hudi import VERSION, write_options
from tests.interop.shared_table import COW, MOR, TALLY
from tidelake import Table
from tidelake.files import read_slice
from tidelake.operations.open_table import open_state
from tidelake.read.scan import Selection
from tidelake.read.snapshot import plan_snapshot
from tidelake.storage import LocalStorage
from tidelake.timeline import load_table_config

pytestmark = [pytest.mark.interop, pytest.mark.timeout(900)]

VERSIONS = {"1.2.0": (9, 8), "1.0.2": (8,), "0.15.0": (6,)}[VERSION]
NAN, INF = float("nan"), float("inf")
LONG = "b" * 200
_FIRST_STATS = 8
_DAY = date(2026, 1, 1)
_TIME = datetime(2026, 1, 1)  # noqa: DTZ001 - Spark gives and takes times without a zone


def times(*seconds: float | None) -> list[datetime | None]:
    return [None if s is None else _TIME + timedelta(seconds=s) for s in seconds]


def days(*numbers: int | None) -> list[date | None]:
    return [None if n is None else _DAY + timedelta(days=n) for n in numbers]


def decimals(*texts: str | None) -> list[Decimal | None]:
    return [None if text is None else Decimal(text) for text in texts]


#: Each column: its type, a value for each of twelve rows, and literals to compare it with. Three
#: rows share a partition, so that its bounds say something.
COLUMNS: Mapping[str, tuple[str, Sequence[Any], Sequence[str]]] = {
    "c_bool": (
        "boolean",
        [True, True, True, False, False, False, True, None, False, None, None, None],
        ["true", "false"],
    ),
    "c_int": (
        "int",
        [-(2**31), -5, -1, 0, 1, 5, 6, 7, None, None, None, 2**31 - 1],
        ["-5", "5", "2147483647", "3"],
    ),
    "c_long": (
        "bigint",
        [-(2**63), -5, -1, 0, 1, 5, 2**40, 2**40 + 1, None, None, None, 2**63 - 1],
        ["-5L", "5L", "9223372036854775807L", "1099511627777L"],
    ),
    "c_float": (
        "float",
        [-INF, -2.5, -0.0, 0.0, 1.25, 2.5, NAN, NAN, NAN, None, 3.5, INF],
        ["float(0)", "float('-0')", "float(1.25)", "float('NaN')", "float('Infinity')"],
    ),
    "c_double": (
        "double",
        [-INF, -2.5, -0.0, -0.0, -0.0, -0.0, NAN, 7.5, None, 0.0, 0.1, NAN],
        ["0D", "-0D", "7.5D", "double('NaN')", "0.1D"],
    ),
    "c_small": (
        "decimal(9,2)",
        decimals("-9999999.99", "-0.01", "0", "0.01", "1.1", "2", "3", None, None, None, "9", "10"),
        ["1.10", "-0.01", "9999999.99", "0"],
    ),
    "c_mid": (
        "decimal(18,3)",
        decimals("-1", "-0.001", "0", "0.001", None, None, None, "7.125", "8", "9", "10", "1E+14"),
        ["7.125", "-0.001", "0.001"],
    ),
    "c_big": (
        "decimal(38,10)",
        decimals("-1", "0", "1", "1E+20", "2E+20", *[None] * 4, "0.0000000001", "3", "9" * 28),
        ["0", "0.0000000001", "100000000000000000000", "9999999999999999999999999999"],
    ),
    "c_str": (
        "string",
        ["", "a", "ab", "abc", LONG, f"{LONG}c", "ä", "\ufffd", "\U0001f600", None, None, None],
        ["''", "'ab'", "'ä'", "'\ufffd'", "'\U0001f600'", f"'{LONG}'"],
    ),
    "c_bin": (
        "binary",
        [b"", b"\0", b"\1", b"\x7f", b"\x80", b"\xff", b"\5\xff", b"\6", *[None] * 3, b"\xff\xff"],
        ["X'05FF'", "X'80'"],
    ),
    "c_date": (
        "date",
        days(-46_000, -20_455, -20_454, 0, 1, 2, 30, 31, None, None, None, 365),
        ["date'1970-01-01'", "date'2026-01-02'", "date'1969-12-31'", "date'2027-01-01'"],
    ),
    "c_time": (
        "timestamp",
        times(-3e9, -1_767_225_600.000001, -1_767_225_600, 0, 1e-6, 60, 61, *[None] * 3, 3600, 3e9),
        [
            "timestamp'1970-01-01'",
            "timestamp'2026-01-01 00:01:00'",
            "timestamp'2026-01-01 00:00:00.000001'",
        ],
    ),
    "c_local": (
        "timestamp_ntz",
        times(-3e9, -1, 0, 1, 2, 60, 61, None, None, None, 3600, 3e9),
        ["timestamp_ntz'2026-01-01 00:01:00'", "timestamp_ntz'2026-01-01 00:00:01'"],
    ),
    "c_in": (
        "struct<a:int,b:string>",
        [(n, f"t{n}") if n % 4 else None for n in range(12)],
        [],
    ),
    "c_list": ("array<int>", [[n] if n % 5 else None for n in range(12)], []),
    "c_map": ("map<string,int>", [{"k": n} if n % 3 else None for n in range(12)], []),
}
#: What Apache Hudi does not find in its own tables either, and why.
FAULTS: Mapping[str, Callable[[str], bool]] = {
    "its reader takes the bounds of a binary column for something else, and fails": (
        lambda where: where.startswith("c_bin")
    ),
    "a prefix is looked for between the bounds, which leaves out a least value that is longer": (
        lambda where: " like '" in where and "not like" not in where
    ),
    "nothing is greater than infinity, nor equal to what is no number, by the bounds of a file": (
        lambda where: (
            where.startswith(("c_float", "c_double"))
            and any(word in where for word in ("NaN", "Infinity"))
        )
    ),
}
#: Conditions for which Spark's reader of Parquet tells 0 from -0, where a file has a dictionary of
#: the column: it finds no others by listing either.
AT_ZERO = re.compile(r"c_(float|double) (=|in) \(?(-?0D|float\('?-?0'?\))")
SCHEMA = "id string, region string, ts bigint, " + ", ".join(
    f"{name} {kind}" for name, (kind, _, _) in COLUMNS.items()
)


def predicates() -> Iterator[str]:
    """Yield conditions on every column."""
    for name, (_, _, literals) in COLUMNS.items():
        yield f"{name} is null"
        yield f"{name} is not null"
        for literal in literals:
            yield f"{name} = {literal}"
            yield f"{name} < {literal}"
            yield f"{name} > {literal}"
        if literals:
            yield f"{name} in ({literals[0]}, {literals[-1]})"
            yield f"{name} <> {literals[1]}"
    yield "c_bool"
    yield "not c_bool"
    yield from (f"c_str like '{text}%'" for text in ("", "a", "ab", "ä", "\U0001f600", "zz"))
    yield "c_str like '%b'"
    yield "c_str not like 'a%'"
    yield from ("c_in.a = 5", "c_in.a < 3", "c_in.b like 't1%'", "c_in.b in ('t2', 't9')")
    yield "c_list[0] > 8"
    yield "c_map['k'] = 7"
    yield "region = 'r1' and c_int > 0"
    yield "c_int > 5 or c_str = 'a'"
    # Apache adds to the bounds as well: with the greatest number of all it would overflow.
    yield "ts + 1 > 3"
    yield "upper(c_str) = 'AB'"
    yield from ("id = 'k3'", "id in ('k1', 'k99')", "ts > 1", "ts = 1")


FILTERS = tuple(predicates())


class Filtered:
    """A table with every type, whose statistics tidelake keeps."""

    def __init__(self, spark: SparkSession, path: Path, table_type: str, version: int) -> None:
        self.spark = spark
        self.path = str(path)
        self.type = table_type
        self.version = version
        self.rows: dict[str, tuple[Any, ...]] = {}
        self.differences: list[str] = []
        self.excused: Counter[str] = Counter()
        self.options = {
            "hoodie.metadata.enable": "true",
            "hoodie.metadata.index.column.stats.enable": str(version >= _FIRST_STATS).lower(),
            "hoodie.metadata.compact.max.delta.commits": "3",
            "hoodie.clean.automatic": "false",
        }
        Table.create(
            spark,
            self.path,
            SCHEMA,
            name="filtered",
            key="id",
            partition_by="region",
            ordering="ts",
            table_type=table_type,
            table_version=version,
        )
        TALLY.tables += 1

    def frame(self, rows: Sequence[tuple[Any, ...]]) -> DataFrame:
        return self.spark.createDataFrame(rows, SCHEMA).coalesce(1)

    def we(self, operation: str, numbers: Sequence[int], ts: int, shift: int = 0) -> None:
        """Let tidelake write rows; `shift` says whose values each of them takes."""
        rows = [row(n, ts, shift) for n in numbers]
        getattr(Table.open(self.spark, self.path), operation)(
            self.frame(rows), options=self.options
        )
        self._took_effect(operation, rows)

    def they(self, operation: str, numbers: Sequence[int], ts: int, shift: int = 0) -> None:
        """Let Apache Hudi write."""
        rows = [row(n, ts, shift) for n in numbers]
        settings = {
            **write_options("filtered", self.type, self.version, partition_by="region"),
            "hoodie.datasource.write.operation": operation,
            **self.options,
        }
        made = self.frame(rows).write.format("hudi").options(**settings)
        made.mode("append").save(self.path)
        self._took_effect(operation, rows)

    def _took_effect(self, operation: str, rows: Sequence[tuple[Any, ...]]) -> None:
        for each in rows:
            if operation == "delete":
                self.rows.pop(each[0], None)
            else:
                self.rows[each[0]] = each

    def check(self, what: str, twin: Filtered) -> None:
        """Ask both readers every question, and Apache about `twin` where its answer is wrong."""
        owed = self._owed()
        theirs = self._apache(metadata=True)
        config = load_table_config(LocalStorage(self.path))
        is_kept = "column_stats" in config.metadata_partitions
        assert is_kept == (self.version >= _FIRST_STATS)
        assert self._pruned(theirs) > 0 or not is_kept, "nothing is left out"
        with ThreadPoolExecutor(4) as pool:
            answers = list(pool.map(lambda where: _keys(theirs, where), FILTERS))
        state = open_state(self.path)
        listing = self._apache(metadata=False)
        for where, keys, found in zip(FILTERS, owed, answers, strict=True):
            TALLY.answers += 2
            if isinstance(found, str):
                # Questions that Apache is asked side by side take each other's statistics away.
                found = _keys(theirs, where)
            plan = plan_snapshot(state, Selection(where=where, is_filtered=True))
            ours = {
                key
                for task in plan.tasks
                for batch in read_slice(task, plan.spec)
                for key in batch.column("id").to_pylist()
            }
            if not keys <= ours:
                self._differs(f"{what}: {where}: tidelake leaves out {sorted(keys - ours)}")
            if found != keys and not self._is_excused(where, keys, twin):
                listed = _keys(listing, where)
                if found == listed and AT_ZERO.match(where):
                    self.excused["0 and -0 by listing"] += 1
                    continue
                self._differs(f"{what}: {where}: {found}, not {keys}; by listing {listed}")

    def _differs(self, story: str) -> None:
        self.differences.append(story)
        TALLY.differences.append(f"{self.type} {self.version} {story}")

    def _is_excused(self, where: str, keys: set[str], twin: Filtered) -> bool:
        known = next((reason for reason, fits in FAULTS.items() if fits(where)), None)
        if known is None or _keys(twin._apache(metadata=True), where) == keys:
            return False
        self.excused[known] += 1
        return True

    def _owed(self) -> list[set[str]]:
        frame = self.frame(list(self.rows.values()))
        asked = frame.selectExpr("id", *(f"({where}) as p{n}" for n, where in enumerate(FILTERS)))
        answers = asked.collect()
        return [{r["id"] for r in answers if r[f"p{n}"]} for n in range(len(FILTERS))]

    def _apache(self, *, metadata: bool) -> DataFrame:
        reader = self.spark.read.format("hudi")
        if not metadata or self.version < _FIRST_STATS:
            reader = reader.option("hoodie.metadata.enable", str(metadata).lower())
        return reader.load(self.path)

    def _pruned(self, frame: DataFrame) -> int:
        """Return how many scans a condition spares, each file being one."""
        self.spark.conf.set("spark.sql.files.openCostInBytes", str(2**30))
        try:
            whole = frame.rdd.getNumPartitions()
            return whole - frame.where("c_int = 2147483647").rdd.getNumPartitions()
        finally:
            self.spark.conf.unset("spark.sql.files.openCostInBytes")


def row(number: int, ts: int, shift: int) -> tuple[Any, ...]:
    """Return a row whose key and partition depend on its number alone."""
    at = (number + shift) % 12
    values = (values[at] for _, values, _ in COLUMNS.values())
    return (f"k{number}", f"r{number // 3}", ts, *values)


def _keys(frame: DataFrame, where: str) -> set[str] | str:
    try:
        return {found[0] for found in frame.where(where).select("id").collect()}
    except Exception as error:  # noqa: BLE001 - any failure is an answer to report
        return " ".join(str(error).split())[:300]


@pytest.mark.parametrize("table_type", [COW, MOR])
@pytest.mark.parametrize("version", VERSIONS)
def test_conditions_find_the_same_rows_through_the_metadata_table(
    version: int, table_type: str, hudi_spark: SparkSession, tmp_path: Path
) -> None:
    table = Filtered(hudi_spark, tmp_path / "filtered", table_type, version)
    twin = Filtered(hudi_spark, tmp_path / "twin", table_type, version)
    before = TALLY.answers
    for one, write in ((table, table.we), (twin, twin.they)):
        write("insert", range(9), 1)
        write("upsert", [4, 5, 9, 10, 11], 2)
        write("delete", [7], 3)
        assert one.rows == table.rows
    table.check("three writes of ours", twin)
    for one, write in ((table, table.we), (twin, twin.they)):
        write("upsert", [0, 3, 6, 12, 13], 4, shift=3)
        one.they("upsert", [1, 4, 14, 15], 5, shift=7)
        write("upsert", [2, 4, 15, 16], 6, shift=9)
    if table_type == MOR:
        assert Table.open(hudi_spark, table.path, table.options).compact() is not None
        for write in (table.we, twin.they):
            write("upsert", [3, 9, 17], 7, shift=1)
    assert twin.rows == table.rows
    table.check("both", twin)
    print(  # noqa: T201 - the figures of the run
        f"\nApache Hudi {VERSION}, version {version}, {table_type}: {len(FILTERS)} conditions, "
        f"{TALLY.answers - before} answers, {len(table.differences)} differences, "
        f"{table.excused.total()} faults of its own: {dict(table.excused)}"
    )
    assert not table.differences, "\n".join(table.differences)


@pytest.mark.parametrize("version", [v for v in VERSIONS if v >= _FIRST_STATS])
def test_statistics_of_logs_that_were_there_before_hide_no_row(
    version: int, hudi_spark: SparkSession, tmp_path: Path
) -> None:
    table = Filtered(hudi_spark, tmp_path / "late", MOR, version)
    kept, table.options = table.options, {"hoodie.metadata.enable": "false"}
    table.we("insert", range(9), 1)
    table.we("upsert", [4, 5, 9, 10, 11], 2, shift=3)
    table.options = kept
    table.we("upsert", [1, 2], 3, shift=5)
    theirs = table._apache(metadata=True)
    asked = [
        (where, keys)
        for where, keys in zip(FILTERS, table._owed(), strict=True)
        if where.startswith(("c_int", "c_str =", "c_date", "c_time", "c_local", "c_small"))
    ]
    TALLY.answers += len(asked)
    assert {w: _keys(theirs, w) for w, _ in asked} == dict(asked)


@pytest.mark.parametrize("writer", ["we", "they"])
@pytest.mark.skipif(VERSION != "1.2.0", reason="the fault of one release")
def test_a_prefix_of_every_value_in_a_file_is_not_found_whoever_wrote_the_file(
    writer: str, hudi_spark: SparkSession, tmp_path: Path
) -> None:
    """Apache looks for the prefix itself between the bounds, and `x` is less than `xa`."""
    table = Filtered(hudi_spark, tmp_path / writer, COW, max(VERSIONS))
    nulls = [(f"k{n}", "r0", 1, *[None] * len(COLUMNS)) for n in range(3)]
    values = [None if name != "c_str" else "xa" for name in COLUMNS]
    write = {
        "hoodie.datasource.write.operation": "upsert",
        **write_options("filtered", COW, table.version, partition_by="region"),
        **table.options,
    }
    table.frame(nulls).write.format("hudi").options(**write).mode("append").save(table.path)
    changed = table.frame([("k1", "r0", 2, *values)])
    if writer == "we":
        Table.open(hudi_spark, table.path).upsert(changed, options=table.options)
    else:
        changed.write.format("hudi").options(**write).mode("append").save(table.path)
    theirs = table._apache(metadata=True)
    skipping = {"hoodie.enable.data.skipping": "false"}
    without = hudi_spark.read.format("hudi").options(**skipping).load(table.path)
    ours = Table.open(hudi_spark, table.path)
    TALLY.answers += 6
    assert _keys(theirs, "c_str like 'x%'") == set()
    for where in ("c_str like 'xa%'", "c_str = 'xa'", "c_str like 'x_'", "left(c_str, 1) = 'x'"):
        assert _keys(theirs, where) == {"k1"}
    assert _keys(without, "c_str like 'x%'") == {"k1"}
    assert _keys(ours.read(where="c_str like 'x%'"), "true") == {"k1"}
