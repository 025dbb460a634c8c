"""Part C: non-blocking concurrency control."""

from __future__ import annotations

import time
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import types as T  # noqa: N812 - the customary name

from tests.scenarios.lake import BUCKETS, COW, MOR, NBCC, OCC, Lake, row
from tests.scenarios.rules import guards
from tests.scenarios.test_optimistic import carry_out, plan_of
from tests.scenarios.test_time import files_of_attempt
from tests.sim.planted import requested_order_merge, running_compaction_cuts
from tidelake.config import WriteOperation
from tidelake.errors import (
    ConfigError,
    IncrementalRangeError,
    MissingFileError,
    TimeTravelError,
    UnsupportedTableError,
    WriteConflictError,
)
from tidelake.files import log_records
from tidelake.formats.log_block import valid_blocks
from tidelake.model import Action, Commit, FileSlice, TableType
from tidelake.operations import compaction_run as engine_compaction
from tidelake.operations import write_session
from tidelake.operations.compaction_run import Compactor
from tidelake.operations.write_session import WriteSession
from tidelake.read import incremental, snapshot
from tidelake.services import clean_plan
from tidelake.testing import ManualClock
from tidelake.timeline import Timeline
from tidelake.timeline.history import LsmHistory
from tidelake.txn.conflicts import judge as conflict
from tidelake.txn.conflicts.judge import Rule
from tidelake.txn.protocol import transaction as protocol
from tidelake.txn.protocol.plans import schedule
from tidelake.view.table_view import CommitTimes
from tidelake.write import sharing

ONE_BUCKET = {**BUCKETS, "hoodie.bucket.index.num.buckets": "1"}
SHARED = {**NBCC, **ONE_BUCKET}
PARTIAL = {"hoodie.write.partial.update.schema": "*"}


