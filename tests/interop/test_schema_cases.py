"""Two writers and one schema: Apache Hudi reads and continues what the eight cases leave."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.interop.apache_hudi import VERSION, write_options
from tests.scenarios.lake import COW, Fields, row
from tests.scenarios.test_schema import MERGES, WORLDS, B, C, Two, World, new, world_name
from tidelake.errors import SchemaConflictError

pytestmark = [
    pytest.mark.interop,
    pytest.mark.timeout(300),
    pytest.mark.skipif(VERSION != "1.2.0", reason="needs a release that writes both versions"),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """What two writers bring, and the columns that the table has after them."""

    ours: Fields | None
    theirs: Fields | None
    columns: tuple[str, ...] = ("b",)
    at_first: tuple[str, ...] | None = None
    """The columns that Apache sees: those of the write that was requested last."""
    starts_empty: bool = False
    is_refused: bool = False
    options: Mapping[str, str] | None = None


CASES = {
    "1": Case(ours=B, theirs=None, starts_empty=True),
    "2": Case(ours=B, theirs=B, starts_empty=True),
    "3": Case(ours=C, theirs=B, starts_empty=True, is_refused=True),
    "4": Case(ours=None, theirs={}, columns=()),
    "5": Case(ours=B, theirs={}, at_first=()),
    "6": Case(ours=None, theirs=B),
    "7": Case(ours=B, theirs=B),
    "8": Case(ours=C, theirs=B, is_refused=True),
    "8, merged": Case(ours=C, theirs=B, columns=("b", "c"), at_first=("b",), options=MERGES),
}
NEW_WORLDS = [world for world in WORLDS if world[1] >= 8]
#: Whole rows of writers that do not block would null the other's column: they are not merged.
PAIRS = [
    (world, name)
    for world in NEW_WORLDS
    for name, case in CASES.items()
    if case.options is None or "nbcc" not in world_name(world)
]


@pytest.mark.parametrize(
    ("world", "name"), PAIRS, ids=[f"{world_name(world)}-case {name}" for world, name in PAIRS]
)
def test_apache_reads_and_continues(
    hudi_spark: SparkSession, tmp_path: Path, world: World, name: str
) -> None:
    case = CASES[name]
    kind, version, options = world
    lake = new(
        tmp_path,
        (kind, version, {**options, **(case.options or {})}),
        has_schema=not case.starts_empty,
    )
    two = Two(lake=lake, start=not case.starts_empty, ours=case.ours, theirs=case.theirs)
    if case.is_refused:
        with pytest.raises(SchemaConflictError):
            two.play()
    else:
        two.play()
    columns = ["id", "p", "ts", "v", *case.columns]
    assert lake.columns() == columns
    path = str(lake.root)

    def apache() -> dict[str, dict[str, Any]]:
        frame = hudi_spark.read.format("hudi").load(path)
        shown = [name for name in frame.columns if not name.startswith("_hoodie")]
        return {found.id: found.asDict() for found in frame.select(*shown).collect()}

    def ours(named: Sequence[str]) -> dict[str, dict[str, Any]]:
        return {key: {name: found[name] for name in named} for key, found in lake.rows().items()}

    values: Mapping[str, Any] = {"b": "new", "c": 9}
    if case.at_first is not None:
        assert apache() == ours([*columns[:4], *case.at_first])
        # Whoever writes next brings the whole schema to the end of the timeline.
        every = {name: fields[name] for fields in (B, C) for name in fields if name in columns}
        lake.write([row("next", 5, p="n", **{n: values[n] for n in every})], fields=every)
    assert apache() == ours(columns)
    given = ("late", "l", 10, 10, *(values[column] for column in case.columns))
    types = {"b": "string", "c": "bigint"}
    struct = ["id string, p string, ts bigint, v bigint", *(f"{c} {types[c]}" for c in columns[4:])]
    frame = hudi_spark.createDataFrame([given], ", ".join(struct)).coalesce(1)
    table_type = "COPY_ON_WRITE" if kind is COW else "MERGE_ON_READ"
    settings = {
        **write_options("t", table_type, version, partition_by="p"),
        "hoodie.datasource.write.operation": "upsert",
        "hoodie.table.ordering.fields": "ts",
        "hoodie.write.lock.provider": (
            "org.apache.hudi.client.transaction.lock.FileSystemBasedLockProvider"
        ),
        "hoodie.clean.failed.writes.policy": "LAZY",
        **{n: v for n, v in options.items() if not n.endswith("skew_ms")},
    }
    frame.write.format("hudi").options(**settings).mode("append").save(path)
    assert ours(columns)["late"] == dict(zip(columns, given, strict=True))
    assert apache() == ours(columns)
    assert lake.columns() == columns
