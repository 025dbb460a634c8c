"""Writers of different modes beside each other."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from itertools import product
from pathlib import Path

import pytest
from pyspark.sql import types as T  # noqa: N812 - the customary name

from tests.scenarios import lake as lake_module
from tests.scenarios.clustering import Clustering
from tests.scenarios.lake import (
    BUCKETS,
    COW,
    INSERT,
    MOR,
    NBCC,
    OCC,
    UPSERT,
    Lake,
    Writing,
    by_key,
    row,
)
from tests.scenarios.rules import guards
from tidelake.config import WriteOperation
from tidelake.errors import (
    ConfigError,
    InstantLostError,
    SameWriteError,
    SchemaConflictError,
    UnsupportedTableError,
    WriteConflictError,
)
from tidelake.formats.file_name import bucket_number
from tidelake.model import Commit, TableType
from tidelake.operations import write_session
from tidelake.read.snapshot import plan_snapshot
from tidelake.txn import concurrency
from tidelake.txn.conflicts.judge import Rule
from tidelake.txn.protocol import transaction as protocol
from tidelake.txn.protocol.transaction import Transaction
from tidelake.write import index, plan
from tidelake.write.operation import planned_partitions
from tidelake.write.plan import Workload

MODE = "hoodie.write.concurrency.mode"
ALONE = {MODE: "SINGLE_WRITER"}
TYPES_AND_VERSIONS = [(COW, 9), (MOR, 8), (MOR, 9)]


def schemas_are_compared_by_sharers_alone(patch: pytest.MonkeyPatch) -> None:
    real = Transaction._resolved

    def as_it_was(txn: Transaction, *given: object, **named: object) -> str:
        if txn._concurrency.is_shared:
            return real(txn, *given, **named)  # type: ignore[arg-type]  # handed on
        return str(given[-2])

    patch.setattr(Transaction, "_resolved", as_it_was)


@guards(schemas_are_compared_by_sharers_alone)
@pytest.mark.parametrize(("kind", "version"), TYPES_AND_VERSIONS)
@pytest.mark.parametrize("other", [OCC, ALONE], ids=["shared", "alone"])
def test_F_06_a_writer_that_is_told_that_it_is_alone_keeps_the_others_column(
    tmp_path: Path, kind: TableType, version: int, other: dict[str, str]
) -> None:
    """A column that another writer adds meanwhile stays, whatever the mode of ours is."""
    lake = Lake(tmp_path, kind, version, ALONE)
    lake.write([row("a", 1)])
    ours = lake.writing([row("b", 1, p="y")]).begun()
    theirs = lake.writing(
        [row("c", 1, p="z", extra=7)],
        {**other, "hoodie.clean.failed.writes.policy": "LAZY"},
        fields={"extra": T.LongType()},
    )
    theirs.begun().commit()
    ours.commit()
    assert "extra" in lake.columns()
    rows = lake.rows()
    assert (rows["b"]["extra"], rows["c"]["extra"]) == (None, 7)


@guards(schemas_are_compared_by_sharers_alone)
def test_F_08_a_writer_that_is_told_that_it_is_alone_gives_way_to_another_schema(
    tmp_path: Path,
) -> None:
    """Both added a column: the later one is refused, and a second attempt has both."""
    lake = Lake(tmp_path, COW, 9, ALONE)
    lake.write([row("a", 1)])
    fields = {"ours": T.LongType()}
    ours = lake.writing([row("b", 1, p="y", ours=1)], fields=fields).begun()
    lake.write([row("c", 1, p="z", theirs=2)], OCC, fields={"theirs": T.LongType()})
    with pytest.raises(SchemaConflictError):
        ours.commit()
    assert "theirs" in lake.columns()
    assert "ours" not in lake.columns()


def write_ids_are_compared_by_sharers_alone(patch: pytest.MonkeyPatch) -> None:
    real = Transaction._refuse_same

    def as_it_was(txn: Transaction, *given: object) -> None:
        if txn._concurrency.is_shared:
            real(txn, *given)  # type: ignore[arg-type]  # handed on

    patch.setattr(Transaction, "_refuse_same", as_it_was)


@guards(write_ids_are_compared_by_sharers_alone)
@pytest.mark.parametrize("version", [6, 9])
def test_B_20_the_same_write_by_two_that_think_they_are_alone(tmp_path: Path, version: int) -> None:
    """A write under a write_id that has committed meanwhile is not made a second time."""
    lake = Lake(tmp_path, COW, version, ALONE)
    small = {"hoodie.parquet.small.file.limit": "0", "hoodie.clean.failed.writes.policy": "LAZY"}
    first = lake.writing([row("a", 1)], small, operation=INSERT, write_id="batch 1").begun()
    second = lake.writing([row("a", 1)], small, operation=INSERT, write_id="batch 1").begun()
    first.commit()
    with pytest.raises(SameWriteError):
        second.commit()
    assert lake.values() == {"a": 1}


ALLOW = {"hoodie.clustering.updates.strategy": "SparkAllowUpdateStrategy"}


@guards(lambda patch: patch.setattr(write_session, "clustered_groups", lambda *_: frozenset()))
@pytest.mark.parametrize("version", [6, 8, 9])
@pytest.mark.parametrize("operation", [INSERT, UPSERT])
@pytest.mark.parametrize("mode", [OCC, ALONE], ids=["shared", "alone"])
def test_B_09_new_keys_keep_out_of_the_small_files_of_a_clustering(
    tmp_path: Path, version: int, operation: WriteOperation, mode: dict[str, str]
) -> None:
    """New keys do not go to a file group whose rows are being moved: they would be refused."""
    lake = Lake(tmp_path, COW, version, mode)
    lake.write([row("a", 1)])
    Clustering(lake, "p=x", OCC)
    lake.write([row("b", 2)], operation=operation)
    assert lake.values() == {"a": 1, "b": 2}


@guards(lambda patch: patch.setattr(write_session, "clustered_groups", lambda *_: frozenset()))
def test_B_10_new_keys_do_not_stop_a_clustering_that_gives_way(tmp_path: Path) -> None:
    """Nor do they stop a clustering that gives way to writes into its file groups."""
    lake = Lake(tmp_path, COW, 9, ALLOW)
    lake.write([row("a", 1)])
    clustering = Clustering(lake, "p=x")
    clustering.start()
    lake.write([row("b", 2)], operation=INSERT)
    clustering.commit(lake.state().schema().avro)
    assert lake.values() == {"a": 1, "b": 2}


ELSEWHERE = [
    (INSERT, "y"),
    (INSERT, "x"),
    (UPSERT, "y"),
    (WriteOperation.BULK_INSERT, "y"),
    (WriteOperation.INSERT_OVERWRITE, "y"),
]


@guards(lambda patch: patch.setattr(concurrency, "is_silent", lambda found: not found.slots))
@pytest.mark.parametrize(("operation", "partition"), ELSEWHERE)
def test_B_12_a_pending_write_elsewhere_does_not_stop_a_clustering(
    tmp_path: Path, operation: WriteOperation, partition: str
) -> None:
    """A write that has said that it changes no file group of the clustering lets it commit."""
    lake = Lake(tmp_path, COW, 9, ALLOW)
    lake.write([row("a", 1)])
    clustering = Clustering(lake, "p=x")
    clustering.start()
    running = lake.writing([row("b", 2, p=partition)], operation=operation).begun()
    clustering.commit(lake.state().schema().avro)
    running.commit()
    assert lake.values() == {"a": 1, "b": 2}


def small_files_are_not_named(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(
        lake_module, "planned_stats", lambda workload, _: {p: [] for p in workload.partitions}
    )


@guards(small_files_are_not_named)
def test_B_12_a_small_file_that_is_being_filled_stops_its_clustering(tmp_path: Path) -> None:
    """A clustering that was planned after an insert chose its small file gives way to it."""
    lake = Lake(tmp_path, COW, 9, ALLOW)
    lake.write([row("a", 1)])
    running = lake.writing([row("b", 2)], operation=INSERT).begun()
    clustering = Clustering(lake, "p=x")
    clustering.start()
    with pytest.raises(WriteConflictError):
        clustering.commit(lake.state().schema().avro)
    running.commit()
    assert lake.values() == {"a": 1, "b": 2}


ONE_BUCKET = {**BUCKETS, "hoodie.bucket.index.num.buckets": "1"}


def delete_partition(lake: Lake, partition: str, options: Mapping[str, str]) -> Commit:
    """Delete one partition, start to end."""
    session = lake.writing([], options).session
    with session.begin(WriteOperation.DELETE_PARTITION, None, looked_up=False) as txn:
        replaced = {partition: [], **session.retire(txn, [partition])}
        txn.start(planned_partitions(Workload(), replaced))
        return session.commit(txn, [], lake.state().schema().avro, replaced=replaced)


def overwrite(lake: Lake, partition: str, options: Mapping[str, str]) -> Commit:
    """Overwrite one partition, start to end."""
    rows = [row("new", 9, p=partition.partition("=")[2])]
    return lake.write(rows, options, operation=WriteOperation.INSERT_OVERWRITE)


def bucket_groups(lake: Lake) -> list[tuple[str, int | None]]:
    """Return partition and bucket of every live file group."""
    groups = [s.group for s in lake.state().view.latest_slices()]
    return sorted((g.partition, bucket_number(g.file_id)) for g in groups)


def fixed_ids(lake: Lake) -> None:
    lake.write([row("a", 1)], NBCC)


def renewed_ids(lake: Lake) -> None:
    lake.write([row("a", 1)], NBCC)
    delete_partition(lake, "p=x", OCC)
    lake.write([row("a", 1)], NBCC)


def random_ids(lake: Lake) -> None:
    """Give the bucket a file group as Apache's optimistic writers do."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(index, "FIXED_ID_END", "-1234-4abc-8def-0123456789ab-0")
        lake.write([row("a", 1)], OCC)


