"""Part B, continued: two writes at once, one inside the other."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import types as T  # noqa: N812 - the customary name
from pyspark.sql.datasource import WriterCommitMessage
from typing_extensions import override

from tests.scenarios.clustering import Clustering
from tests.scenarios.lake import BASE, BUCKETS, COW, MOR, UPSERT, Lake, Row, Writing, row
from tests.scenarios.rules import guards
from tests.scenarios.test_optimistic import plan_of
from tests.sim.planted import empty_buckets_are_forgotten, no_lock
from tidelake.config import WriteOperation, WriteOptions
from tidelake.env import Env
from tidelake.errors import SameWriteError, WriteConflictError
from tidelake.model import Action, Commit, Instant, TableType
from tidelake.model.table_format import TableFormat
from tidelake.operations.staged_write import bring_in_at_once
from tidelake.operations.write_session import Choice, WriteSession
from tidelake.services import archive_plan, compaction
from tidelake.services.archive import archive
from tidelake.spark.datasource import writer as datasource_writer
from tidelake.spark.datasource.writer import TidelakeWriter
from tidelake.spark.workers.write_tasks import token_of_task
from tidelake.testing import FaultyStorage, ManualClock
from tidelake.timeline import Timeline
from tidelake.txn import concurrency
from tidelake.txn.conflicts import candidates
from tidelake.txn.conflicts import judge as conflict
from tidelake.txn.conflicts.candidates import Start
from tidelake.txn.locks import TableLock
from tidelake.txn.protocol import begin as opening
from tidelake.txn.protocol import retry
from tidelake.txn.protocol import transaction as protocol
from tidelake.write.plan import Workload

OVERWRITE = WriteOperation.INSERT_OVERWRITE
OVERWRITE_TABLE = WriteOperation.INSERT_OVERWRITE_TABLE
ALLOW = {"hoodie.clustering.updates.strategy": "SparkAllowUpdateStrategy"}
ONE_BUCKET = {**BUCKETS, "hoodie.bucket.index.num.buckets": "1"}
NEW_FILES = {"hoodie.parquet.small.file.limit": "0"}
KEY_CHECK = {"hoodie.write.occ.key.conflict.check": "true"}


def who_starts_later_is_forgotten(patch: pytest.MonkeyPatch) -> None:
    real = candidates.completed_candidates

    def started_before(timeline: Timeline, start: Start, *given: Any) -> list[Instant]:
        found = real(timeline, start, *given)
        return [i for i in found if i.requested_time < start.requested_time]

    patch.setattr(concurrency, "completed_candidates", started_before)


@guards(who_starts_later_is_forgotten)
@pytest.mark.parametrize("version", [6, 8, 9])
@pytest.mark.parametrize("kind", [COW, MOR])
@pytest.mark.parametrize("index", [{}, BUCKETS], ids=["simple", "bucket"])
def test_B_03_started_later_and_done_first(
    tmp_path: Path, version: int, kind: TableType, index: dict[str, str]
) -> None:
    """Requested after us and completed before our commit: we give way, and nothing is left."""
    lake = Lake(tmp_path, kind, version, index)
    lake.write([row("a", 1)])
    ours = lake.writing([row("a", 9)]).begun()
    theirs = lake.write([row("a", 2)])
    with pytest.raises(WriteConflictError) as refused:
        ours.commit()
    assert (refused.value.ours, refused.value.theirs) == (
        ours.txn.instant_time,
        theirs.requested_time,
    )
    assert lake.values() == {"a": 2}
    assert lake.state().timeline.pending == ()
    lake.write([row("a", 9)])
    assert lake.values() == {"a": 9}


@guards(lambda patch: patch.setattr(conflict, "TableFormat", lambda _: TableFormat(9)))
@pytest.mark.parametrize("completes", [False, True], ids=["pending", "completed"])
def test_B_06_a_log_behind_a_compaction_of_version_6(tmp_path: Path, completes: bool) -> None:
    """Up to version 7 a log that did not know of a compaction would go with the old slice."""
    lake = Lake(tmp_path, MOR, 6, ONE_BUCKET)
    lake.write([row("a", 1)])
    lake.write([row("a", 2)])
    writing = lake.writing([row("a", 3)]).begun()
    assert lake.compactor().schedule() is None, "we do not plan while somebody writes"
    planned = plan_of(lake, Action.COMPACTION)
    if completes:
        lake.compactor().run(planned)
    with pytest.raises(WriteConflictError, match="behind its back") as refused:
        writing.commit()
    assert refused.value.theirs == planned
    lake.write([row("a", 3)])
    if not completes:
        lake.compactor().run(planned)
    assert lake.values() == {"a": 3}


def clusterings_are_ignored(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(concurrency.Reviewer, "refuse_clustered", lambda *_: None)
    patch.setattr(candidates, "_matters", lambda *_, **__: False)


@guards(clusterings_are_ignored)
@pytest.mark.parametrize("operation", [UPSERT, WriteOperation.DELETE])
@pytest.mark.parametrize("mode", ["OPTIMISTIC_CONCURRENCY_CONTROL", "SINGLE_WRITER"])
def test_B_09_a_pending_clustering_under_reject(
    tmp_path: Path, operation: WriteOperation, mode: str
) -> None:
    """Rows of a pending clustering are not changed: the write is refused before it writes."""
    lake = Lake(tmp_path, COW, 9, {"hoodie.write.concurrency.mode": mode})
    lake.write([row("a", 1), row("b", 1, p="y")])
    clustering = Clustering(lake, "p=x")
    before = set(lake.root.rglob("*.parquet"))
    with pytest.raises(WriteConflictError) as refused:
        lake.write([row("a", 2)], operation=operation)
    assert refused.value.theirs == clustering.requested_time
    assert clustering.requested_time in str(refused.value)
    assert set(lake.root.rglob("*.parquet")) == before, "nothing was written"
    assert "let the clustering finish" in refused.value.next_step
    lake.write([row("b", 2, p="y")])
    clustering.start()
    clustering.commit(lake.state().schema().avro)
    lake.write([row("a", 3)])
    assert lake.values() == {"a": 3, "b": 2}


def clustering_beside_a_silent_write(root: Path) -> tuple[Lake, Clustering, Writing]:
    """Start a clustering, and a write that has not said what it will change."""
    lake = Lake(root, COW, 9, ALLOW)
    lake.write([row("a", 1)])
    clustering = Clustering(lake, "p=x")
    clustering.start()
    silent = lake.writing([row("a", 2)])
    silent.txn = silent.session.begin(UPSERT, None, looked_up=False)
    return lake, clustering, silent


@guards(lambda patch: patch.setattr(concurrency, "is_silent", lambda _: False))
def test_B_12_a_clustering_and_a_write_that_has_said_nothing(tmp_path: Path) -> None:
    """Nobody knows what a write will change that has not said so: a clustering lets it go first."""
    lake, clustering, silent = clustering_beside_a_silent_write(tmp_path)
    with pytest.raises(WriteConflictError, match="has not said yet") as refused:
        clustering.commit(lake.state().schema().avro)
    left = {i.requested_time for i in lake.state().timeline.instants}
    assert clustering.requested_time not in left, "the plan goes with the attempt"
    assert "plan the clustering anew" in refused.value.next_step
    silent._write()
    silent.commit()
    assert lake.values() == {"a": 2}


def test_B_12_a_write_that_is_dead_holds_up_no_clustering(tmp_path: Path) -> None:
    """Whatever a write without signs of life meant to change, it will not."""
    lake, clustering, silent = clustering_beside_a_silent_write(tmp_path)
    os.utime(lake.root / ".hoodie/.heartbeat" / silent.txn.instant_time, (1, 1))
    clustering.commit(lake.state().schema().avro)
    assert lake.values() == {"a": 1}


def partitions_are_their_files(patch: pytest.MonkeyPatch) -> None:
    """An overwrite meets the file groups that it replaces, and no others."""
    patch.setattr(conflict, "overlap", lambda ours, theirs: ours.slots & theirs.slots)


@guards(partitions_are_their_files)
@pytest.mark.parametrize("operation", [OVERWRITE, OVERWRITE_TABLE])
@pytest.mark.parametrize("overwrite_first", [True, False], ids=["insert last", "overwrite last"])
def test_B_15_an_overwrite_and_a_new_file_group(
    tmp_path: Path, operation: WriteOperation, overwrite_first: bool
) -> None:
    """An overwrite replaces its partitions, file groups included that it could not know."""
    lake = Lake(tmp_path, COW, 9, NEW_FILES)
    lake.write([row("a", 1), row("z", 1, p="z")])
    overwrite = lake.writing([row("o", 2)], operation=operation).begun()
    insert = lake.writing([row("b", 3)], operation=WriteOperation.INSERT).begun()
    first, last = (overwrite, insert) if overwrite_first else (insert, overwrite)
    first.commit()
    with pytest.raises(WriteConflictError):
        last.commit()
    rest = {} if operation is OVERWRITE_TABLE else {"z": 1}
    expected = {"o": 2, **rest} if overwrite_first else {"a": 1, "b": 3, "z": 1}
    assert lake.values() == expected


def tables_are_their_partitions(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(candidates, "_WHOLE_TABLE", "")


@guards(tables_are_their_partitions)
def test_B_15_an_overwrite_of_the_table_and_a_new_partition(tmp_path: Path) -> None:
    """A table that is overwritten does not keep rows of a partition that came meanwhile."""
    lake = Lake(tmp_path, COW)
    lake.write([row("a", 1)])
    overwrite = lake.writing([row("o", 2)], operation=OVERWRITE_TABLE).begun()
    lake.write([row("n", 3, p="new")])
    with pytest.raises(WriteConflictError) as refused:
        overwrite.commit()
    assert [name.partition("/")[0] for name in refused.value.overlap] == ["p=new"]
    lake.write([row("o", 2)], operation=OVERWRITE_TABLE)
    assert lake.values() == {"o": 2}


def keys_are_not_compared(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(concurrency.Reviewer, "_same_new_keys", lambda *_: ())


@guards(keys_are_not_compared)
@pytest.mark.parametrize("theirs", [{}, NEW_FILES], ids=["a new file each", "one in a small file"])
def test_B_18_two_inserts_of_one_key(tmp_path: Path, theirs: dict[str, str]) -> None:
    """With the key guard one of two writes gives way that add a key to a file group each."""
    lake = Lake(tmp_path, COW, 9, KEY_CHECK)
    if theirs:
        lake.write([row("a", 1)])
    first = lake.writing([row("k", 1), row("l", 1)]).begun()
    lake.write([row("k", 2), row("m", 2)], theirs)
    with pytest.raises(WriteConflictError, match="added the same keys") as refused:
        first.commit()
    assert "\nkeys of both           k\n" in refused.value.explain()
    assert "\nthey are               ingestion UPSERT (commit)\n" in refused.value.explain()
    lake.write([row("k", 3)])
    assert lake.values()["k"] == 3


def test_B_18_without_the_guard_both_are_there(tmp_path: Path) -> None:
    """Without it, both inserts commit, as in Hudi, and `tidelake check` names the key."""
    lake = Lake(tmp_path, COW)
    first = lake.writing([row("k", 1)]).begun()
    lake.write([row("k", 2)])
    first.commit()
    assert ["such as k:" in note for note in lake.check().notes] == [True]


def globally(writing: Writing) -> Writing:
    """Begin a write of a table in which no key may be twice."""
    writing.txn = writing.session.begin(
        UPSERT, None, looked_up=False, keeps_unique=True, is_global=True
    )
    writing._write()
    return writing


@guards(keys_are_not_compared)
@pytest.mark.parametrize("partition", ["x", "y"])
def test_B_18_a_global_index_needs_no_guard(tmp_path: Path, partition: str) -> None:
    """Under a global index a key is never twice in the table, guard or not."""
    lake = Lake(tmp_path, COW)
    first = globally(lake.writing([row("k", 1)]))
    other = globally(lake.writing([row("l", 1, p="y")]))
    globally(lake.writing([row("k", 2, p=partition)])).commit()
    with pytest.raises(WriteConflictError, match="added the same keys"):
        first.commit()
    other.commit()
    assert lake.values() == {"k": 2, "l": 1}


def nobody_is_told(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(WriteConflictError, "tried", lambda *_: None)


@guards(nobody_is_told)
def test_B_21_a_hot_file_group(tmp_path: Path) -> None:
    """Who meets others again and again waits longer each time, and in the end tells why."""
    lake = Lake(tmp_path, COW)
    lake.write([row("a", 0)])
    instants: list[str] = []
    slept: list[int] = []

    class Clock(ManualClock):
        @override
        def sleep_ms(self, ms: int) -> None:
            slept.append(ms)

    def attempt() -> Commit:
        writing = lake.writing([row("a", 99)]).begun()
        instants.append(writing.txn.instant_time)
        lake.write([row("a", len(instants))])
        return writing.commit()

    with pytest.raises(WriteConflictError) as refused:
        retry.retry_on_conflict(Env(lake.storage, Clock()), 3, attempt)
    assert len(set(instants)) == 4
    assert [low <= ms <= 2 * low for ms, low in zip(slept, (500, 1000, 2000), strict=True)] == [
        True
    ] * 3
    assert "at the last of 4 attempts" in refused.value.problem
    assert "hoodie.write.num.retries.on.conflict.failures" in refused.value.next_step
    assert "3 retries were not enough" in refused.value.next_step
    assert lake.values() == {"a": 4}
    assert lake.state().timeline.pending == ()


@guards(lambda patch: patch.setattr(retry, "retry_on_conflict", lambda _env, _n, write: write()))
def test_B_21_nobody_starves(tmp_path: Path) -> None:
    """Many writers of one file group, with retries: each of them commits in the end."""
    lake = Lake(tmp_path, COW)
    lake.write([row("a", 0)])
    began = threading.Barrier(4)
    done: list[Commit] = []
    failed: list[BaseException] = []

    class Clock(ManualClock):
        @override
        def sleep_ms(self, ms: int) -> None:
            threading.Event().wait(ms / 20_000)

    def work(key: str) -> None:
        met = threading.Event()

        def attempt() -> Commit:
            writing = lake.writing([row(key, 1)]).begun()
            if not met.is_set():
                met.set()
                began.wait(30)
            return writing.commit()

        try:
            done.append(retry.retry_on_conflict(Env(lake.storage, Clock()), 30, attempt))
        except WriteConflictError as error:
            failed.append(error)

    threads = [threading.Thread(target=work, args=(f"k{n}",)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert failed == []
    assert sorted(commit.attempts > 1 for commit in done) == [False, True, True, True]
    assert lake.values() == {"a": 0, "k0": 1, "k1": 1, "k2": 1, "k3": 1}
    assert lake.state().timeline.pending == ()


def reading(lake: Lake, key: str) -> tuple[Writing, Workload]:
    """Return a write of a row that was found in the table as it is now, and where it was."""
    writing = lake.writing([row(key, 9)])
    (found,) = writing.session.state.view.latest_slices(["p=x"])
    return writing, Workload(counts={("p=x", found.group.file_id): 1})


def starts_when_it_writes(patch: pytest.MonkeyPatch) -> None:
    real = opening.begin

    def late(*args: Any, **given: Any) -> Any:
        return real(*args, **{**given, "seen": None})

    patch.setattr("tidelake.operations.write_session.begin", late)


@guards(starts_when_it_writes)
@pytest.mark.parametrize("kind", [COW, MOR])
def test_B_24_changed_between_a_read_and_the_write(tmp_path: Path, kind: TableType) -> None:
    """What an update was made of counts from when it was read, not from when it is written."""
    lake = Lake(tmp_path, kind)
    lake.write([row("a", 1)])
    ours, found = reading(lake, "a")
    lake.write([row("a", 2)])
    ours.txn = ours.session.begin(UPSERT, None, looked_up=True)
    ours.txn.start()
    plan = ours.session.plan(ours.txn, ours._choice, found, by_file_id=True)
    ours._work.looked_up(ours.txn)
    ours._stats, ours._replaced = ours._work.write(ours.txn, plan, token_of_task()), {}
    with pytest.raises(WriteConflictError):
        ours.commit()
    assert lake.values() == {"a": 2}


def overwritten(lake: Lake) -> None:
    lake.write([row("o", 2)], operation=OVERWRITE)


def clustered(lake: Lake) -> None:
    clustering = Clustering(lake, "p=x")
    clustering.start()
    clustering.commit(lake.state().schema().avro)


@guards(lambda patch: patch.setattr(protocol.Transaction, "refuse_gone", lambda *_: None))
@pytest.mark.parametrize("kind", [COW, MOR])
@pytest.mark.parametrize("change", [overwritten, clustered])
def test_B_24_the_file_group_has_gone_meanwhile(
    tmp_path: Path, kind: TableType, change: Callable[[Lake], None]
) -> None:
    """A row whose file group was replaced since it was found is not dropped without a word."""
    lake = Lake(tmp_path, kind)
    lake.write([row("a", 1)])
    ours, found = reading(lake, "a")
    change(lake)
    before = lake.values()
    ours.txn = ours.session.begin(UPSERT, None, looked_up=True)
    with pytest.raises(WriteConflictError) as refused, ours.txn:
        ours.session.plan(ours.txn, ours._choice, found)
    assert refused.value.theirs == lake.state().timeline.writes()[-1].requested_time
    assert lake.values() == before
    assert lake.state().timeline.pending == ()


@guards(no_lock)
def test_B_27_two_schedules_of_a_compaction(tmp_path: Path) -> None:
    """Two schedules at once: a file group is in one plan."""
    lake = Lake(tmp_path, MOR, 9, BUCKETS)
    for ts in (1, 2):
        lake.write([row("a", ts), row("b", ts)])
    planning, planned = threading.Event(), threading.Event()
    found: list[str | None] = []
    real = compaction.plan_compaction

    def second() -> None:
        planning.wait(10)
        found.append(lake.compactor().schedule())
        planned.set()

    def plan(*args: Any, **given: Any) -> Any:
        made = real(*args, **given)
        if not planning.is_set():
            planning.set()
            planned.wait(0.5)
        return made

    thread = threading.Thread(target=second)
    thread.start()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tidelake.operations.compaction_run.plan_compaction", plan)
        found.append(lake.compactor().schedule())
        thread.join(30)
    assert sorted(time is None for time in found) == [False, True]
    lake.compactor().both()
    assert lake.values() == {"a": 2, "b": 2}


def foreign_archival(lake: Lake) -> None:
    """Archive what is old, whoever may still need it."""
    options = WriteOptions.from_options(
        {
            "hoodie.clean.commits.retained": "1",
            "hoodie.keep.min.commits": "2",
            "hoodie.keep.max.commits": "3",
        }
    ).services
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(archive_plan, "_holds", lambda *_: iter(()))
        assert archive(lake.env(), options) is not None


@guards(lambda patch: patch.setattr(Start, "may_miss", lambda *_: False))
@pytest.mark.parametrize(
    ("version", "strategy"), [(6, "simple"), (8, "end"), (9, "simple"), (9, "end")]
)
def test_B_30_a_candidate_that_was_archived(tmp_path: Path, version: int, strategy: str) -> None:
    """A write that outlives the active timeline still finds who changed its file group."""
    lake = Lake(
        tmp_path, COW, version, {"hoodie.write.lock.conflict.resolution.strategy": strategy}
    )
    lake.write([row("a", 1), row("z", 0, p="z")])
    ours = lake.writing([row("a", 2)]).begun()
    theirs = lake.write([row("a", 3)])
    for ts in range(4):
        lake.write([row("z", ts, p="z")])
    foreign_archival(lake)
    assert theirs.requested_time in lake.state().history.completion_times()
    with pytest.raises(WriteConflictError) as refused:
        ours.commit()
    assert refused.value.theirs == theirs.requested_time
    assert lake.values() == {"a": 3, "z": 3}


def asks_when_it_writes(patch: pytest.MonkeyPatch) -> None:
    real = protocol.Transaction.__init__

    def forgetful(txn: Any, *args: Any, **given: Any) -> None:
        real(txn, *args, **{**given, "asked": None})

    patch.setattr(protocol.Transaction, "__init__", forgetful)


@guards(asks_when_it_writes)
@pytest.mark.parametrize("operation", [WriteOperation.BULK_INSERT, OVERWRITE])
def test_the_same_write_committed_while_its_rows_were_counted(
    tmp_path: Path, operation: WriteOperation
) -> None:
    """Two processes under one write_id: that of the second counts, however late it begins."""
    lake = Lake(tmp_path, COW)
    first = lake.writing([row("a", 1)], operation=operation)
    second = lake.writing([row("a", 1)], operation=operation)
    assert first.session.done_before("load-7") is None
    for writing in (second, first):
        writing.txn = writing.session.begin(operation, "load-7", looked_up=False)
        writing._write()
        if writing is second:
            done = writing.commit()
    with pytest.raises(SameWriteError) as refused:
        first.commit()
    assert refused.value.theirs == done.requested_time
    assert lake.values() == {"a": 1}


@guards(lambda patch: patch.setattr("tidelake.view.pending.MissingFileError", KeyError))
def test_a_clustering_that_vanishes_while_a_compaction_is_planned(tmp_path: Path) -> None:
    """A plan that is rolled back while others look at it is in nobody's way."""
    lake = Lake(tmp_path, MOR, 9, BUCKETS)
    lake.write([row("a", 1)])
    lake.write([row("a", 2)])
    clustering = Clustering(lake, "p=x")
    gone = [lake.root / f".hoodie/timeline/{clustering.requested_time}.clustering.requested"]

    def vanish(_number: int, name: str, path: str) -> None:
        if name == "read" and path.endswith("clustering.requested") and gone:
            gone.pop().unlink()

    lake.storage = FaultyStorage(lake.storage, vanish)
    assert lake.compactor().schedule() is not None
    assert gone == []
    assert [i.action for i in lake.state().timeline.pending] == [Action.COMPACTION]


