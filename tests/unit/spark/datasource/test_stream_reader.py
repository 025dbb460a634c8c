"""A table as a stream, as Spark calls it, without Spark."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import types as T  # noqa: N812 - the customary name

from tests.scenarios.lake import BUCKETS, COW, MOR, Lake, row
from tidelake.errors import ConfigError, IncrementalRangeError
from tidelake.model import TableType
from tidelake.spark.datasource.source import TidelakeSource
from tidelake.spark.datasource.stream_reader import TidelakeStreamReader

Offset = dict[str, Any]


def stream(lake: Lake, **options: str) -> TidelakeStreamReader:
    given = {"path": str(lake.root), **options}
    return TidelakeStreamReader(given, TidelakeSource(given).schema())


def read(reader: TidelakeStreamReader, start: Offset | None = None) -> tuple[list[str], Offset]:
    """Return the keys of all micro-batches from `start` on, and where the stream is then."""
    at = reader.initialOffset() if start is None else start
    found: list[str] = []
    while (end := reader.latestOffset(at, reader.getDefaultReadLimit())) != at:
        for share in reader.partitions(at, end):
            for batch in reader.read(share):
                found += batch.column("id").to_pylist()
        at = end
    return found, at


@pytest.mark.parametrize("version", [6, 8, 9])
@pytest.mark.parametrize("kind", [COW, MOR])
def test_overlapping_writes_and_services_bring_each_row_once(
    tmp_path: Path, kind: TableType, version: int
) -> None:
    lake = Lake(tmp_path, kind, version, BUCKETS)
    reader = stream(lake)
    assert read(reader) == ([], {"time": ""})
    lake.write([row("a", 1), row("b", 1)])
    found, at = read(reader)
    assert sorted(found) == ["a", "b"]
    slow = lake.writing([row("slow", 5, p="s")]).begun()
    lake.write([row("quick", 6, p="q")])
    first, at = read(reader, at)
    slow.commit()
    if kind is MOR:
        lake.compactor().both()
    lake.write([row("b", 7, b="new")], fields={"b": T.StringType()})
    second, at = read(reader, at)
    assert sorted(first + second) == ["b", "quick", "slow"]
    assert read(reader, at)[0] == []


def test_a_stream_that_fell_behind_says_so_and_starts_anew(tmp_path: Path) -> None:
    lake = Lake(tmp_path, COW)
    lake.write([row("a", 1)])
    at = read(stream(lake))[1]
    keeps = {
        "hoodie.clean.commits.retained": "1",
        "hoodie.keep.min.commits": "2",
        "hoodie.keep.max.commits": "3",
    }
    for number in range(6):
        lake.write([row("a", 2 + number), row(f"b{number}", 1, p="y")])
    lake.table_services(keeps).clean()
    lake.table_services(keeps).archive()
    with pytest.raises(IncrementalRangeError, match="start the stream anew"):
        read(stream(lake), at)
    assert sorted(read(stream(lake, maxFilesPerTrigger="1"))[0]) == sorted(lake.rows())


@pytest.mark.parametrize("version", [8, 9])
def test_a_stream_of_changes_tells_that_a_clean_took_what_it_needs(
    tmp_path: Path, version: int
) -> None:
    lake = Lake(tmp_path, MOR, version, {"hoodie.table.cdc.enabled": "true"})
    changes = {
        "hoodie.datasource.query.type": "incremental",
        "hoodie.datasource.query.incremental.format": "cdc",
    }

    def ops(at: Offset | None) -> tuple[list[str], Offset]:
        reader = stream(lake, **changes)
        start = reader.initialOffset() if at is None else at
        end = reader.latestOffset(start, reader.getDefaultReadLimit())
        shares = reader.partitions(start, end)
        batches = [batch for share in shares for batch in reader.read(share)]
        return [op for batch in batches for op in batch.column("op").to_pylist()], end

    lake.write([row("a", 1), row("b", 1)])
    assert ops(None)[0] == ["i", "i"]
    lake.write([row("a", 2)])
    planned = lake.compactor({"hoodie.compact.inline.max.delta.commits": "1"}).schedule()
    _, at = ops(None)
    lake.write([row("a", 3)])
    assert ops(at)[0] == ["u"]
    assert planned is not None
    lake.compactor().run(planned)
    lake.write([row("b", 2)])
    assert sorted(ops(at)[0]) == ["u", "u"]
    lake.table_services({"hoodie.clean.commits.retained": "1"}).clean()
    with pytest.raises(IncrementalRangeError, match=r"was cleaned\n  next: start the stream anew"):
        ops(at)


@pytest.mark.parametrize("version", [6, 8, 9])
@pytest.mark.parametrize("undo", ["restore", "rollback"])
def test_commits_that_were_brought_and_undone_are_told(
    tmp_path: Path, version: int, undo: str
) -> None:
    lake = Lake(tmp_path, MOR, version, BUCKETS)
    kept = lake.write([row("a", 1)])
    lake.table_services().savepoint(kept.requested_time, "")
    at = read(stream(lake))[1]
    gone = lake.write([row("b", 1)])
    found, beyond = read(stream(lake), at)
    assert found == ["b"]
    if undo == "restore":
        lake.table_services().restore(kept.requested_time)
    else:
        lake.table_services().roll_back(gone.requested_time)
    for begun in ((beyond, beyond), (at, beyond)):
        with pytest.raises(IncrementalRangeError, match=f"commit {gone.requested_time}, whose"):
            stream(lake).partitions(*begun)
    with pytest.raises(IncrementalRangeError, match="taken off the table"):
        read(stream(lake), beyond)
    assert read(stream(lake), at) == ([], at)
    lake.write([row("c", 1)])
    with pytest.raises(IncrementalRangeError, match=r"tidelake\.stream\.undone\.commits=GO_ON"):
        read(stream(lake), beyond)
    going_on = {"tidelake.stream.undone.commits": "go_on"}
    found, then = read(stream(lake, **going_on), beyond)
    assert found == ["c"]
    assert read(stream(lake), then) == ([], then)


@pytest.mark.parametrize("undo", [True, False])
def test_what_services_did_and_what_was_archived_is_not_undone(
    tmp_path: Path, *, undo: bool
) -> None:
    lake = Lake(tmp_path, MOR, options=BUCKETS)
    lake.write([row("a", 1)])
    lake.write([row("a", 2)])
    compacted = lake.compactor({"hoodie.compact.inline.max.delta.commits": "1"}).both()
    assert compacted is not None
    _, at = read(stream(lake))
    if undo:
        lake.table_services().roll_back(compacted.requested_time)
    else:
        keeps = {"hoodie.keep.min.commits": "2", "hoodie.keep.max.commits": "3"}
        for number in range(6):
            lake.write([row("a", 2 + number)])
        _, at = read(stream(lake), at)
        lake.table_services({**keeps, "hoodie.clean.commits.retained": "1"}).archive()
        at["commit"] = list(lake.state().history.completion_times())[-1]
    assert read(stream(lake), at) == ([], at)


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("as.of.instant", "20260301000000000", "goes by the offsets"),
        ("hoodie.datasource.query.type", "read_optimized", "logs included"),
        ("maxFilesPerTrigger", "0", "whole numbers from 1 on"),
        ("hoodie.datasource.streaming.startOffset", "soon", "not a point in time"),
    ],
)
def test_options_that_a_stream_has_no_use_for(
    tmp_path: Path, name: str, value: str, said: str
) -> None:
    lake = Lake(tmp_path, COW)
    given = {"path": str(lake.root), name: value}
    with pytest.raises(ConfigError, match=said):
        TidelakeStreamReader(given, T.StructType([])).initialOffset()