def only_fixed_ids_are_guarded(patch: pytest.MonkeyPatch) -> None:
    """Take file groups off the table under writers whose ids have another form."""
    patch.setattr(concurrency.Reviewer, "writers_beneath", lambda *_: [])
    patch.setattr(concurrency, "judge_added_logs", lambda *_: Rule.DISJOINT)


@guards(only_fixed_ids_are_guarded)
@pytest.mark.parametrize("ids", [fixed_ids, renewed_ids, random_ids])
@pytest.mark.parametrize("displace", [delete_partition, overwrite])
@pytest.mark.parametrize("version", [8, 9])
def test_C_18_what_is_replaced_under_a_writer_that_never_gives_way(
    tmp_path: Path,
    ids: Callable[[Lake], None],
    displace: Callable[[Lake, str, Mapping[str, str]], Commit],
    version: int,
) -> None:
    """No partition is replaced under a running write, whatever ids its file groups have."""
    lake = Lake(tmp_path, MOR, version, {**NBCC, **ONE_BUCKET})
    ids(lake)
    running = lake.writing([row("b", 2)]).begun()
    with pytest.raises(WriteConflictError):
        displace(lake, "p=x", {**OCC, **ONE_BUCKET})
    running.commit()
    assert lake.values() == {"a": 1, "b": 2}
    assert lake.check().violations == []