@pytest.mark.parametrize("has_schema", [True, False])
def test_what_came_before_the_write_began_is_built_upon(tmp_path: Path, has_schema: bool) -> None:
    """With the same columns a write of buckets counts from its beginning, even the first one."""
    lake = Lake(tmp_path, COW, 9, ONE_BUCKET, has_schema=has_schema)
    ours = lake.writing([row("a", 9)])
    lake.write([row("a", 2), row("b", 2)])
    ours.begun().commit()
    assert lake.values() == {"a": 9, "b": 2}


def test_a_column_in_another_bucket_is_no_conflict(tmp_path: Path) -> None:
    lake = Lake(tmp_path, COW, 9, BUCKETS)
    lake.write([row("a", 1)])
    ours = lake.writing([row("a", 9)])
    lake.write([row("b", 2, p="y", w="kept")], fields={"w": T.StringType()})
    ours.begun().commit()
    assert lake.rows()["a"] == {**row("a", 9), "w": None}
    assert lake.rows()["b"]["w"] == "kept"


def from_data_source(
    lake: Lake, new: Row, options: dict[str, str]
) -> tuple[TidelakeWriter, WriterCommitMessage]:
    """Return a write of a row through the data source, up to where its tasks have ended."""
    struct = T.StructType([T.StructField(name, kind) for name, kind in BASE.items()])
    given = {**lake.options, **options, "path": str(lake.root)}
    writer = TidelakeWriter(given, struct, overwrite=False)
    return writer, writer.write(iter(pa.Table.from_pylist([dict(new)]).to_batches()))


