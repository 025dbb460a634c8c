"""Part B: optimistic concurrency control."""

from __future__ import annotations

import os
import random  # noqa: TID251 - seeded below
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.scenarios.clustering import Clustering
from tests.scenarios.lake import BUCKETS, COW, MOR, UPSERT, Lake, row
from tests.scenarios.rules import guards
from tests.sim.planted import (
    conflicts_not_judged,
    missing_pending_candidates,
    rollback_not_looked_for,
)
from tests.unit.services.busy_table import Busy
from tests.unit.txn.toy_table import Toy, new_storage
from tests.unit.txn.toy_writer import Writer
from tidelake.config import WriteOperation
from tidelake.env import Env
from tidelake.errors import (
    InstantLostError,
    PlanRemovedError,
    WriteConflictError,
)
from tidelake.formats import plans
from tidelake.formats.plans import CompactionOperation, CompactionPlan
from tidelake.model import Action, Commit, Instant, State, TableType
from tidelake.model.table_format import TableFormat
from tidelake.operations import write_session
from tidelake.services import compaction
from tidelake.storage import LocalStorage
from tidelake.testing import FaultyStorage, ManualClock
from tidelake.timeline import Timeline, TimelineContents, reload_timeline
from tidelake.txn import concurrency
from tidelake.txn.conflicts import candidates
from tidelake.txn.conflicts import early_detection as early
from tidelake.txn.conflicts import judge as conflict
from tidelake.txn.conflicts.candidates import Basis, Start
from tidelake.txn.conflicts.judge import Rule, Slot
from tidelake.txn.protocol import retry
from tidelake.txn.protocol import transaction as protocol
from tidelake.txn.protocol.plans import find_plan, schedule, take_over
from tidelake.txn.rollback.rollback import Rollback

ALLOW = {"hoodie.clustering.updates.strategy": "allow"}
STRATEGIES = [{}, {"hoodie.write.lock.conflict.resolution.strategy": "end"}]


def everybody_counts(patch: pytest.MonkeyPatch) -> None:
    """Every commit on the timeline is compared with, seen or not."""

    def all_of_them(timeline: Timeline, start: Start, *_: Any) -> list[Instant]:
        return [i for i in timeline.writes() if i.requested_time != start.requested_time]

    patch.setattr(concurrency, "completed_candidates", all_of_them)


def nobody_was_pending(patch: pytest.MonkeyPatch) -> None:
    """What was pending at the start is forgotten, and what completed since as well."""
    missing_pending_candidates(patch)
    real = candidates.completed_candidates

    def started_later(
        timeline: Timeline, start: Start, _basis: Basis, archived: Any = ()
    ) -> list[Instant]:
        return real(timeline, start, Basis.START, archived)

    patch.setattr(concurrency, "completed_candidates", started_later)


@guards(everybody_counts)
@pytest.mark.parametrize("options", STRATEGIES, ids=["start", "end"])
def test_B_01_finished_before_we_started(tmp_path: Path, options: dict[str, str]) -> None:
    """A commit that was done before ours started is built upon, and no conflict."""
    lake = Lake(tmp_path, COW, 9, options)
    lake.write([row("a", 1)])
    lake.write([row("a", 2)])
    assert lake.values() == {"a": 2}


@guards(nobody_was_pending)
@pytest.mark.parametrize("options", STRATEGIES, ids=["start", "end"])
@pytest.mark.parametrize("kind", [COW, MOR])
def test_B_02_pending_at_our_start_and_completed_meanwhile(
    tmp_path: Path, options: dict[str, str], kind: TableType
) -> None:
    """Requested before us and completed before our commit: we give way, or its update is lost."""
    lake = Lake(tmp_path, kind, 9, options)
    lake.write([row("a", 1), row("b", 1)])
    other = lake.writing([row("a", 2)]).begun()
    ours = lake.writing([row("b", 3)]).begun()
    other.commit()
    with pytest.raises(WriteConflictError) as refused:
        ours.commit()
    assert refused.value.theirs == other.txn.instant_time
    assert lake.values() == {"a": 2, "b": 1}