@guards(only_fixed_ids_are_guarded)
def test_C_18_a_writer_that_came_after_one_that_is_told_that_it_is_alone(tmp_path: Path) -> None:
    """A partition is not replaced by a writer without the lock, either."""
    lake = Lake(tmp_path, MOR, 9, {**NBCC, **ONE_BUCKET})
    renewed_ids(lake)
    alone = lake.writing(
        [row("new", 9)], {**ALONE, **ONE_BUCKET}, operation=WriteOperation.INSERT_OVERWRITE
    ).begun()
    running = lake.writing([row("b", 2)]).begun()
    with pytest.raises(WriteConflictError, match="may still add"):
        alone.commit()
    running.commit()
    assert lake.values() == {"a": 1, "b": 2}


def test_C_18_partitions_are_replaced_beside_writers_of_others(tmp_path: Path) -> None:
    """A non-blocking writer holds up replacements of its own partitions alone."""
    lake = Lake(tmp_path, MOR, 9, {**NBCC, **ONE_BUCKET})
    lake.write([row("a", 1), row("y", 1, p="y")])
    running = lake.writing([row("b", 2), row("z", 1, p="z")]).begun()
    overwrite(lake, "p=y", {**OCC, **ONE_BUCKET})
    running.commit()
    assert lake.values() == {"a": 1, "b": 2, "new": 9, "z": 1}


@guards(lambda patch: patch.setattr(protocol, "never_gives_way", lambda *_, **__: False))
@pytest.mark.parametrize("said", [b"", b'{"writer": "w", "expires_ms": 120000}'])
def test_C_18_a_writer_that_does_not_say_its_mode(tmp_path: Path, said: bytes) -> None:
    """Apache's heartbeats say nothing: such a writer may be one that never gives way."""
    lake = Lake(tmp_path, MOR, 9, {**NBCC, **ONE_BUCKET})
    lake.write([row("a", 1)])
    running = lake.writing([row("b", 2)]).begun()
    lake.storage.put(running.txn.heartbeat_path, said)
    with pytest.raises(WriteConflictError, match="may still add"):
        delete_partition(lake, "p=x", {**OCC, **ONE_BUCKET})


def test_C_18_an_optimistic_writer_holds_up_no_replacement(tmp_path: Path) -> None:
    """A write that will look, and give way, is not waited for."""
    lake = Lake(tmp_path, MOR, 9, {**OCC, **ONE_BUCKET})
    lake.write([row("a", 1)])
    running = lake.writing([row("b", 2)]).begun()
    delete_partition(lake, "p=x", {})
    with pytest.raises(WriteConflictError):
        running.commit()
    assert lake.values() == {}