@guards(lambda patch: patch.setattr(datasource_writer, "replace", lambda choice, **_: choice))
def test_a_column_that_came_while_the_data_source_ran_its_tasks(tmp_path: Path) -> None:
    """Rows are brought in under the columns that the table has by then."""
    lake = Lake(tmp_path, COW)
    lake.write([row("a", 1), row("b", 1)])
    writer, laid = from_data_source(
        lake, row("a", 9), {"hoodie.write.set.null.for.missing.columns": "true"}
    )
    lake.write([row("b", 2, w="kept")], fields={"w": T.StringType()})
    writer.commit([laid])
    assert lake.columns()[-1] == "w"
    assert {key: found["w"] for key, found in lake.rows().items()} == {"a": None, "b": "kept"}
    assert lake.values() == {"a": 9, "b": 2}


@guards(lambda patch: patch.setattr(datasource_writer, "retry_on_conflict", lambda *a: a[2]()))
def test_the_data_source_retries(tmp_path: Path) -> None:
    """Rows that tasks laid aside are brought in again when others came first."""
    lake = Lake(tmp_path, COW)
    lake.write([row("a", 1)])
    writer, laid = from_data_source(
        lake, row("a", 9), {"hoodie.write.num.retries.on.conflict.failures": "1"}
    )
    others = [row("a", 2)]

    def interrupted(
        lock: TableLock | None, look: Callable[[], tuple[WriteSession, Choice]], *given: Any
    ) -> Commit:
        with pytest.MonkeyPatch.context() as patch:

            def looked() -> tuple[WriteSession, Choice]:
                session, choice = look()
                commit = session.commit

                def late(*args: Any, **named: Any) -> Commit:
                    if others:
                        lake.write([others.pop()])
                    return commit(*args, **named)

                patch.setattr(session, "commit", late)
                return session, choice

            return bring_in_at_once(lock, looked, *given)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(datasource_writer, "bring_in_at_once", interrupted)
        patch.setattr(retry, "_FIRST_DELAY_MS", 10)
        writer.commit([laid])
    assert others == []
    assert lake.values() == {"a": 9}
    assert lake.state().timeline.pending == ()
    assert not (lake.root / writer._area.folder).exists()


@guards(empty_buckets_are_forgotten)
@pytest.mark.parametrize("version", [6, 8, 9])
@pytest.mark.parametrize("kind", [COW, MOR])
def test_a_delete_gives_way_to_who_fills_its_bucket(
    tmp_path: Path, version: int, kind: TableType
) -> None:
    """Nothing was there when the delete looked; what is there now was written before it."""
    lake = Lake(tmp_path, kind, version, BUCKETS)
    lake.write([row("a", 1, p="elsewhere")])
    ours = lake.writing([row("b", 9)], operation=WriteOperation.DELETE).begun()
    theirs = lake.write([row("b", 2)])
    with pytest.raises(WriteConflictError) as refused:
        ours.commit()
    assert refused.value.theirs == theirs.requested_time
    lake.write([row("b", 9)], operation=WriteOperation.DELETE)
    assert lake.values() == {"a": 1}
