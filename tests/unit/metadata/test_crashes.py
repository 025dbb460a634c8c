"""Writers that end at any storage call, with statistics and the record index kept as well."""

from __future__ import annotations

import copy
from dataclasses import replace

import pytest
from typing_extensions import override

from tests.unit.metadata.test_keeper import FIRST, SECOND, THIRD, agrees, keeping, metadata
from tests.unit.txn.toy_table import PARTITION, SCHEMA, Rows, Toy, new_storage
from tidelake.files.column_stats import column_kinds
from tidelake.formats.column_bounds import ColumnBounds
from tidelake.formats.commit_metadata import WriteStat
from tidelake.formats.file_name import format_log
from tidelake.formats.metadata_encoding import encode_location
from tidelake.formats.metadata_log import encode_log
from tidelake.formats.metadata_record import RecordLocation, file_group_of
from tidelake.formats.metadata_schema import record_schema_text
from tidelake.metadata.names import METADATA_FOLDER, RECORD_INDEX
from tidelake.model import Commit, FileSlice, TableType
from tidelake.storage import MemoryStorage, Storage
from tidelake.testing import Crash, Fault, FaultyStorage
from tidelake.timeline import load_table_config
from tidelake.txn import Transaction

NAMES = {"files", "column_stats", "partition_stats", RECORD_INDEX}
each_kind = pytest.mark.parametrize(
    ("table_version", "table_type"), [(v, t) for v in (8, 9) for t in TableType]
)


class Indexed(Toy):
    """A toy table whose tasks tell bounds, and keep an index in which each group is a key."""

    def __init__(self, storage: Storage) -> None:
        options = {"column_stats": True, "record_index": True, "compact_after": 3}
        super().__init__(storage, keeping(enabled=True, **options))

    @override
    def write(self, rows: Rows, *, overwrite: bool = False, write_id: str | None = None) -> Commit:
        txn = self.begin()
        with txn:
            existing = self.slices(txn.timeline)
            txn.start()
            assert self.keeper is not None
            stats = []
            for group, text in rows.items():
                for token in ("0-1-1", "0-1-0"):
                    stat = self.task(txn, group, text, existing.get(group), token)
                    log = self.index_log(txn, group, token)
                    wanted = token == "0-1-0"
                    stats += [stat, *([log] if log else [])] if wanted else []
            return txn.commit(stats, schema=SCHEMA)

    @override
    def task(
        self, txn: Transaction, group: str, text: str, before: FileSlice | None, token: str
    ) -> WriteStat:
        stat = super().task(txn, group, text, before, token)
        assert self.keeper is not None
        kinds = column_kinds(SCHEMA)
        bounds = {
            name: ColumnBounds(
                kind=kinds[name].kind, minimum=text, maximum=text, value_count=1, null_count=0
            )
            for name in self.keeper.bounded_columns(txn.config)
        }
        return replace(stat, column_bounds=bounds, is_indexed=True)

    def index_log(self, txn: Transaction, group: str, token: str) -> WriteStat | None:
        assert self.keeper is not None
        target = self.keeper.begin_index_logs(txn.config, txn.instant_time)
        if target is None:
            return None
        version = self.config.table_version
        # A task that ran twice wrote other files, and says so.
        location = RecordLocation(partition=PARTITION, file_id=group if token[-1] == "0" else "x")
        value = encode_location(location, target.instant_ms, version)
        schema = record_schema_text(version)
        data = encode_log({group.encode(): value}, schema, txn.instant_time, RECORD_INDEX)
        file_id = target.file_ids[file_group_of(group, len(target.file_ids))]
        number = sum(map(ord, group))
        name = format_log(
            file_id=file_id,
            instant_time=txn.instant_time,
            version=1,
            write_token=f"{number}-{token[2:]}",
        )
        self.storage.put(f"{METADATA_FOLDER}/{RECORD_INDEX}/{name}", data)
        return WriteStat(
            file_id=file_id,
            path=f"{RECORD_INDEX}/{name}",
            partition_path=RECORD_INDEX,
            file_size_in_bytes=len(data),
            is_index=True,
        )


def holds(storage: Storage) -> None:
    """Hold every part of the metadata table to the table."""
    agrees(storage)
    found = metadata(storage)
    toy = Toy(storage)
    assert load_table_config(storage).metadata_partitions == NAMES
    keys = found.record_index_lookup([*toy.rows(), "x-0", "nothing"])
    assert keys == {group: (PARTITION, group) for group in toy.rows()}
    stats = found.column_stats(["_hoodie_record_key"])
    for group, piece in toy.slices().items():
        paths = [f.path for f in (piece.base_file, *piece.log_files) if f is not None]
        known = [stats[path]["_hoodie_record_key"] for path in paths]
        text = toy.rows()[group]
        assert min(str(k.min) for k in known) <= text <= max(str(k.max) for k in known)
        over = found.partition_stats(["_hoodie_record_key"])[PARTITION]["_hoodie_record_key"]
        assert str(over.min) <= text <= str(over.max)


def written(table_version: int, table_type: TableType, *batches: Rows) -> MemoryStorage:
    storage = new_storage(table_version, table_type)
    for rows in batches:
        Indexed(storage).write(rows)
    return storage


@each_kind
def test_all_parts_are_kept(table_version: int, table_type: TableType) -> None:
    storage = written(table_version, table_type, FIRST)
    holds(storage)
    for number in range(8):
        Indexed(storage).write({"a-0": f"a{number}", f"n{number}-0": f"n{number}"})
        holds(storage)


#: The others take long, and have nothing of their own.
QUICK = [(9, TableType.COPY_ON_WRITE, 3), (9, TableType.MERGE_ON_READ, 1)]
CASES = [(v, t, n) for v in (8, 9) for t in TableType for n in (1, 3)]


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("table_version", "table_type", "earlier"),
    [case if case in QUICK else pytest.param(*case, marks=pytest.mark.long) for case in CASES],
)
def test_a_crash_at_any_call_leaves_all_parts_true(
    table_version: int, table_type: TableType, earlier: int
) -> None:
    # With three writes before it, the write compacts the metadata table.
    before = written(table_version, table_type, *(FIRST, {"e-0": "e"}, {"f-0": "f"})[:earlier])
    old = Toy(before).rows()
    counting = FaultyStorage(copy.deepcopy(before))
    Indexed(counting).write(SECOND)
    compacts = any(".compaction" in path for _, path in counting.calls)
    assert compacts == (earlier == 3)
    for number in range(1, len(counting.calls) + 1):
        storage = copy.deepcopy(before)
        with pytest.raises(Crash):
            Indexed(FaultyStorage.failing_at(storage, number, Fault.CRASH_AFTER)).write(SECOND)
        rows = Toy(storage).rows()
        assert rows in (old, {**old, **SECOND}), counting.calls[number - 1]
        assert Toy(storage).rows(metadata(storage)) == rows, counting.calls[number - 1]
        known = metadata(storage).record_index_lookup([*old, *SECOND])
        assert known == {group: (PARTITION, group) for group in rows}
        Indexed(storage).write(THIRD)
        holds(storage)
        assert Toy(storage).rows() == {**rows, **THIRD}