@guards(lambda patch: patch.setattr(concurrency.Reviewer, "writers_beneath", lambda *_: []))
def test_C_18_a_clustering_under_a_writer_that_never_gives_way(tmp_path: Path) -> None:
    """A clustering that does not give way by its options still waits for such a write."""
    lake = Lake(tmp_path, MOR, 9, {**OCC, **ONE_BUCKET})
    lake.write([row("a", 1)])
    clustering = Clustering(lake, "p=x")
    clustering.start()
    running = lake.writing([row("b", 2)], NBCC).begun()
    with pytest.raises(WriteConflictError):
        clustering.commit(lake.state().schema().avro)
    running.commit()
    assert lake.values() == {"a": 1, "b": 2}


LAZY = {**ALONE, "hoodie.clean.failed.writes.policy": "LAZY"}
OVERWRITE = WriteOperation.INSERT_OVERWRITE
WRITERS: dict[str, tuple[Mapping[str, str], WriteOperation]] = {
    "optimistic": (OCC, UPSERT),
    "non-blocking": (NBCC, UPSERT),
    "alone": (LAZY, UPSERT),
    "overwrite": (OCC, OVERWRITE),
    "overwrite alone": (LAZY, OVERWRITE),
    "bulk insert": (NBCC, WriteOperation.BULK_INSERT),
}


def deleted(lake: Lake) -> None:
    renewed_ids(lake)
    delete_partition(lake, "p=x", OCC)


def empty(_: Lake) -> None:
    pass


PARTITIONS = [empty, deleted, fixed_ids, renewed_ids, random_ids]


def folded(before: Iterable[str], landed: Sequence[tuple[WriteOperation, str]]) -> set[str]:
    """Return the keys that are there once writes have landed, in the order of completion."""
    keys = set(before)
    for operation, name in landed:
        keys = {"both", name} if operation is OVERWRITE else {*keys, "both", name}
    return keys


def play(lake: Lake, writers: Sequence[str], *, crossed: bool) -> None:
    """Let two writes begin, then commit; hold the table to what landed."""
    before = lake.values()
    running: dict[str, tuple[Writing, WriteOperation]] = {}
    for name, writer in zip("mn", writers, strict=True):
        options, operation = WRITERS[writer]
        rows = [row("both", 5), row(name, 5)]
        # One that is told that it is alone does not begin beside others.
        with suppress(ConfigError):
            made = lake.writing(rows, {**ONE_BUCKET, **options}, operation=operation)
            running[name] = made.begun(), operation
    landed = []
    for name in sorted(running, reverse=crossed):
        writing, operation = running[name]
        with suppress(WriteConflictError, InstantLostError):
            writing.commit()
            landed.append((operation, name))
    assert landed, "one of them must get through"
    assert set(lake.values()) == folded(before, landed)
    assert len(bucket_groups(lake)) == 1
    lake.compactor().both()
    assert set(lake.values()) == folded(before, landed)


MEETINGS = [
    (PARTITIONS[at % len(PARTITIONS)], pair, crossed)
    for at, (pair, crossed) in enumerate(product(product(WRITERS, WRITERS), (False, True)))
]


@pytest.mark.sampled(24)
@pytest.mark.parametrize(("start", "writers", "crossed"), MEETINGS)
def test_C_26_two_writers_of_any_modes_meet_in_a_bucket(
    tmp_path: Path, start: Callable[[Lake], None], writers: tuple[str, str], crossed: bool
) -> None:
    """Whatever lands is there, once, and the bucket has one file group."""
    lake = Lake(tmp_path, MOR, 8 if crossed else 9, {**NBCC, **ONE_BUCKET})
    start(lake)
    play(lake, writers, crossed=crossed)


def ids_of_their_own(patch: pytest.MonkeyPatch) -> None:
    """Let the mode of a writer decide about ids, and let no one look for other ones."""
    patch.setattr(index, "has_fixed_ids", lambda _: False)
    patch.setattr(concurrency, "judge_added_logs", lambda *_: Rule.DISJOINT)
    patch.setattr(concurrency.Reviewer, "writers_beneath", lambda *_: [])


@guards(ids_of_their_own)
@pytest.mark.parametrize("start", [empty, deleted])
@pytest.mark.parametrize("writer", ["optimistic", "overwrite"])
def test_C_26_a_new_bucket_has_one_file_group(
    tmp_path: Path, start: Callable[[Lake], None], writer: str
) -> None:
    """An optimistic writer and one that never looks meet where no file group is yet."""
    lake = Lake(tmp_path, MOR, 9, {**NBCC, **ONE_BUCKET})
    start(lake)
    play(lake, (writer, "non-blocking"), crossed=False)


