"""The record index that writes keep: it finds every key in the file group that has it."""

from __future__ import annotations

from datetime import datetime, timezone
from pathlib import Path

import pyarrow as pa
import pytest

from tests.unit.metadata.test_statistics import ASKED, STRUCT, made, metadata, row, write
from tidelake.files import read_slice
from tidelake.files.record_index import group_numbers
from tidelake.formats.file_name import parse_log
from tidelake.formats.index_definitions import IndexDefinition
from tidelake.formats.metadata_record import file_group_of
from tidelake.metadata.names import METADATA_FOLDER, RECORD_INDEX
from tidelake.metadata.own_table import OwnTable
from tidelake.metadata.record_index import epoch_ms, is_index_kept
from tidelake.model import Action, TableType
from tidelake.read.scan import Selection
from tidelake.read.snapshot import plan_snapshot
from tidelake.spark.datasource_writer import TidelakeWriter
from tidelake.storage import LocalStorage
from tidelake.table import open_state
from tidelake.timeline import load_table_config

INDEXED = {"hoodie__metadata__record__index__enable": "true"}
each_kind = pytest.mark.parametrize(
    ("version", "table_type"), [(v, t) for v in (8, 9) for t in TableType]
)


def names(root: str) -> frozenset[str]:
    return load_table_config(LocalStorage(root)).metadata_partitions


def locations(root: str) -> dict[str, tuple[str, str]]:
    """Return where the rows of the table are, by key."""
    plan = plan_snapshot(open_state(root), Selection(columns=("id",)))
    return {
        key: (task.partition, task.file_id)
        for task in plan.tasks
        for batch in read_slice(task, plan.spec)
        for key in batch.column(0).to_pylist()
    }


def agrees(root: str) -> None:
    wanted = locations(root)
    asked = {f"k{n}" for n in range(60)}
    assert metadata(root).record_index_lookup(asked) == wanted


@each_kind
def test_every_key_is_found_where_it_is(
    tmp_path: Path, version: int, table_type: TableType
) -> None:
    root = made(tmp_path / "t", version, table_type)
    write(root, range(20), 1, **INDEXED)
    assert RECORD_INDEX in names(root)
    agrees(root)
    steps = [
        (range(10, 30), 2, "upsert"),
        (range(5, 15), 3, "delete"),
        (range(12, 40), 4, "upsert"),
        (range(40, 50), 5, "insert"),
        (range(50, 55), 6, "bulk_insert"),
    ]
    for numbers, ts, do in steps:
        write(root, numbers, ts, do)
        assert RECORD_INDEX in names(root)
        agrees(root)
    own = OwnTable.load(LocalStorage(root))
    assert own is not None
    assert any(i.planned_as is Action.COMPACTION for i in own.timeline.completed)
    assert not own.timeline.pending


@each_kind
def test_an_overwrite_takes_the_index_out_of_use(
    tmp_path: Path, version: int, table_type: TableType
) -> None:
    root = made(tmp_path / "t", version, table_type)
    write(root, range(6), 1, **INDEXED)
    write(root, range(1), 2, "insert_overwrite")
    assert RECORD_INDEX not in names(root)
    assert "files" in names(root)
    state = open_state(root)
    done = state.contents.commit_metadata(state.timeline.writes()[-1])
    assert set(done.partition_to_replace_file_ids) == {"r0"}
    assert set(done.partition_to_write_stats) == {"r0"}


def test_logs_of_tasks_that_ran_twice_do_not_count(tmp_path: Path) -> None:
    root = made(tmp_path / "t", 9, TableType.COPY_ON_WRITE)
    write(root, range(20), 1, **INDEXED)
    folder = Path(root) / METADATA_FOLDER / RECORD_INDEX
    instants = {
        log.instant_time: path
        for path in folder.iterdir()
        if (log := parse_log(RECORD_INDEX, path.name, 0)) is not None
    }
    assert len(instants) == 1
    storage = LocalStorage(root)
    own = OwnTable.load(storage)
    assert own is not None
    ((instant_time, path),) = instants.items()
    stray = path.with_name(path.name.rpartition("_")[0] + "_9-9-9")
    stray.write_bytes(path.read_bytes())
    kept = {f"{RECORD_INDEX}/{p.name}" for p in folder.iterdir() if p != stray}
    own.delete_strays(RECORD_INDEX, instant_time, kept)
    assert not stray.exists()
    assert path.exists()


def test_a_write_that_failed_leaves_nothing_in_the_index(tmp_path: Path) -> None:
    root = made(tmp_path / "t", 9, TableType.COPY_ON_WRITE)
    write(root, range(4), 1, **INDEXED)
    given = {**ASKED, "path": root, "hoodie.datasource.write.operation": "bulk_insert"}
    writer = TidelakeWriter(given, STRUCT, overwrite=False)
    writer.write(iter(pa.Table.from_pylist([row(n, 2) for n in range(10, 30)]).to_batches()))
    folder = Path(root) / METADATA_FOLDER / RECORD_INDEX
    before = len(list(folder.iterdir()))
    write(root, range(2), 3)
    agrees(root)
    assert len(list(folder.iterdir())) < before


def test_file_groups_of_many_keys_are_those_of_each() -> None:
    keys = [f"key-{n}" for n in range(200)] + ["ключ", "鍵🔑", ""]
    found = group_numbers(pa.array(keys), 10)
    assert found.tolist() == [file_group_of(key, 10) for key in keys]


def test_times_count_from_the_epoch() -> None:
    moment = datetime(2026, 11, 15, 9, 0, 4, 959000, tzinfo=timezone.utc)
    assert epoch_ms("20261115090004959", is_utc=True) == round(moment.timestamp() * 1000)


def test_an_index_for_each_partition_is_not_kept(tmp_path: Path) -> None:
    root = made(tmp_path / "t", 9, TableType.COPY_ON_WRITE)
    write(root, range(4), 1, **INDEXED)
    config = load_table_config(LocalStorage(root))

    def defined(partitioned: str) -> dict[str, IndexDefinition]:
        options = {"isPartitioned": partitioned}
        found = IndexDefinition(
            index_name=RECORD_INDEX, index_type=RECORD_INDEX, index_options=options
        )
        return {RECORD_INDEX: found}

    assert is_index_kept(config, defined("false"))
    assert not is_index_kept(config, defined("true"))