def all_are_compared(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(protocol.Transaction, "_is_compared", property(lambda _: True))


@guards(all_are_compared)
@pytest.mark.parametrize("version", [8, 9])
@pytest.mark.parametrize("greater_first", [True, False])
def test_C_01_the_same_key_with_different_ordering_values(
    tmp_path: Path, version: int, greater_first: bool
) -> None:
    """Two writers of one key at once: both commit, and the greater ordering value wins."""
    lake = Lake(tmp_path, MOR, version, SHARED)
    writers = [lake.writing([row("a", ts)]).begun() for ts in (5, 9)]
    for writing in reversed(writers) if greater_first else writers:
        writing.commit()
    assert lake.values() == {"a": 9}
    lake.compactor().both()
    assert lake.values() == {"a": 9}


@guards(requested_order_merge)
def test_C_02_equal_ordering_values(tmp_path: Path) -> None:
    """A [1,10] and B [2,4] tie: A, which completed later, wins with or without a compaction."""
    for compacts in ("never", "between", "after"):
        lake = Lake(tmp_path / compacts, MOR, 9, SHARED)
        lake.write([row("a", 1, 0)])
        first = lake.writing([row("a", 5, 1)]).begun()
        second = lake.writing([row("a", 5, 2)]).begun()
        second.commit()
        assert lake.values() == {"a": 2}
        if compacts == "between":
            lake.compactor().both()
        first.commit()
        assert lake.values() == {"a": 1}, compacts
        if compacts == "after":
            lake.compactor().both()
            assert lake.values() == {"a": 1}


@guards(requested_order_merge)
@pytest.mark.parametrize("version", [8, 9])
def test_C_03_commit_time_ordering(tmp_path: Path, version: int) -> None:
    """By commit time A [1,10] wins over B [2,4], whatever their values, compacted or not."""
    by_commit = {**SHARED, "hoodie.record.merge.mode": "COMMIT_TIME_ORDERING"}
    for compacts in ("never", "planned between", "between", "after"):
        lake = Lake(tmp_path / compacts, MOR, version, by_commit)
        lake.write([row("a", 5, 0)])
        first = lake.writing([row("a", 1, 1)]).begun()
        second = lake.writing([row("a", 9, 2)]).begun().commit()
        planned = lake.compactor().schedule() if "between" in compacts else None
        if planned is not None and compacts == "between":
            lake.compactor().run(planned)
        done = first.commit()
        assert lake.values() == {"a": 1}
        if planned is not None and compacts == "planned between":
            lake.compactor().run(planned)
        if compacts == "after":
            lake.compactor().both()
        assert lake.values() == lake.values(done.requested_time) == {"a": 1}
        assert lake.values(second.completion_time) == {"a": 2}


def demo(lake: Lake) -> tuple[Any, str]:
    """Play RFC-66's demo up to the compaction; return the third write and the plan's time."""
    lake.write([row("a", 1)])
    lake.compactor().both()
    lake.write([row("a", 2)])
    second = lake.writing([row("b", 3)]).begun()
    third = lake.writing([row("c", 4)]).begun()
    second.commit()
    planned = lake.compactor().schedule()
    assert planned is not None
    return third, planned


def slices(lake: Lake) -> list[FileSlice]:
    view = lake.state().view
    (group,) = view.groups()
    return view.slices(group)


def sliced_by_request(patch: pytest.MonkeyPatch) -> None:
    real = CommitTimes.__call__

    def requested(times: CommitTimes, requested_time: str) -> str | None:
        return requested_time if real(times, requested_time) is not None else None

    patch.setattr(CommitTimes, "__call__", requested)


@guards(sliced_by_request)
def test_C_04_the_demo_of_the_rfc(tmp_path: Path) -> None:
    """A log that completes after a compaction was requested lies on top of it."""
    lake = Lake(tmp_path, MOR, 9, SHARED)
    third, planned = demo(lake)
    lake.compactor().run(planned)
    third.commit()
    found = [(s.base_instant_time, len(s.log_files)) for s in slices(lake)]
    assert found[-1] == (planned, 1)
    assert found[-2][1] == 2
    assert lake.values() == {"a": 2, "b": 3, "c": 4}


@guards(running_compaction_cuts)
def test_C_05_a_query_while_the_compaction_runs(tmp_path: Path) -> None:
    """The base file of a running compaction is there: it neither cuts nor is read."""
    lake = Lake(tmp_path, MOR, 9, SHARED)
    third, planned = demo(lake)
    assert files_of_attempt(lake, planned)
    third.commit()
    assert lake.values() == {"a": 2, "b": 3, "c": 4}
    newest = slices(lake)[-1]
    assert newest.base_instant_time < planned
    assert len(newest.log_files) == 3


@guards(sliced_by_request)
def test_C_06_a_log_that_completes_while_the_compaction_runs(tmp_path: Path) -> None:
    """Requested before the plan and completed during the run: behind it, and there at any time."""
    lake = Lake(tmp_path, MOR, 9, SHARED)
    third, planned = demo(lake)
    before = lake.values()
    assert files_of_attempt(lake, planned)
    late = third.commit()
    whole = {**before, "c": 4}
    assert lake.values() == lake.values(late.completion_time) == whole
    done = lake.compactor().run(planned)
    newest = slices(lake)[-1]
    assert (newest.base_instant_time, len(newest.log_files)) == (planned, 1)
    for time_ in (None, late.completion_time, late.requested_time, done.completion_time):
        assert lake.values(time_) == whole
    assert lake.values(str(int(late.completion_time) - 1)) == before
    assert set(lake.incremental(late.completion_time, done.completion_time)) == set()


def plans_before_its_time(patch: pytest.MonkeyPatch) -> None:
    real = schedule

    def hasty(env: Any, config: Any, timeline: Timeline, **given: Any) -> str | None:
        make_plan = given.pop("make_plan")
        return real(env, config, timeline, make_plan=lambda _, at: make_plan(timeline, at), **given)

    patch.setattr(engine_compaction, "schedule", hasty)


@guards(plans_before_its_time)
def test_C_07_a_commit_slips_in_during_planning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A commit between the planner's first look and its time is in the plan, and not lost."""
    lake = Lake(tmp_path, MOR, 9, SHARED)
    lake.write([row("a", 1)])
    lake.write([row("a", 2)])
    real = Compactor._session

    def slips_in(compactor: Compactor) -> WriteSession:
        session = real(compactor)
        monkeypatch.undo()
        lake.write([row("a", 3)])
        return session

    monkeypatch.setattr(Compactor, "_session", slips_in)
    planned = lake.compactor().schedule()
    assert planned is not None
    lake.compactor().run(planned)
    assert lake.values() == {"a": 3}


@guards(lambda patch: patch.setattr(CommitTimes, "is_unknown", lambda *_: False))
def test_C_08_a_completion_time_that_nobody_knows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A log whose archived instant is not in the history stops the planner: no data is dropped."""
    lake = Lake(tmp_path, MOR, 9, SHARED)
    archived = archive_first(lake)
    real = LsmHistory.completion_times

    def misses(history: LsmHistory) -> Mapping[str, str]:
        return {t: done for t, done in real(history).items() if t != archived}

    monkeypatch.setattr(LsmHistory, "completion_times", misses)
    with pytest.raises(UnsupportedTableError, match="nobody can tell when it completed"):
        lake.compactor().schedule()


def archive_first(lake: Lake) -> str:
    """Write until the first write is archived; return its time."""
    small = {
        "hoodie.clean.automatic": "false",
        "hoodie.clean.commits.retained": "1",
        "hoodie.keep.min.commits": "2",
        "hoodie.keep.max.commits": "3",
        "hoodie.compact.inline.max.delta.commits": "1",
    }
    first = lake.write([row("first", 1)], small).requested_time
    for ts in range(2, 8):
        lake.write([row("a", ts)], small)
        lake.table_services(small).archive()
    assert first in lake.state().history.completion_times()
    return first


def nothing_is_missed(patch: pytest.MonkeyPatch) -> None:
    for module in (incremental, snapshot):
        patch.setattr(module, "refuse_missing_files", lambda *_, **__: None)


@guards(nothing_is_missed)
@pytest.mark.parametrize("is_late", [True, False])
def test_C_09_a_committed_log_that_is_gone(tmp_path: Path, is_late: bool) -> None:
    """Fewer rows are no answer: now, in the past and in windows; a late log is no exception."""
    lake = Lake(tmp_path, MOR, 9, SHARED)
    third, planned = demo(lake)
    base = lake.state().timeline.by_completion_time()[-1].completion_time or ""
    if is_late:
        lost = third.commit()
        lake.compactor().run(planned)
    else:
        lake.compactor().run(planned)
        lost = third.commit()
    last = lake.write([row("d", 5)])
    (path,) = lake.root.glob(f"p=x/.*{lost.requested_time}*")
    path.unlink()
    for ask in (
        lake.values,
        lambda: lake.values(lost.completion_time),
        lambda: lake.values(last.completion_time),
        lambda: lake.incremental(base),
        lambda: lake.incremental(base, last.completion_time),
    ):
        with pytest.raises(MissingFileError, match="if a clean ran while"):
            ask()


def pending_counts(patch: pytest.MonkeyPatch) -> None:
    real = CommitTimes.__call__

    def seen(times: CommitTimes, requested_time: str) -> str | None:
        return real(times, requested_time) or requested_time

    patch.setattr(CommitTimes, "__call__", seen)


@guards(pending_counts)
def test_C_09_files_of_a_pending_write_come_and_go(tmp_path: Path) -> None:
    """Nobody reads them, so nobody misses them."""
    lake = Lake(tmp_path, MOR, 9, SHARED)
    third, planned = demo(lake)
    assert files_of_attempt(lake, planned)
    seen = lake.values()
    (path,) = lake.root.glob(f"p=x/.*{third.txn.instant_time}*")
    path.unlink()
    assert lake.values() == seen == {"a": 2, "b": 3}


def stops_at_the_first(patch: pytest.MonkeyPatch) -> None:
    def early(blocks: Any, *, is_visible: Any, **given: Any) -> Any:
        seen = []
        for block in blocks:
            if not is_visible(block.instant_time):
                break
            seen.append(block)
        return valid_blocks(seen, is_visible=is_visible, **given)

    patch.setattr(log_records, "valid_blocks", early)


@guards(stops_at_the_first)
def test_C_10_a_scan_goes_on_behind_a_pending_block(tmp_path: Path) -> None:
    """Version 6: a pending log sorts before a committed one, whose rows are read all the same."""
    lake = Lake(tmp_path, MOR, 6, OCC)
    lake.write([row("a", 1)])
    lake.writing([row("a", 2)]).begun()
    lake.write([row("a", 3)])
    assert lake.values() == {"a": 3}


def windows_by_request(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(
        "tidelake.state.table_state.TableState.by_completion_time", property(lambda _: False)
    )
    patch.setattr(incremental, "_settled", lambda _state, writes: (writes, False))


@guards(windows_by_request)
def test_C_11_out_of_order_completion(tmp_path: Path) -> None:
    """w1 [1,9] and w2 [3,5]: a poll at 6 returns w2, and the next one w1; nothing is skipped."""
    lake = Lake(tmp_path, MOR, 9, SHARED)
    base = lake.write([row("start", 0)])
    late = lake.writing([row("w1", 1)]).begun()
    early = lake.writing([row("w2", 2)]).begun().commit()
    assert set(lake.incremental(base.completion_time)) == {"w2"}
    done = late.commit()
    assert set(lake.incremental(early.completion_time)) == {"w1"}
    assert set(lake.incremental(done.completion_time)) == set()


def test_C_12_windows_across_compactions(tmp_path: Path) -> None:
    """Adjacent windows give each change once, and a compaction brings none."""
    lake = Lake(tmp_path, MOR, 9, SHARED)
    ends = [lake.write([row("a", 1), row("b", 1)]).completion_time]
    late = lake.writing([row("b", 3), row("l", 3)]).begun()
    ends.append(lake.write([row("a", 2)]).completion_time)
    planned = lake.compactor().schedule()
    assert planned is not None
    ends.append(late.commit().completion_time)
    ends.append(lake.compactor().run(planned).completion_time)
    ends.append(lake.write([row("a", 0), row("c", 4)]).completion_time)
    done = lake.compactor().both()
    assert done is not None
    ends.append(done.completion_time)
    found = [
        {key: changed["v"] for key, changed in lake.incremental(start, end).items()}
        for start, end in pairwise(["0", *ends])
    ]
    assert found == [{"a": 1, "b": 1}, {"a": 2}, {"b": 3, "l": 3}, {}, {"c": 4}, {}]
    assert lake.incremental(ends[-1]) == {}


def partially(lake: Lake, key: str, ts: int, **columns: Any) -> None:
    """Write some columns of a row."""
    kinds = {name: T.StringType() for name in columns}
    lake.write([{"id": key, "p": "x", "ts": ts, **columns}], PARTIAL, fields=kinds, only=True)


def whole_rows_alone(patch: pytest.MonkeyPatch) -> None:
    """What a row does not bring is null."""
    patch.setattr(write_session, "brought_columns", lambda *_: ("id", "p", "ts", "v", "one", "two"))


@guards(whole_rows_alone)
def test_C_13_incremental_with_partial_updates(tmp_path: Path) -> None:
    """A window that holds a partial block returns whole rows."""
    lake = Lake(tmp_path, MOR, 9, SHARED)
    both = {"one": T.StringType(), "two": T.StringType()}
    base = lake.write([row("a", 1, one="1", two="1")], fields=both)
    partially(lake, "a", 2, two="2")
    (found,) = lake.incremental(base.completion_time).values()
    assert (found["v"], found["one"], found["two"]) == (1, "1", "2")


@guards(whole_rows_alone)
def test_C_21_streams_that_own_columns(tmp_path: Path) -> None:
    """Absent keeps a value, null sets it, a delete ends both; wherever a compaction falls."""
    both = {"one": T.StringType(), "two": T.StringType()}
    by_commit = {**SHARED, "hoodie.record.merge.mode": "COMMIT_TIME_ORDERING"}
    for compacts in ("", "0", "1", "2", "02", "012"):
        lake = Lake(tmp_path / f"at {compacts}", MOR, 9, by_commit)
        lake.write([row("a", 1, one="1", two="1"), row("b", 1, one="1", two="1")], fields=both)
        found = []
        for number in range(3):
            if str(number) in compacts:
                lake.compactor().both()
            if number == 0:
                partially(lake, "a", 2, one=None)
                partially(lake, "b", 2, two="2")
            elif number == 1:
                lake.write([{"id": "b", "p": "x"}], operation=WriteOperation.DELETE)
            else:
                partially(lake, "b", 3, one="3")
            rows = lake.rows().values()
            found.append({r["id"]: (r["v"], r["one"], r["two"]) for r in rows})
        assert found == [
            {"a": (1, None, "1"), "b": (1, "1", "2")},
            {"a": (1, None, "1")},
            {"a": (1, None, "1"), "b": (None, "3", None)},
        ], compacts


@guards(whole_rows_alone)
def test_C_22_a_partial_update_after_a_compaction(tmp_path: Path) -> None:
    """Column one keeps its value when only column two was sent, compacted or not."""
    lake = Lake(tmp_path, MOR, 9, SHARED)
    both = {"one": T.StringType(), "two": T.StringType()}
    lake.write([row("a", 1, one="1", two="1")], fields=both)
    lake.compactor().both()
    partially(lake, "a", 2, two="2")
    for _ in range(2):
        found = lake.rows()["a"]
        assert (found["v"], found["one"], found["two"]) == (1, "1", "2")
        lake.compactor().both()


def day_at_most(patch: pytest.MonkeyPatch) -> None:
    real = LsmHistory.completion_times

    def short(history: LsmHistory) -> Mapping[str, str]:
        return {t: done for t, done in real(history).items() if int(done[:8]) <= int(t[:8]) + 1}

    patch.setattr(LsmHistory, "completion_times", short)


@guards(day_at_most)
def test_C_14_a_transaction_longer_than_a_day(tmp_path: Path) -> None:
    """Requested on day 1, completed on day 3, archived: a window from day 2 on has it."""
    day_ms = 86_400_000
    clock = ManualClock(time.time_ns() // 1_000_000)
    options = {
        **SHARED,
        "hoodie.write.lock.provider": "in process",
        "hoodie.client.heartbeat.interval_in_ms": str(9 * day_ms),
        "hoodie.write.staging.expiry.minutes": "99999",
    }
    lake = Lake(tmp_path, MOR, 9, options, clock=clock)
    lake.write([row("start", 0)])
    long = lake.writing([row("long", 1)]).begun()
    clock.sleep_ms(day_ms)
    second = lake.write([row("day 2", 2)])
    clock.sleep_ms(day_ms)
    done = long.commit()
    archive_first(lake)
    assert done.requested_time in lake.state().history.completion_times()
    assert "long" in lake.incremental(second.completion_time)


def requested_for_completed(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(LsmHistory, "completion_times", lambda _: {})


@guards(requested_for_completed)
def test_C_15_the_time_of_an_archived_commit(tmp_path: Path) -> None:
    """The requested time of an archived commit still means the table as of that commit."""
    lake = Lake(tmp_path, MOR, 9, SHARED)
    first = archive_first(lake)
    assert lake.values(first) == {"first": 1}
    with pytest.raises(TimeTravelError, match="did not exist"):
        lake.values(str(int(first) - 1))


def bounded_by_a_commit(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(clean_plan, "_reached", lambda now, *_: now.timeline.writes()[-1])


@guards(bounded_by_a_commit)
def test_C_15_a_slice_that_was_cleaned(tmp_path: Path) -> None:
    """The past is whole or refused: no newer slice answers, and no rest of an older one."""
    one = {
        "hoodie.clean.automatic": "false",
        "hoodie.clean.policy": "KEEP_LATEST_FILE_VERSIONS",
        "hoodie.clean.fileversions.retained": "1",
    }
    lake = Lake(tmp_path, MOR, 9, {**SHARED, **one})
    lake.write([row("a", 1), row("b", 1)])
    planned = lake.compactor().schedule()
    assert planned is not None
    during = lake.write([row("a", 2)])
    done = lake.compactor().run(planned)
    (cleaned,) = lake.table_services().clean()
    assert cleaned.files_deleted == 1
    with pytest.raises(TimeTravelError, match="were cleaned"):
        lake.values(during.completion_time)
    with pytest.raises(IncrementalRangeError, match="were cleaned"):
        lake.incremental("0", during.completion_time)
    assert lake.values() == lake.values(done.completion_time) == {"a": 2, "b": 1}


@guards(lambda patch: patch.setattr(write_session, "_replaced", lambda _: {}))
def test_C_16_delete_a_partition_and_insert_again(tmp_path: Path) -> None:
    """Buckets of a deleted partition take new rows, three times over."""
    lake = Lake(tmp_path, MOR, 9, SHARED)
    for round_ in range(3):
        lake.write([row("a", round_), row("b", round_, p="y")])
        assert lake.values() == {"a": round_, "b": round_}
        session = lake.writing([], OCC).session
        txn = session.begin(WriteOperation.DELETE_PARTITION, None)
        replaced = session.retire(txn, ["p=x"])
        txn.start()
        session.commit(txn, [], lake.state().schema().avro, replaced=replaced)
        assert lake.values() == {"b": round_}


def test_C_17_a_bulk_insert_beside_a_stream(tmp_path: Path) -> None:
    """A first load beside a stream writes logs, too: no base file stands between the two."""
    lake = Lake(tmp_path, MOR, 9, SHARED)
    stream = lake.writing([row("a", 5), row("s", 1)]).begun()
    load = lake.writing([row("a", 1), row("l", 1)], operation=WriteOperation.BULK_INSERT).begun()
    stream.commit()
    load.commit()
    assert not list(lake.root.glob("p=x/*.parquet"))
    assert lake.values() == {"a": 5, "l": 1, "s": 1}
    lake.compactor().both()
    assert lake.values() == {"a": 5, "l": 1, "s": 1}


def replace_all(lake: Lake, options: Mapping[str, str] | None = None) -> Commit:
    """Delete the partition of all rows."""
    session = lake.writing([], {**OCC, **(options or {})}).session
    with session.begin(WriteOperation.DELETE_PARTITION, None) as txn:
        replaced = session.retire(txn, ["p=x"])
        txn.start()
        return session.commit(txn, [], lake.state().schema().avro, replaced=replaced)


def nobody_is_blind(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(protocol, "never_gives_way", lambda *_, **__: False)


@guards(nobody_is_blind)
def test_C_18_a_replacement_beside_a_writer_that_never_looks(tmp_path: Path) -> None:
    """A partition is not deleted under a running write, whose rows nobody would see."""
    lake = Lake(tmp_path, MOR, 9, SHARED)
    lake.write([row("a", 1)])
    running = lake.writing([row("b", 2)]).begun()
    with pytest.raises(WriteConflictError, match="may still add") as refused:
        replace_all(lake)
    assert refused.value.theirs == running.txn.instant_time
    running.commit()
    assert lake.values() == {"a": 1, "b": 2}
    replace_all(lake)
    assert lake.values() == {}
    lake.write([row("b", 0)])
    assert lake.values() == {"b": 0}


@guards(lambda patch: patch.setattr(sharing, "_EXCLUSIVE", frozenset()))
@pytest.mark.parametrize(
    "operation", [WriteOperation.INSERT_OVERWRITE, WriteOperation.INSERT_OVERWRITE_TABLE]
)
def test_C_18_what_retires_file_groups_is_not_for_all(
    tmp_path: Path, operation: WriteOperation
) -> None:
    """Overwriting is refused to non-blocking writers, with the way out."""
    lake = Lake(tmp_path, MOR, 9, SHARED)
    lake.write([row("a", 1)])
    with pytest.raises(UnsupportedTableError, match="OPTIMISTIC_CONCURRENCY_CONTROL"):
        lake.writing([row("b", 2)], operation=operation).begun()
    assert lake.values() == {"a": 1}


WRONG = [
    (COW, 9, {}, "a merge-on-read table"),
    (MOR, 6, {}, "table version 8 or later"),
    (MOR, 9, {"hoodie.index.type": "SIMPLE"}, "a bucket index"),
    (MOR, 9, {"hoodie.index.type": "BLOOM"}, "a bucket index"),
    (MOR, 9, {"hoodie.index.bucket.engine": "CONSISTENT_HASHING"}, "simple buckets"),
    (MOR, 9, {"hoodie.clean.failed.writes.policy": "EAGER"}, "would roll back what others"),
]


def anything_is_shared(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(write_session, "refuse_unshareable", lambda *_: None)
    patch.setattr(write_session, "refuse_blocking", lambda *_: None)
    patch.setattr("tidelake.config.options.write_options._failed_writes", lambda *_: None)


@guards(anything_is_shared)
@pytest.mark.parametrize(("kind", "version", "options", "needed"), WRONG)
def test_C_19_the_wrong_table(
    tmp_path: Path, kind: TableType, version: int, options: dict[str, str], needed: str
) -> None:
    """Each precondition is named, and nothing is on the timeline then."""
    plain = {**OCC, **ONE_BUCKET, **options}
    plain.pop("hoodie.clean.failed.writes.policy", None)
    lake = Lake(tmp_path, kind, version, plain)
    with pytest.raises(ConfigError, match=needed):
        lake.writing([row("a", 1)], {**NBCC, **options}).begun()
    assert lake.state().timeline.instants == ()


def test_C_19_a_policy_that_nobody_gave_is_lazy(tmp_path: Path) -> None:
    """Without a policy failed writes of others are left alone."""
    lake = Lake(tmp_path, MOR, 9, SHARED)
    dead = lake.writing([row("a", 1)]).begun()
    lake.write([row("a", 2)])
    assert [i.requested_time for i in lake.state().timeline.pending] == [dead.txn.instant_time]


def agrees_to_anything(patch: pytest.MonkeyPatch) -> None:
    patch.setattr("tidelake.write.index._refuse_count", lambda *_: None)
    patch.setattr(write_session, "refuse_contradictions", lambda *_: None)


@guards(agrees_to_anything)
def test_C_20_another_bucket_count(tmp_path: Path) -> None:
    """A writer with another number of buckets is refused."""
    lake = Lake(tmp_path, MOR, 9, {**NBCC, **BUCKETS, "hoodie.bucket.index.num.buckets": "8"})
    lake.write([row("a", 1)])
    with pytest.raises(ConfigError, match="8"):
        lake.writing([row("a", 2)], {"hoodie.bucket.index.num.buckets": "16"}).begun()
    assert lake.values() == {"a": 1}


def test_C_20_another_hash_field(tmp_path: Path) -> None:
    """A writer that finds buckets by another column is refused."""
    lake = Lake(tmp_path, MOR, 9, SHARED)
    lake.write([row("a", 1)])
    with pytest.raises(ConfigError, match="hash"):
        lake.writing([row("a", 2)], {"hoodie.bucket.index.hash.field": "v"}).begun()
    assert lake.values() == {"a": 1}


@pytest.mark.parametrize("mode", ["EVENT_TIME_ORDERING", "COMMIT_TIME_ORDERING"])
def test_C_23_a_late_delete(tmp_path: Path, mode: str) -> None:
    """A delete with a smaller ordering value loses by event time, and wins by commit time."""
    lake = Lake(tmp_path, MOR, 9, {**SHARED, "hoodie.record.merge.mode": mode})
    flag = {"_hoodie_is_deleted": T.BooleanType()}
    lake.write([row("a", 5, _hoodie_is_deleted=False)], fields=flag)
    lake.write([row("a", 3, _hoodie_is_deleted=True)], fields=flag)
    left = {"a"} if mode.startswith("EVENT") else set()
    assert set(lake.rows()) == left
    lake.compactor().both()
    assert set(lake.rows()) == left


def cleaned_by_request(patch: pytest.MonkeyPatch) -> None:
    """A slice may go as soon as a later one was requested."""

    def is_before(dead: clean_plan._DeadFiles, requested_time: str, _done: str | None) -> bool:
        return dead.retained is not None and requested_time < dead.retained.requested_time

    patch.setattr(clean_plan._DeadFiles, "_is_before", is_before)


@guards(cleaned_by_request)
def test_C_24_services_change_no_answer(tmp_path: Path) -> None:
    """Clean and archival leave the past from the horizon on, and its windows, as they were."""
    small = {
        "hoodie.clean.automatic": "false",
        "hoodie.archive.automatic": "false",
        "hoodie.clean.commits.retained": "1",
        "hoodie.keep.min.commits": "2",
        "hoodie.keep.max.commits": "3",
        "hoodie.compact.inline.max.delta.commits": "1",
    }
    lake = Lake(tmp_path, MOR, 9, {**SHARED, **small})
    for ts in (1, 2, 3):
        lake.write([row("a", ts), row("b", ts)])
    planned = lake.compactor().schedule()
    assert planned is not None
    late = lake.writing([row("a", 4)]).begun()
    early = str(int(late.txn.instant_time) + 1)
    done = lake.compactor().run(planned)
    ends = [early, done.completion_time, late.commit().completion_time]

    def answers() -> list[object]:
        past = [lake.values(end) for end in ends]
        return [past, [lake.incremental(start, end) for start, end in pairwise(ends)]]

    before = answers()
    (cleaned,) = lake.table_services().clean()
    assert cleaned.earliest_retained == late.txn.instant_time
    assert answers() == before
    assert lake.table_services().archive() is not None
    assert answers() == before


@guards(lambda patch: patch.setattr(conflict, "_judge_log_compaction", lambda *_: Rule.OWN_LOGS))
def test_C_25_a_log_compaction_against_a_newer_compaction(tmp_path: Path) -> None:
    """A log compaction that finds a newer compaction of its file group gives way."""
    lake = Lake(tmp_path, MOR, 9, SHARED)
    for ts in (1, 2, 3):
        lake.write([row("a", ts)])
    older = plan_of(lake, Action.LOGCOMPACTION)
    assert lake.compactor().schedule() is None, "the file group is spoken for"
    late = carry_out(lake, older, Action.LOGCOMPACTION)
    plan_of(lake, Action.COMPACTION)  # by somebody who does not look
    with pytest.raises(WriteConflictError, match="newer compaction"):
        late()
    assert lake.values() == {"a": 3}


@guards(lambda patch: patch.setattr(write_session, "refuse_unshareable", lambda *_: None))
def test_C_26_a_table_that_takes_one_mode(tmp_path: Path) -> None:
    """A property of the table keeps writers of another mode out."""
    lake = Lake(tmp_path, MOR, 9, SHARED)
    with (lake.root / ".hoodie/hoodie.properties").open("a") as properties:
        properties.write(
            f"hoodie.write.concurrency.mode.required={NBCC['hoodie.write.concurrency.mode']}\n"
        )
    lake.write([row("a", 1)])
    with pytest.raises(ConfigError, match="the table takes writers with"):
        lake.writing([row("a", 2)], OCC).begun()


def test_C_26_mixed_modes_stay_right(tmp_path: Path) -> None:
    """Of an optimistic and a non-blocking writer only the former may give way; no row is lost."""
    lake = Lake(tmp_path, MOR, 9, SHARED)
    lake.write([row("a", 1)])
    careful = lake.writing([row("a", 2), row("b", 2)], OCC).begun()
    lake.write([row("a", 3)])
    with pytest.raises(WriteConflictError):
        careful.commit()
    free = lake.writing([row("a", 5)]).begun()
    lake.write([row("b", 4)], OCC)
    free.commit()
    assert lake.values() == {"a": 5, "b": 4}