@guards(lambda patch: patch.setattr(concurrency, "judge_added_logs", lambda *_: Rule.DISJOINT))
def test_C_26_a_writer_that_makes_up_ids(tmp_path: Path) -> None:
    """Apache's optimistic writers make up ids: a bucket that one of them filled is not split."""
    lake = Lake(tmp_path, MOR, 9, {**NBCC, **ONE_BUCKET})
    running = lake.writing([row("b", 2)]).begun()
    random_ids(lake)
    with pytest.raises(WriteConflictError, match="another file group by now") as refused:
        running.commit()
    assert "run the write again" in refused.value.next_step
    lake.write([row("b", 2)])
    assert lake.values() == {"a": 1, "b": 2}
    assert len(bucket_groups(lake)) == 1


@guards(lambda patch: patch.setattr(concurrency, "judge_added_logs", lambda *_: Rule.DISJOINT))
@pytest.mark.parametrize("displace", [delete_partition, overwrite])
def test_C_18_a_replacement_by_a_writer_that_does_not_look_at_others(
    tmp_path: Path, displace: Callable[[Lake, str, Mapping[str, str]], Commit]
) -> None:
    """Apache replaces file groups under running writes: those find out, and are made again."""
    lake = Lake(tmp_path, MOR, 9, {**NBCC, **ONE_BUCKET})
    lake.write([row("a", 1)])
    running = lake.writing([row("b", 2)]).begun()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(concurrency.Reviewer, "writers_beneath", lambda *_: [])
        displace(lake, "p=x", {**OCC, **ONE_BUCKET})
    left = lake.values()
    with pytest.raises(WriteConflictError, match="another file group by now, or none"):
        running.commit()
    lake.write([row("b", 2)])
    assert lake.values() == {**left, "b": 2}


def test_C_16_an_id_that_the_archive_has_forgotten(tmp_path: Path) -> None:
    """Two writers give a deleted bucket different ids when the delete is archived in between."""
    small = {
        "hoodie.clean.automatic": "false",
        "hoodie.archive.automatic": "false",
        "hoodie.clean.commits.retained": "1",
        "hoodie.keep.min.commits": "2",
        "hoodie.keep.max.commits": "3",
    }
    lake = Lake(tmp_path, MOR, 9, {**NBCC, **ONE_BUCKET, **small})
    deleted(lake)
    for ts in range(5):
        lake.write([row("y", ts, p="y")])
    first = lake.writing([row("both", 1), row("m", 1)]).begun()
    lake.table_services().clean()
    lake.table_services().archive()
    second = lake.writing([row("both", 2), row("n", 2)]).begun()
    ids = {s.file_id for s in (*first._stats, *second._stats)}
    first.commit()
    if len(ids) == 1:
        second.commit()
    else:
        with pytest.raises(WriteConflictError):
            second.commit()
        lake.write([row("both", 2), row("n", 2)])
    assert lake.values() == {"y": 4, "both": 2, "m": 1, "n": 2}
    assert bucket_groups(lake) == [("p=x", 0), ("p=y", 0)]


def split_bucket(lake: Lake) -> None:
    """Leave two file groups in one bucket, as two writers do that know nothing of each other."""
    random_ids(lake)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(plan, "_bucket_word", lambda group: group.id.file_id)
        lake.write([row("a", 2)], OCC)


def test_C_26_a_bucket_that_others_split_is_told_of(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """No writer adds to such a bucket, readers warn, and compactions leave both file groups."""
    lake = Lake(tmp_path, MOR, 9, {**NBCC, **ONE_BUCKET})
    split_bucket(lake)
    (violation,) = [v for v in lake.check().violations if "live file groups" in v.problem]
    assert "bucket 0" in violation.problem
    for operation in (UPSERT, INSERT, WriteOperation.DELETE):
        with pytest.raises(UnsupportedTableError, match="insert_overwrite"):
            lake.write([row("a", 3)], operation=operation)
    state = lake.state()
    with pytest.raises(AssertionError, match="a is there twice"):
        by_key(state, plan_snapshot(state))
    assert "more than one file group" in caplog.text
    lake.compactor().both()
    assert len(bucket_groups(lake)) == 2, "which row is meant, a compaction cannot tell"
    lake.write([row("a", 3)], OCC, operation=OVERWRITE)
    assert lake.values() == {"a": 3}
    assert lake.check().violations == []