def pending_writes_count(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(candidates, "_matters", lambda *_, **__: True)


@guards(pending_writes_count)
def test_B_04_still_pending(tmp_path: Path) -> None:
    """A write that is still pending is no reason to give way: it will find us, and does."""
    lake = Lake(tmp_path, COW)
    lake.write([row("a", 1)])
    other = lake.writing([row("a", 2)]).begun()
    lake.write([row("a", 3)])
    with pytest.raises(WriteConflictError):
        other.commit()
    assert lake.values() == {"a": 3}


def history(chance: random.Random) -> list[tuple[int, str, int]]:
    """Return begins and ends of two to four writers in a random order."""
    events = [(who, what) for who in range(chance.randint(2, 4)) for what in ("begin", "end") * 2]
    chance.shuffle(events)
    running: dict[int, int] = {}
    told = []
    for time, (who, _) in enumerate(events, start=10):
        if who in running:
            told.append((time, "end", running.pop(who)))
        else:
            running[who] = time
            told.append((time, "begin", time))
    return told


@guards(missing_pending_candidates)
def test_B_05_start_and_end_agree() -> None:
    """In random histories both strategies find exactly the results that a write has not seen."""
    chance = random.Random(5)
    for _ in range(300):
        done: dict[int, int] = {}
        begun: dict[int, Start] = {}
        requested: list[int] = []
        for time, what, which in history(chance):
            others = tuple(_instant(r, done.get(r)) for r in requested)
            timeline = Timeline(instants=others)
            if what == "begin":
                begun[which] = Start.of(timeline, str(which))
                requested.append(which)
                continue
            unseen = [str(r) for r in requested if done.get(r, 0) > which]
            for basis in Basis:
                found = candidates.completed_candidates(timeline, begun[which], basis)
                assert [i.requested_time for i in found] == unseen
            done[which] = time


def _instant(requested: int, completed: int | None) -> Instant:
    return Instant(
        requested_time=str(requested),
        action=Action.COMMIT,
        state=State.INFLIGHT if completed is None else State.COMPLETED,
        completion_time=None if completed is None else str(completed),
    )


@guards(lambda patch: patch.setattr(conflict, "TableFormat", lambda _: TableFormat(6)))
@pytest.mark.parametrize("version", [8, 9])
def test_B_07_a_log_and_a_compaction_behind_its_back(tmp_path: Path, version: int) -> None:
    """From version 8 on a log lands in the slice after a compaction that ran meanwhile."""
    lake = Lake(tmp_path, MOR, version, BUCKETS)
    lake.write([row("a", 1)])
    lake.write([row("a", 2)])
    writing = lake.writing([row("a", 3)]).begun()
    assert lake.compactor().both() is not None
    assert lake.values() == {"a": 2}, "nothing uncommitted is seen"
    writing.commit()
    assert lake.values() == {"a": 3}
    lake.compactor().both()
    assert lake.values() == {"a": 3}


def two_bases(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(conflict, "_judge_against_compaction", lambda *_: Rule.OWN_LOGS)


@guards(two_bases)
@pytest.mark.parametrize("completes", [False, True], ids=["pending", "completed"])
def test_B_08_a_base_file_against_a_compaction(completes: bool) -> None:
    """A base file and a compaction of one file group come from different inputs: we give way."""
    storage = new_storage(9, TableType.MERGE_ON_READ)
    Toy(storage).write({"a": "0"})
    Toy(storage).write({"a": "1"})
    clock = ManualClock(ManualClock().now_ms() + 60_000)
    ours = Writer(storage, clock, 1)
    txn = ours.begin()
    txn.start()
    stats = [ours.toy.task(txn, "a", "ours", None, "0-1-0")]
    busy = Busy(storage)
    planned = busy.plan_compaction()
    if completes:
        busy.run_compaction(planned)
    with pytest.raises(WriteConflictError, match="different inputs"):
        ours.commit(txn, stats)


def clusterings_do_not_look(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(protocol.Transaction, "_is_compared", property(lambda txn: txn.owner is None))


@guards(clusterings_do_not_look)
@pytest.mark.parametrize("completes", [True, False], ids=["completed", "pending"])
def test_B_10_a_clustering_gives_way_to_a_write(tmp_path: Path, completes: bool) -> None:
    """Under allow the write commits, and the clustering and its plan go; no update is lost."""
    lake = Lake(tmp_path, COW, 9, ALLOW)
    lake.write([row("a", 1)])
    clustering = Clustering(lake, "p=x")
    clustering.start()
    writing = lake.writing([row("a", 2)]).begun()
    if completes:
        writing.commit()
    with pytest.raises(WriteConflictError):
        clustering.commit(lake.state().schema().avro)
    if not completes:
        writing.commit()
    assert lake.values() == {"a": 2}
    assert [i for i in lake.state().timeline.pending if i.action is Action.CLUSTERING] == []
    with pytest.raises(PlanRemovedError):
        find_plan(lake.state().timeline, clustering.requested_time, Action.CLUSTERING)


@guards(conflicts_not_judged)
def test_B_11_a_clustering_that_completes_first(tmp_path: Path) -> None:
    """Under allow a write whose file group was clustered away meanwhile gives way."""
    lake = Lake(tmp_path, COW)
    lake.write([row("a", 1)])
    writing = lake.writing([row("a", 2)], ALLOW).begun()
    clustering = Clustering(lake, "p=x")
    clustering.start()
    clustering.commit(lake.state().schema().avro)
    with pytest.raises(WriteConflictError, match="clustering has replaced"):
        writing.commit()
    assert lake.values() == {"a": 1}


def clusterings_are_ignored(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(concurrency.Reviewer, "refuse_clustered", lambda *_: None)
    patch.setattr(candidates, "_matters", lambda *_, **__: False)


@guards(clusterings_are_ignored)
@pytest.mark.parametrize("begins_first", [False, True], ids=["planned first", "begun first"])
def test_B_13_an_overwrite_against_a_pending_clustering(tmp_path: Path, begins_first: bool) -> None:
    """An overwrite touches its whole partition, and is refused while that is clustered."""
    lake = Lake(tmp_path, COW)
    lake.write([row("a", 1)])

    def overwrite() -> Any:
        return lake.writing([row("b", 2)], operation=WriteOperation.INSERT_OVERWRITE).begun()

    if begins_first:
        writing = overwrite()
        Clustering(lake, "p=x")
        with pytest.raises(WriteConflictError, match="pending clustering"):
            writing.commit()
    else:
        Clustering(lake, "p=x")
        with pytest.raises(WriteConflictError, match="pending clustering"):
            overwrite()
    assert lake.values() == {"a": 1}


@guards(conflicts_not_judged)
def test_B_14_delete_partition_against_a_clustering(tmp_path: Path) -> None:
    """Of a delete of a partition and its clustering one gives way; deleted rows stay away."""
    lake = Lake(tmp_path, COW)
    lake.write([row("a", 1), row("b", 1, p="y")])
    session = lake.writing([]).session
    txn = session.begin(WriteOperation.DELETE_PARTITION, None)
    replaced = session.retire(txn, ["p=x"])
    txn.start()
    clustering = Clustering(lake, "p=x")
    clustering.start()
    clustering.commit(lake.state().schema().avro)
    with pytest.raises(WriteConflictError), txn:
        session.commit(txn, [], lake.state().schema().avro, replaced=replaced)
    assert lake.values() == {"a": 1, "b": 1}
    retried = lake.writing([]).session
    again = retried.begin(WriteOperation.DELETE_PARTITION, None)
    gone = retried.retire(again, ["p=x"])
    again.start()
    retried.commit(again, [], lake.state().schema().avro, replaced=gone)
    assert lake.values() == {"b": 1}


def partitions_do_not_count(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(candidates, "Slot", lambda _partition, name: Slot("", name))


@guards(partitions_do_not_count)
def test_B_16_the_same_bucket_of_another_partition(tmp_path: Path) -> None:
    """The same file id, or bucket, in two partitions is two places, and no conflict."""
    lake = Lake(tmp_path, MOR, 9, {**BUCKETS, "hoodie.bucket.index.num.buckets": "1"})
    first = lake.writing([row("a", 1, p="x")]).begun()
    second = lake.writing([row("b", 2, p="y")]).begun()
    second.commit()
    first.commit()
    assert lake.values() == {"a": 1, "b": 2}


def buckets_by_file_id(patch: pytest.MonkeyPatch) -> None:
    """Compare file ids, of which each writer makes up its own."""
    patch.setattr(write_session, "slot_name", str)
    patch.setattr("tidelake.write.index.has_fixed_ids", lambda _: False)


@guards(buckets_by_file_id)
@pytest.mark.parametrize("kind", [COW, MOR])
def test_B_17_two_first_writers_of_a_bucket(tmp_path: Path, kind: TableType) -> None:
    """Of two first writers of a bucket one gives way, whatever ids they give it."""
    lake = Lake(tmp_path, kind, 9, {**BUCKETS, "hoodie.bucket.index.num.buckets": "1"})
    first = lake.writing([row("a", 1)]).begun()
    second = lake.writing([row("b", 2)]).begun()
    second.commit()
    with pytest.raises(WriteConflictError, match="both changed the same file group"):
        first.commit()
    lake.write([row("a", 3)])
    assert len(lake.state().view.latest_slices()) == 1
    assert lake.values() == {"a": 3, "b": 2}


@guards(lambda patch: patch.setattr("tidelake.read.check._note_duplicates", lambda *_: None))
def test_B_19_a_key_that_two_writers_inserted(tmp_path: Path) -> None:
    """Two inserts of one key at once make two rows, and `tidelake check` names the key."""
    lake = Lake(tmp_path, COW)
    first = lake.writing([row("k", 1)]).begun()
    lake.write([row("k", 2)])
    first.commit()
    lake.write([row("k", 3)])
    assert ["such as k:" in note for note in lake.check().notes] == [True]


@guards(lambda patch: patch.setattr(retry, "retry_on_conflict", lambda _env, _n, write: write()))
def test_B_20_a_retry_succeeds(tmp_path: Path) -> None:
    """A write that gave way is made anew, with a new instant; its offsets are there once."""
    lake = Lake(tmp_path, COW)
    lake.write([row("a", 1)])
    attempts: list[str] = []
    offsets = {
        "hoodie.datasource.write.commitmeta.key.prefix": "job.",
        "job.offset": "17",
    }

    def attempt() -> Commit:
        writing = lake.writing([row("a", 3)], offsets).begun()
        attempts.append(writing.txn.instant_time)
        if len(attempts) == 1:
            lake.write([row("a", 2)])
        return writing.commit()

    done = retry.retry_on_conflict(Env(lake.storage, ManualClock()), 3, attempt)
    assert len(set(attempts)) == done.attempts == 2
    assert lake.values() == {"a": 3}
    state = lake.state()
    kept = [state.contents.commit_metadata(i).extra_metadata for i in state.timeline.writes()]
    assert [extra.get("job.offset") for extra in kept].count("17") == 1
    assert state.timeline.pending == ()


EARLY = {"hoodie.write.concurrency.early.conflict.detection.enable": "true"}


def nobody_is_dead(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(early, "is_alive", lambda *_, **__: True)


@guards(nobody_is_dead)
def test_B_22_early_detection_and_a_dead_owner(tmp_path: Path) -> None:
    """A marker of a running write stops ours at once; one of a dead write does not."""
    lake = Lake(tmp_path, COW, 9, EARLY)
    lake.write([row("a", 1)])
    other = lake.writing([row("a", 2)]).begun()
    before = set(lake.root.glob("p=x/*.parquet"))
    with pytest.raises(WriteConflictError, match="still running"):
        lake.writing([row("a", 3)]).begun()
    assert set(lake.root.glob("p=x/*.parquet")) == before, "nothing was written"
    os.utime(lake.root / ".hoodie/.heartbeat" / other.txn.instant_time, (1, 1))
    lake.write([row("a", 4)])
    assert lake.values() == {"a": 4}


@guards(conflicts_not_judged)
def test_B_23_early_detection_and_a_finished_owner(tmp_path: Path) -> None:
    """Markers are gone once their write has committed: it is found before our commit."""
    lake = Lake(tmp_path, COW, 9, EARLY)
    lake.write([row("a", 1)])
    ours = lake.writing([row("a", 3)])
    ours.txn = ours.session.begin(UPSERT, None, looked_up=False)
    lake.write([row("a", 2)])
    ours._write()
    with pytest.raises(WriteConflictError, match="both changed the same file group"):
        ours.commit()
    assert lake.values() == {"a": 2}


def commits_are_not_looked_at(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(concurrency.Reviewer, "refuse_completed", lambda *_: None)


@guards(commits_are_not_looked_at)
def test_B_23_a_finished_owner_is_found_early(tmp_path: Path) -> None:
    """With the check of commits on, no file is written behind a write that has completed."""
    commits = {"hoodie.write.concurrency.early.conflict.check.commit.conflict": "true"}
    lake = Lake(tmp_path, COW, 9, {**EARLY, **commits})
    lake.write([row("a", 1), row("b", 1, p="y")])
    ours = lake.writing([row("a", 3)])
    ours.txn = ours.session.begin(UPSERT, None, looked_up=False)
    lake.write([row("b", 2, p="y")])
    lake.write([row("a", 2)])
    before = set(lake.root.glob("p=x/*.parquet"))
    with ours.txn, pytest.raises(WriteConflictError, match="both changed the same file group"):
        ours._write()
    assert set(lake.root.glob("p=x/*.parquet")) == before, "nothing was written"
    lake.write([row("a", 3)])
    assert lake.values() == {"a": 3, "b": 2}


def partitions_do_not_count_early(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(early, "Slot", lambda _partition, name: Slot("", name))
    patch.setattr(protocol, "Slot", lambda _partition, name: Slot("", name), raising=False)
    patch.setattr(candidates, "Slot", lambda _partition, name: Slot("", name))


@guards(partitions_do_not_count_early)
def test_B_16_early_detection_tells_partitions_apart(tmp_path: Path) -> None:
    """The same bucket in another partition is no reason to give way early, either."""
    lake = Lake(tmp_path, MOR, 9, {**BUCKETS, "hoodie.bucket.index.num.buckets": "1", **EARLY})
    lake.write([row("a", 1, p="x"), row("b", 1, p="y")])
    lake.writing([row("a", 2, p="x")]).begun()
    lake.writing([row("b", 3, p="y")]).begun().commit()
    assert lake.values() == {"a": 1, "b": 3}


@guards(rollback_not_looked_for)
def test_B_25_a_rollback_of_ours_was_published(tmp_path: Path) -> None:
    """A rollback of a stalled write was published: it gives up, whatever its heartbeat says."""
    lake = Lake(tmp_path, COW)
    lake.write([row("a", 1)])
    writing = lake.writing([row("a", 2)]).begun()
    beat = lake.root / ".hoodie/.heartbeat" / writing.txn.instant_time
    os.utime(beat, (1, 1))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Rollback, "carry_out", _die)
        with pytest.raises(KeyboardInterrupt):
            lake.table_services().roll_back_failed()
    beat.touch()
    with pytest.raises(InstantLostError, match="has begun to take it back"):
        writing.commit()
    assert lake.values() == {"a": 1}
    lake.table_services().roll_back_failed()
    assert lake.values() == {"a": 1}
    assert lake.state().timeline.pending == ()


def _die(*_: object, **__: object) -> None:
    raise KeyboardInterrupt


def looks_again(patch: pytest.MonkeyPatch) -> None:
    real = reload_timeline

    def twice(*args: Any) -> Timeline:
        real(*args)
        return real(*args)

    patch.setattr(protocol, "reload_timeline", twice)


@guards(looks_again)
def test_B_26_two_reloads(tmp_path: Path) -> None:
    """A plain upsert looks at the timeline twice: when it begins, and before it commits."""
    lake = Lake(tmp_path, COW)
    lake.write([row("a", 1)])
    counted = FaultyStorage(lake.storage)
    lake.storage = counted
    writing = lake.writing([row("a", 2)])
    before = len(counted.calls)
    writing.begun().commit()
    listed = [path for name, path in counted.calls[before:] if name == "list"]
    assert listed.count(".hoodie/timeline") == 2


def plan_of(lake: Lake, action: Action) -> str:
    """Put a plan for the table's only file group on the timeline."""
    session = lake.writing([]).session
    (found,) = session.state.view.latest_slices()
    operation = CompactionOperation(
        base_instant_time=found.base_instant_time,
        delta_file_paths=tuple(log.name for log in found.log_files),
        file_id=found.group.file_id,
        partition_path=found.group.partition,
    )
    plan = plans.encode(CompactionPlan(operations=(operation,), version=2))
    time = schedule(
        lake.env(),
        session.config,
        session.state.timeline,
        action=action,
        make_plan=lambda *_: plan,
        keeper=session.keeper,
        concurrency=session.concurrency,
        roll_back=False,
    )
    assert time is not None
    return time


def carry_out(lake: Lake, time: str, action: Action) -> Callable[[], Commit]:
    """Take a plan over that changes nothing; return what commits it."""
    session = lake.writing([]).session
    txn = take_over(
        lake.env(),
        session.config,
        session.state.timeline,
        requested_time=time,
        action=action,
        operation="LOG_COMPACT",
        keeper=session.keeper,
        concurrency=session.concurrency,
        roll_back=False,
    )
    txn.start()
    (found,) = session.state.view.latest_slices()
    newest = session.state.timeline.writes()[-1]
    stats = [
        replace(stat, path=(stat.path or "").replace(newest.requested_time, time))
        for stat in session.state.contents.commit_metadata(newest).write_stats
        if stat.file_id == found.group.file_id
    ]

    def commit() -> Commit:
        with txn:
            return txn.commit(stats, schema="")

    return commit


@guards(lambda patch: patch.setattr(compaction, "log_compacted_groups", lambda *_: frozenset()))
def test_B_28_one_plan_for_a_file_group(tmp_path: Path) -> None:
    """A file group that a log compaction has spoken for is not planned again."""
    lake = Lake(tmp_path, MOR, 9, {**BUCKETS, "hoodie.bucket.index.num.buckets": "1"})
    for ts in (1, 2, 3):
        lake.write([row("a", ts)])
    plan_of(lake, Action.LOGCOMPACTION)
    assert lake.compactor().schedule() is None


@guards(conflicts_not_judged)
def test_B_28_two_log_compactions_at_once(tmp_path: Path) -> None:
    """Two log compactions of one file group, planned by others: the later one gives way."""
    lake = Lake(tmp_path, MOR, 9, {**BUCKETS, "hoodie.bucket.index.num.buckets": "1"})
    for ts in (1, 2, 3):
        lake.write([row("a", ts)])
    first, second = (plan_of(lake, Action.LOGCOMPACTION) for _ in range(2))
    late = carry_out(lake, first, Action.LOGCOMPACTION)
    carry_out(lake, second, Action.LOGCOMPACTION)()
    with pytest.raises(WriteConflictError):
        late()


@guards(lambda patch: patch.setattr(candidates, "MissingFileError", KeyboardInterrupt))
def test_B_29_a_plan_that_vanishes(tmp_path: Path) -> None:
    """A clustering that is rolled back while we look at it is no conflict, and no error."""
    lake = Lake(tmp_path, COW)
    lake.write([row("a", 1), row("b", 1, p="y")])
    writing = lake.writing([row("b", 2, p="y")])
    writing.begun()
    clustering = Clustering(lake, "p=x")
    gone = [lake.root / f".hoodie/timeline/{clustering.requested_time}.clustering.requested"]
    timeline = writing.session.state.storage
    assert isinstance(timeline, LocalStorage)

    def vanish(_number: int, name: str, path: str) -> None:
        if name == "read" and path.endswith("clustering.requested") and gone:
            gone.pop().unlink()

    faulty = FaultyStorage(lake.storage, vanish)
    writing.txn._storage = faulty
    writing.txn._contents = TimelineContents(faulty, writing.txn.config)
    writing.commit()
    assert gone == []
    assert lake.values() == {"a": 1, "b": 2}


@guards(partitions_do_not_count)
def test_B_31_disjoint_partitions(tmp_path: Path) -> None:
    """A backfill of old partitions beside a stream into the newest: both commit, always."""
    lake = Lake(tmp_path, MOR, 9, BUCKETS)
    for day in range(3):
        backfill = lake.writing([row(f"{day}-{n}", 1, p=f"d{day}") for n in range(8)]).begun()
        stream = lake.writing([row(f"new{n}", day, p="today") for n in range(8)]).begun()
        stream.commit()
        backfill.commit()
    assert lake.values()["new0"] == 2
    assert len(lake.rows()) == 32
