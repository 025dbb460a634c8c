"""Statistics that writes keep: they hold for every file, and readers that prune find all rows."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import types as T  # noqa: N812 - the customary name

from tests.golden.local_table import LocalTable
from tidelake.env import Env
from tidelake.errors import ConfigError
from tidelake.files import read_slice
from tidelake.files.column_stats import column_kinds, widest
from tidelake.formats.column_bounds import ColumnBounds, ValueKind
from tidelake.formats.metadata_encoding import encode_column_stats
from tidelake.formats.metadata_record import ColumnRange, column_id, partition_id
from tidelake.metadata import MetadataTable
from tidelake.metadata.file_group import Keys, MetadataFileGroup
from tidelake.metadata.keeper import MetadataTableKeeper
from tidelake.metadata.names import PARTITION_STATS
from tidelake.metadata.own_table import OwnTable
from tidelake.model import Action, TableType
from tidelake.operations.open_table import open_state
from tidelake.read.check import check_table
from tidelake.read.scan import Selection
from tidelake.read.snapshot import plan_snapshot
from tidelake.spark.datasource.writer import TidelakeWriter
from tidelake.spark.types.to_avro import avro_schema
from tidelake.storage import LocalStorage
from tidelake.timeline import load_table_config, load_timeline
from tidelake.txn import FileChanges, TableSpec, create_table
from tidelake.txn.protocol.instant_times import InstantTimes

STRUCT = T.StructType(
    [
        T.StructField("id", T.StringType()),
        T.StructField("region", T.StringType()),
        T.StructField("ts", T.LongType()),
        T.StructField("n", T.IntegerType()),
        T.StructField("x", T.DoubleType()),
        T.StructField("note", T.StringType()),
    ]
)
COLUMNS = ("n", "x", "note", "id", "_hoodie_record_key")
ASKED = {
    "hoodie.metadata.enable": "true",
    "hoodie.metadata.index.column.stats.enable": "true",
    "hoodie.metadata.compact.max.delta.commits": "2",
    "hoodie.clean.automatic": "false",
}
NAMES = {"files", "column_stats", "partition_stats"}
each_kind = pytest.mark.parametrize(
    ("version", "table_type"), [(v, t) for v in (8, 9) for t in TableType]
)


def made(root: Path, version: int, table_type: TableType, **more: Any) -> str:
    spec = TableSpec(
        name="t",
        schema=avro_schema(STRUCT, "t"),
        table_type=table_type,
        table_version=version,
        record_key_fields=("id",),
        partition_fields=("region",),
        ordering_fields=("ts",),
        **more,
    )
    create_table(Env(LocalStorage(str(root))), spec)
    return str(root)


def row(number: int, ts: int) -> dict[str, Any]:
    return {
        "id": f"k{number}",
        "region": f"r{number % 2}",
        "ts": ts,
        "n": None if number % 5 == 4 else number * ts,
        "x": float("nan") if number == 3 else number / 4,
        "note": f"note {number} of {ts}",
    }


def write(root: str, numbers: Iterable[int], ts: int, do: str = "upsert", **options: str) -> None:
    rows = pa.Table.from_pylist([row(n, ts) for n in numbers])
    given = {
        **ASKED,
        "path": root,
        "hoodie.datasource.write.operation": do,
        **{key.replace("__", "."): value for key, value in options.items()},
    }
    writer = TidelakeWriter(given, STRUCT, overwrite=False)
    writer.commit([writer.write(iter(rows.to_batches()))])


def metadata(root: str) -> MetadataTable:
    storage = LocalStorage(root)
    config = load_table_config(storage)
    found = MetadataTable.open(storage, config, load_timeline(storage, config))
    assert found is not None
    return found


def holds(root: str) -> None:
    """Hold the statistics to the rows of every live slice."""
    state = open_state(root)
    stats = metadata(root).column_stats(COLUMNS)
    by_partition = metadata(root).partition_stats(COLUMNS)
    plan = plan_snapshot(state, Selection(columns=COLUMNS, meta=True))
    seen = 0
    for task in plan.tasks:
        rows = pa.Table.from_batches(read_slice(task, plan.spec)).to_pylist()
        paths = [p for p in (task.base_path, *task.log_paths) if p is not None]
        for column in COLUMNS:
            values = [r[column] for r in rows if r[column] is not None and r[column] == r[column]]
            known = [stats[path][column] for path in paths if column in stats.get(path, {})]
            if len(known) == len(paths) and values:
                least = min(k.min for k in known if k.min is not None)
                greatest = max(k.max for k in known if k.max is not None)
                assert least <= min(values)
                assert max(values) <= greatest
                seen += 1
            over = by_partition[task.partition].get(column)
            if over is not None and values:
                assert over.min <= min(values)
                assert max(values) <= over.max
    assert seen


def found(root: str, where: str, *, prune: bool) -> list[str]:
    state = open_state(root, {"hoodie.metadata.enable": str(prune).lower()})
    plan = plan_snapshot(state, Selection(columns=("id", "n", "x", "note"), where=where))
    rows = [r for t in plan.tasks for b in read_slice(t, plan.spec) for r in b.to_pylist()]
    return sorted(r["id"] for r in rows if WHERE[where](r))


WHERE: dict[str, Any] = {
    "n > 12": lambda r: r["n"] is not None and r["n"] > 12,
    "n is null": lambda r: r["n"] is None,
    "x < 1": lambda r: r["x"] < 1,
    "note = 'note 2 of 3'": lambda r: r["note"] == "note 2 of 3",
    "id = 'k7'": lambda r: r["id"] == "k7",
}


@each_kind
def test_statistics_hold_after_every_write(
    tmp_path: Path, version: int, table_type: TableType
) -> None:
    root = made(tmp_path / "t", version, table_type)
    write(root, range(6), 1)
    assert load_table_config(LocalStorage(root)).metadata_partitions == NAMES
    holds(root)
    steps = [
        (range(3, 9), 2, "upsert"),
        (range(2), 3, "delete"),
        (range(2, 12), 3, "upsert"),
        (range(20, 22), 4, "insert"),
        (range(30, 31), 5, "insert_overwrite"),
    ]
    for numbers, ts, do in steps:
        write(root, numbers, ts, do)
        assert load_table_config(LocalStorage(root)).metadata_partitions == NAMES
        holds(root)
        for where in WHERE:
            assert found(root, where, prune=True) == found(root, where, prune=False), (do, where)
    own = OwnTable.load(LocalStorage(root))
    assert own is not None
    assert any(i.planned_as is Action.COMPACTION for i in own.timeline.completed)


@each_kind
def test_statistics_of_a_table_that_was_there_before(
    tmp_path: Path, version: int, table_type: TableType
) -> None:
    root = made(tmp_path / "t", version, table_type)
    off = {"hoodie__metadata__enable": "false"}
    write(root, range(6), 1, **off)
    write(root, range(3, 9), 2, **off)
    write(root, range(7, 12), 3, tidelake__metadata__rebuild="true")
    assert load_table_config(LocalStorage(root)).metadata_partitions == NAMES
    for where in WHERE:
        assert found(root, where, prune=True) == found(root, where, prune=False), where


def test_a_table_without_partitions_has_no_partition_statistics(tmp_path: Path) -> None:
    spec = TableSpec(name="t", schema=avro_schema(STRUCT, "t"), record_key_fields=("id",))
    create_table(Env(LocalStorage(str(tmp_path))), spec)
    for ts in (1, 2):
        write(str(tmp_path), range(4), ts)
    config = load_table_config(LocalStorage(str(tmp_path)))
    assert config.metadata_partitions == {"files", "column_stats"}
    assert set(metadata(str(tmp_path)).column_stats(["n"])) == {
        p.name for p in tmp_path.glob("*.parquet")
    }


def test_a_column_that_can_have_none_is_refused(tmp_path: Path) -> None:
    root = made(tmp_path / "t", 8, TableType.COPY_ON_WRITE)
    with pytest.raises(ConfigError, match="column nothing can have no statistics"):
        write(root, range(2), 1, hoodie__metadata__index__column__stats__column__list="nothing")
    assert not LocalTable(root, {}).read().collect()


@pytest.mark.parametrize("names", ["files,partition_stats", "column_stats,files"])
def test_half_of_the_statistics_is_not_kept(
    tmp_path: Path, names: str, caplog: pytest.LogCaptureFixture
) -> None:
    root = made(tmp_path / "t", 9, TableType.COPY_ON_WRITE)
    write(root, range(6), 1)
    properties = tmp_path / "t" / ".hoodie" / "hoodie.properties"
    text = properties.read_text()
    properties.write_text(text.replace("column_stats,files,partition_stats", names))
    write(root, range(3, 9), 2)
    assert load_table_config(LocalStorage(root)).metadata_partitions == {"files"}
    assert "taken out of use" in caplog.text


BOUNDED = {
    "hoodie__keep__min__commits": "5",
    "hoodie__keep__max__commits": "7",
    "hoodie__clean__commits__retained": "3",
    "hoodie__clean__automatic": "true",
}


@pytest.mark.sampled(1)
@pytest.mark.parametrize("version", [6, 9])
@pytest.mark.parametrize("table_type", TableType)
def test_a_metadata_table_stays_bounded(
    tmp_path: Path, version: int, table_type: TableType
) -> None:
    root = made(tmp_path / "t", version, table_type)
    storage = LocalStorage(root)
    sizes = []
    for ts in range(1, 40):
        write(root, range(ts % 3, ts % 3 + 2), ts, **BOUNDED)
        own = OwnTable.load(storage)
        assert own is not None
        files = [p for p in own.storage.files_below("") if not p.startswith(".hoodie/")]
        sizes.append((len(own.timeline.instants), len(files)))
    # Seven commits of the table stay active, with their cleans, and the services in between.
    late = sizes[20:]
    assert max(instants for instants, _ in late) < 40, sizes
    assert max(files for _, files in late) < (20 if version < 8 else 60), sizes
    assert check_table(open_state(root), metadata(root)).violations == []


def told(root: str, instant_time: str, least: int, greatest: int) -> None:
    """Tell the metadata table of a write to r1 with a file of such bounds."""
    env = Env(LocalStorage(root))
    config = load_table_config(env.storage)
    timeline = load_timeline(env.storage, config)
    times = InstantTimes(env.clock, config, timeline)
    keeper = MetadataTableKeeper(env)
    keeper.prepare(config, timeline, times)
    kinds = column_kinds(avro_schema(STRUCT, "t"))
    bounds = {
        name: widest(kinds.get(name, kinds["id"]), 1) for name in keeper.bounded_columns(config)
    }
    bounds["n"] = ColumnBounds(
        kind=ValueKind.INT, minimum=least, maximum=greatest, value_count=5, null_count=1
    )
    name = f"{instant_time}-0_0-0-0_{instant_time}.parquet"
    changes = FileChanges(written={"r1": {name: 9}}, bounds={f"r1/{name}": bounds})
    keeper.record(instant_time, changes, times)


def by_requested_time(root: str) -> ColumnRange:
    """Return the range of n in r1 as Apache Hudi puts it together."""
    own = OwnTable.load(LocalStorage(root))
    assert own is not None
    (found,) = own.slices(PARTITION_STATS)
    logs = tuple(sorted(found.log_files, key=lambda log: log.instant_time))
    group = MetadataFileGroup(
        own.storage,
        replace(found, log_files=logs),
        is_visible=lambda _: True,
        may_be_torn=lambda _: False,
    )
    (record,) = group.find(Keys([column_id("n") + partition_id("r1")])).values()
    assert isinstance(record, ColumnRange)
    return record


def next_times(root: str, count: int) -> list[str]:
    """Return times after all that the table has."""
    env = Env(LocalStorage(root))
    config = load_table_config(env.storage)
    times = InstantTimes(env.clock, config, load_timeline(env.storage, config))
    return [times.next() for _ in range(count)]


UNCOMPACTED = {"hoodie__metadata__compact__max__delta__commits": "9"}


@pytest.mark.parametrize("version", [8, 9])
def test_bounds_of_overlapping_writes_hold_in_the_order_of_their_requests(
    tmp_path: Path, version: int
) -> None:
    """Apache Hudi orders what writes told by the time at which they began."""
    root = made(tmp_path / "t", version, TableType.COPY_ON_WRITE)
    write(root, range(1, 4), 1, **UNCOMPACTED)
    first, second, third = next_times(root, 3)
    told(root, second, 50, 60)
    told(root, first, -80, 70)
    told(root, third, 55, 65)
    found = by_requested_time(root)
    assert (found.minimum, found.maximum) == (-80, 70)
    assert (found.value_count, found.null_count) == (15 + 2, 3)


def test_tight_bounds_of_a_later_request_take_statistics_out_of_use(tmp_path: Path) -> None:
    """Those of an overlapping write of Apache Hudi's hide whatever an earlier one tells."""
    root = made(tmp_path / "t", 9, TableType.COPY_ON_WRITE)
    write(root, range(1, 4), 1, **UNCOMPACTED)
    storage = LocalStorage(root)
    config = load_table_config(storage)
    first, second = next_times(root, 2)
    bounds = ColumnBounds(kind=ValueKind.INT, minimum=1, maximum=2, value_count=1, null_count=0)
    tight = encode_column_stats(bounds, 9, name="r1", column="n", is_partition=True)
    own = OwnTable.load(storage)
    assert own is not None
    times = InstantTimes(Env(storage).clock, config, load_timeline(storage, config))
    key = column_id("n") + partition_id("r1")
    own.commit(second, {PARTITION_STATS: {key: tight}}, times)
    told(root, first, -80, 70)
    assert load_table_config(storage).metadata_partitions == {"files"}


def test_a_compaction_puts_the_bounds_of_all_writes_together(tmp_path: Path) -> None:
    root = made(tmp_path / "t", 9, TableType.COPY_ON_WRITE)
    for ts in (1, 50, 3):
        write(root, [1, 3], ts, **UNCOMPACTED)
    write(root, [2], 2, hoodie__metadata__compact__max__delta__commits="1")
    own = OwnTable.load(LocalStorage(root))
    assert own is not None
    (kept,) = own.slices(PARTITION_STATS)
    assert kept.base_file is not None
    found = by_requested_time(root)
    assert (found.minimum, found.maximum) == (1, 150)
    assert found.value_count == 6
