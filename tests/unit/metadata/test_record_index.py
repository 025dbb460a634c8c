"""The record index that writes keep: it finds every key in the file group that has it."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from datetime import datetime, timezone
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import types as T  # noqa: N812 - the customary name

from tests.unit.metadata.test_statistics import ASKED, STRUCT, made, metadata, row, write
from tidelake.config import WriteOptions
from tidelake.config.keys.read_keys import METADATA_PARTITIONS
from tidelake.env import Env
from tidelake.errors import CorruptFileError, SnapshotLostError
from tidelake.files import read_slice
from tidelake.files.record_index import group_numbers
from tidelake.formats.file_name import parse_log
from tidelake.formats.hfile import HFile
from tidelake.formats.index_definitions import IndexDefinition
from tidelake.formats.metadata_record import file_group_of
from tidelake.metadata.names import METADATA_FOLDER, RECORD_INDEX
from tidelake.metadata.own_table import OwnTable
from tidelake.metadata.record_index import epoch_ms, is_index_kept, open_record_index
from tidelake.metadata.upkeep import GroupToCompact, compact
from tidelake.model import Action, TableType
from tidelake.operations.open_table import load_state, open_state
from tidelake.operations.table_services import TableServices, open_table_services
from tidelake.read.scan import Selection
from tidelake.read.snapshot import plan_snapshot
from tidelake.spark.datasource.writer import TidelakeWriter
from tidelake.spark.types.to_avro import avro_schema
from tidelake.spark.write.index_lookup import KNOWN_FILE, KNOWN_KEY, KNOWN_PATH
from tidelake.spark.write.record_lookup import found_in
from tidelake.storage import LocalStorage
from tidelake.testing import Crash, Fault, FaultyStorage
from tidelake.timeline import Publisher, load_table_config, update_table_config
from tidelake.txn import InstantTimes, begin

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
    assert looked_up(root, sorted(asked)) == wanted


def looked_up(root: str, keys: Sequence[str]) -> dict[str, tuple[str, str]]:
    """Return what tasks of a write find in the index, asked for each key twice."""
    state = open_state(root)
    index = open_record_index(state.storage, state.config, state.timeline)
    assert index is not None
    asked = pa.RecordBatch.from_pydict({"key": [*keys, None], "path": ["r0"] * (len(keys) + 1)})
    found = pa.Table.from_batches(found_in(index, [asked, asked])).to_pylist()
    assert len({one[KNOWN_KEY] for one in found}) == len(found)
    for one in found:
        assert one["_tidelake_elsewhere"] == (one[KNOWN_PATH] != "r0")
    return {one[KNOWN_KEY]: (one[KNOWN_PATH], one[KNOWN_FILE]) for one in found}


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
def test_a_pending_savepoint_hides_no_key_of_the_write_that_it_keeps(
    tmp_path: Path, version: int, table_type: TableType
) -> None:
    root = made(tmp_path / "t", version, table_type)
    write(root, range(6), 1, **INDEXED)
    write(root, range(6, 12), 2)
    state, before = open_state(root), locations(root)
    saved = state.timeline.writes()[-1].requested_time
    Publisher(state.storage, state.config).start(saved, Action.SAVEPOINT)
    assert looked_up(root, sorted(before)) == before
    agrees(root)


@pytest.mark.sampled(3)
@each_kind
@pytest.mark.parametrize("staged", ["false", "true"])
def test_an_overwrite_takes_the_keys_of_what_it_replaces_out_of_the_index(
    tmp_path: Path, version: int, table_type: TableType, staged: str
) -> None:
    root = made(tmp_path / "t", version, table_type)
    combined = {"hoodie__combine__before__insert": staged}
    write(root, range(12), 1, **INDEXED)
    write(root, [0, 4], 2)
    write(root, [0, 30], 3, "insert_overwrite", **combined)
    state = open_state(root)
    done = state.contents.commit_metadata(state.timeline.writes()[-1])
    assert set(done.partition_to_replace_file_ids) == {"r0"}
    assert set(done.partition_to_write_stats) == {"r0"}
    assert RECORD_INDEX in names(root)
    assert {"k0", "k30", "k1"} <= locations(root).keys()
    assert "k4" not in locations(root)
    agrees(root)
    write(root, [4, 6, 30], 4)
    agrees(root)
    write(root, range(40, 45), 5, "insert_overwrite_table", **combined)
    assert RECORD_INDEX in names(root)
    assert locations(root).keys() == {f"k{n}" for n in range(40, 45)}
    agrees(root)
    write(root, range(20), 6)
    agrees(root)


def test_entries_of_rows_long_gone_leave_with_their_file_group(tmp_path: Path) -> None:
    root = made(tmp_path / "t", 9, TableType.COPY_ON_WRITE)
    write(root, range(12), 1, **INDEXED)
    # Rows go by what they say of themselves, and their entries stay.
    before = locations(root)
    struct = T.StructType([*STRUCT.fields, T.StructField("_hoodie_is_deleted", T.BooleanType())])
    rows = [{**row(n, 2), "_hoodie_is_deleted": True} for n in (0, 4)]
    writer = TidelakeWriter({**ASKED, "path": root}, struct, overwrite=False)
    writer.commit([writer.write(iter(pa.Table.from_pylist(rows).to_batches()))])
    assert before.keys() - locations(root).keys() == {"k0", "k4"}
    assert looked_up(root, ["k0", "k1"]) == {key: before[key] for key in ("k0", "k1")}
    write(root, [2, 30], 3, "insert_overwrite")
    agrees(root)
    write(root, [0, 4], 4)
    agrees(root)


def test_a_partition_that_went_without_its_knowledge_ends_the_index(tmp_path: Path) -> None:
    root = made(tmp_path / "t", 9, TableType.COPY_ON_WRITE)
    write(root, range(12), 1, **INDEXED)
    kept, env, state = names(root), Env(LocalStorage(root)), open_state(root)
    partition, file_id = locations(root)["k0"]
    with begin(
        env,
        state.config,
        state.timeline,
        action=Action.REPLACECOMMIT,
        operation="DELETE_PARTITION",
    ) as txn:
        txn.start()
        txn.commit((), schema=avro_schema(STRUCT, "t"), replaced={partition: [file_id]})
    update_table_config(env, {METADATA_PARTITIONS.name: ",".join(sorted(kept))})
    write(root, [1], 2)
    assert names(root) == kept - {RECORD_INDEX}
    assert locations(root).keys() == {f"k{n}" for n in range(1, 12, 2)}


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


def test_an_index_that_lacks_a_write_is_not_looked_into(tmp_path: Path) -> None:
    root = made(tmp_path / "t", 9, TableType.COPY_ON_WRITE)
    write(root, range(4), 1, **INDEXED)
    write(root, range(4, 8), 2)
    timeline = Path(root) / METADATA_FOLDER / ".hoodie" / "timeline"
    newest = open_state(root).timeline.writes()[-1].requested_time
    for path in timeline.glob(f"{newest}*"):
        path.unlink()
    state = open_state(root)
    with pytest.raises(CorruptFileError, match=f"does not know commit {newest}") as refused:
        open_record_index(state.storage, state.config, state.timeline)
    assert "tidelake.metadata.rebuild=true" in refused.value.next_step


def test_a_write_that_was_taken_back_meanwhile_means_a_new_start(tmp_path: Path) -> None:
    root = made(tmp_path / "t", 9, TableType.COPY_ON_WRITE)
    write(root, range(4), 1, **INDEXED)
    write(root, range(4, 8), 2)
    before = open_state(root)
    newest = before.timeline.writes()[-1].requested_time
    open_table_services(root, {}).roll_back(newest)
    with pytest.raises(SnapshotLostError, match=f"{newest} was taken back"):
        open_record_index(before.storage, before.config, before.timeline)


def test_an_index_that_tells_of_a_write_being_undone_is_not_looked_into(tmp_path: Path) -> None:
    """The write is off the timeline, and its keys are still in the index."""
    root = made(tmp_path / "t", 9, TableType.COPY_ON_WRITE)
    write(root, range(4), 1, **INDEXED)
    write(root, range(2), 2, "delete")
    newest = open_state(root).timeline.writes()[-1].requested_time
    storage = LocalStorage(root)

    def ends(_number: int, name: str, path: str) -> Fault | None:
        is_completed = path.endswith(".commit") and newest in path
        return Fault.CRASH_AFTER if name == "delete" and is_completed else None

    env = Env(FaultyStorage(storage, ends))
    options = WriteOptions.from_options({})
    with pytest.raises(Crash):
        TableServices(env, load_state(env.storage, {}), options).roll_back(newest)
    state = open_state(root)
    assert newest not in {i.requested_time for i in state.timeline.writes()}
    assert open_record_index(state.storage, state.config, state.timeline) is None


def test_what_is_written_meanwhile_is_no_part_of_the_index(tmp_path: Path) -> None:
    root = made(tmp_path / "t", 9, TableType.MERGE_ON_READ)
    write(root, range(4), 1, **INDEXED)
    before = open_state(root)
    write(root, range(4, 8), 2)
    index = open_record_index(before.storage, before.config, before.timeline)
    assert index is not None
    asked = pa.RecordBatch.from_pydict({"key": ["k1", "k5"], "path": ["r1", "r1"]})
    assert [one[KNOWN_KEY] for b in found_in(index, [asked]) for one in b.to_pylist()] == ["k1"]


def test_a_table_without_an_index_has_none_to_look_into(tmp_path: Path) -> None:
    root = made(tmp_path / "t", 9, TableType.COPY_ON_WRITE)
    write(root, range(4), 1)
    state = open_state(root)
    assert open_record_index(state.storage, state.config, state.timeline) is None


def test_a_task_compacts_a_file_group_as_the_driver_does(tmp_path: Path) -> None:
    root = made(tmp_path / "t", 9, TableType.MERGE_ON_READ)
    write(root, range(40), 1, **INDEXED, hoodie__metadata__compact__max__delta__commits="9")
    write(root, range(5, 9), 2, "delete", hoodie__metadata__compact__max__delta__commits="9")
    own = OwnTable.load(LocalStorage(root))
    assert own is not None
    slices = own.slices(RECORD_INDEX)
    done = []
    for at, found in enumerate(slices):
        task = GroupToCompact(
            storage=own.storage.spec,
            slice=found,
            instant_time=f"2099010100000000{at % 10}",
            schema=own.schema,
        )
        done.append(pickle.loads(pickle.dumps(task)).write())
    files = [HFile.of_bytes(own.storage.read(stat.path or "")) for stat in done]
    keys = {key.decode() for file in files for key, _ in file.scan()}
    assert keys == {f"k{n}" for n in range(40)} - {f"k{n}" for n in range(5, 9)}
    assert [stat.num_writes for stat in done] == [file.entry_count for file in files]
    compact(
        own,
        [RECORD_INDEX],
        "20990101000000010",
        InstantTimes(Env(own.storage).clock, own.config, own.timeline),
    )
    for stat, found in zip(done, slices, strict=True):
        ours = own.storage.read(stat.path or "")
        path = next(
            f"{RECORD_INDEX}/{f.name}"
            for f in own.storage.list(RECORD_INDEX).files
            if f.name.startswith(found.group.file_id) and f.name.endswith("20990101000000010.hfile")
        )
        assert own.storage.read(path) == ours
