from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

import pytest

from tests.unit.txn.toy_table import PARTITION, SCHEMA, Toy, environment, new_storage
from tests.unit.txn.toy_writer import LEASE_MS, NBCC, OCC, Writer
from tidelake.config import (
    CleanOptions,
    CleanPolicy,
    ConcurrencyMode,
    ConflictStrategy,
    ReadOptions,
)
from tidelake.env import Env
from tidelake.errors import (
    InstantLostError,
    LockLostError,
    SameWriteError,
    TidelakeError,
    WriteConflictError,
)
from tidelake.formats import plans
from tidelake.formats.instant_name import InstantName
from tidelake.formats.marker_name import heartbeat_path
from tidelake.formats.plans import CompactionOperation, CompactionPlan, RollbackMetadata
from tidelake.model import Action, Commit, TableType
from tidelake.read.check import check_table
from tidelake.services import clean, roll_back, savepoint
from tidelake.services.rollback import roll_back_all_failed
from tidelake.state.table_state import TableState
from tidelake.storage import MemoryStorage
from tidelake.testing import Crash, Fault, FaultyStorage, ManualClock, SeededIds
from tidelake.timeline import Publisher, TimelineContents, load_timeline
from tidelake.txn import InstantTimes, begin
from tidelake.txn.concurrency import Concurrency
from tidelake.txn.metadata_keeper import NoMetadataTable
from tidelake.txn.protocol.retry import retry_on_conflict
from tidelake.txn.rollback.rollback import Rollback


@pytest.fixture(params=[(6, "COPY_ON_WRITE"), (9, "COPY_ON_WRITE"), (9, "MERGE_ON_READ")], ids=str)
def storage(request: pytest.FixtureRequest, clock: ManualClock) -> MemoryStorage:
    version, kind = request.param
    made = new_storage(version, TableType(kind), clock.now_ms)
    toy = Toy(made)
    toy.write({"a": "0", "b": "0"})
    return made


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture(params=list(ConflictStrategy), ids=str)
def strategy(request: pytest.FixtureRequest) -> ConflictStrategy:
    found: ConflictStrategy = request.param
    return found


def later(clock: ManualClock) -> None:
    clock.sleep_ms(10)


def test_b01_a_write_goes_on_top_of_those_that_were_done(
    storage: MemoryStorage, clock: ManualClock
) -> None:
    for number in (1, 2):
        writer = Writer(storage, clock, number)
        txn = writer.begin()
        writer.commit(txn, writer.write(txn, "a", str(number)))
        later(clock)
    assert Toy(storage).rows() == {"a": "2", "b": "0"}


def test_b02_pending_at_the_start_and_completed_meanwhile(
    storage: MemoryStorage, clock: ManualClock
) -> None:
    other, ours = Writer(storage, clock, 1), Writer(storage, clock, 2)
    first = other.begin()
    later(clock)
    second = ours.begin()
    stats = ours.write(second, "a", "ours")
    other.commit(first, other.write(first, "a", "theirs"))
    with pytest.raises(WriteConflictError, match="both changed the same file group") as refused:
        ours.commit(second, stats)
    assert refused.value.ours == second.instant_time
    assert refused.value.theirs == first.instant_time
    assert refused.value.overlap == {f"{PARTITION}/a"}
    explained = refused.value.explain()
    for fact in ("writer 1", "writer 2", "a retry", "NON_BLOCKING", "simple strategy"):
        assert fact in explained
    second.abort()
    assert Toy(storage).rows() == {"a": "theirs", "b": "0"}
    assert Toy(storage).leftovers() == []


def test_b03_started_later_and_completed_first(storage: MemoryStorage, clock: ManualClock) -> None:
    ours, other = Writer(storage, clock, 1), Writer(storage, clock, 2)
    first = ours.begin()
    stats = ours.write(first, "a", "ours")
    later(clock)
    second = other.begin()
    other.commit(second, other.write(second, "a", "theirs"))
    with pytest.raises(WriteConflictError):
        ours.commit(first, stats)


def test_b04_a_write_that_is_still_pending_will_find_ours(
    storage: MemoryStorage, clock: ManualClock
) -> None:
    ours, other = Writer(storage, clock, 1), Writer(storage, clock, 2)
    first, second = ours.begin(), other.begin()
    theirs = other.write(second, "a", "theirs")
    ours.commit(first, ours.write(first, "a", "ours"))
    with pytest.raises(WriteConflictError):
        other.commit(second, theirs)
    assert Toy(storage).rows()["a"] == "ours"


def test_b05_both_bases_agree(
    storage: MemoryStorage, clock: ManualClock, strategy: ConflictStrategy
) -> None:
    if strategy is ConflictStrategy.END and Toy(storage).config.table_version < 8:
        pytest.skip("completion times of version 6 are those of the storage")
    ours = Writer(storage, clock, 1, strategy=strategy)
    other = Writer(storage, clock, 2, strategy=strategy)
    first, second = ours.begin(), other.begin()
    stats = ours.write(first, "a", "ours")
    other.commit(second, other.write(second, "a", "theirs"))
    with pytest.raises(WriteConflictError):
        ours.commit(first, stats)


def test_what_completed_since_the_files_were_chosen_counts(
    storage: MemoryStorage, clock: ManualClock, strategy: ConflictStrategy
) -> None:
    """A write that looked keys up before its instant was published must not miss what came then."""
    if strategy is ConflictStrategy.END and Toy(storage).config.table_version < 8:
        pytest.skip("completion times of version 6 are those of the storage")
    ours = Writer(storage, clock, 1, strategy=strategy)
    seen = ours.toy.timeline
    other = Writer(storage, clock, 2, strategy=strategy)
    first = other.begin()
    other.commit(first, other.write(first, "a", "theirs"))
    later(clock)
    second = begin(
        ours.env,
        ours.toy.config,
        seen,
        action=ours.toy.write_action,
        operation="UPSERT",
        roll_back=False,
        concurrency=ours.concurrency,
        seen=seen,
    )
    with pytest.raises(WriteConflictError):
        ours.commit(second, ours.write(second, "a", "ours"))


def test_different_file_groups_do_not_meet(storage: MemoryStorage, clock: ManualClock) -> None:
    ours, other = Writer(storage, clock, 1), Writer(storage, clock, 2)
    first, second = ours.begin(), other.begin()
    other.commit(second, other.write(second, "b", "theirs"))
    ours.commit(first, ours.write(first, "a", "ours"))
    assert Toy(storage).rows() == {"a": "ours", "b": "theirs"}


def test_an_overwrite_meets_a_new_file_group(storage: MemoryStorage, clock: ManualClock) -> None:
    ours, other = Writer(storage, clock, 1), Writer(storage, clock, 2)
    first, second = ours.begin(overwrite=True), other.begin()
    retired = {PARTITION: tuple(ours.toy.slices(first.timeline))}
    stats = ours.write(first, "c", "ours")
    other.commit(second, other.write(second, "d", "theirs"))
    with pytest.raises(WriteConflictError):
        first.commit(stats, schema=SCHEMA, replaced=retired)


def test_b25_a_rollback_that_was_published_stops_the_commit(
    storage: MemoryStorage, clock: ManualClock
) -> None:
    ours = Writer(storage, clock, 1)
    txn = ours.begin()
    stats = ours.write(txn, "a", "ours")
    clock.sleep_ms(1_000)
    toy = Toy(storage)
    crashing = FaultyStorage(storage)
    rollback = Rollback(
        environment(crashing),
        toy.config,
        toy.timeline,
        InstantTimes(clock, toy.config, toy.timeline),
        NoMetadataTable(environment(crashing)),
    )
    instant = next(i for i in toy.timeline.pending if i.requested_time == txn.instant_time)
    rollback.run(instant)
    # The stalled writer wakes up and gives a sign of life.
    txn.heartbeat.beat()
    with pytest.raises(InstantLostError, match="rolled it back"):
        ours.commit(txn, stats)
    assert Toy(storage).rows() == {"a": "0", "b": "0"}


def test_a10_a_lock_that_was_lost_stops_the_commit(
    storage: MemoryStorage, clock: ManualClock
) -> None:
    stalled = {"at": ""}

    def stall(_number: int, name: str, path: str) -> None:
        # The last thing before the completed file is to look at the lock again.
        if stalled["at"] and name == "list" and path.endswith(stalled["at"]):
            stalled["at"] = ""
            clock.sleep_ms(LEASE_MS + 1)
            other = Writer(storage, clock, 2)
            txn = other.begin()
            other.commit(txn, other.write(txn, "a", "theirs"))

    ours = Writer(FaultyStorage(storage, stall), clock, 1)
    txn = ours.begin()
    stats = ours.write(txn, "a", "ours")
    stalled["at"] = ours.toy.config.timeline_folder
    with pytest.raises((LockLostError, WriteConflictError)):
        ours.commit(txn, stats)
    assert Toy(storage).rows()["a"] == "theirs"


def test_d17_a_writer_that_was_silent_for_too_long_gives_up(
    storage: MemoryStorage, clock: ManualClock
) -> None:
    ours = Writer(storage, clock, 1)
    txn = ours.begin()
    stats = ours.write(txn, "a", "ours")
    clock.sleep_ms(ours.concurrency.expires_after_ms + 1)
    with pytest.raises(InstantLostError, match="no sign of life"):
        ours.commit(txn, stats)


def test_b26_a_write_looks_at_the_timeline_twice(
    storage: MemoryStorage, clock: ManualClock
) -> None:
    counted = FaultyStorage(storage)
    writer = Writer(counted, clock, 1)
    before = len(counted.calls)
    txn = writer.begin()
    txn.start()
    stats = [writer.toy.task(txn, "a", "1", None, "0-1-0")]
    writer.commit(txn, stats)
    folder = writer.toy.config.timeline_folder
    listed = [path for name, path in counted.calls[before:] if name == "list"]
    assert listed.count(folder) == 2


def test_non_blocking_writers_never_give_way(clock: ManualClock) -> None:
    storage = new_storage(9, TableType.MERGE_ON_READ)
    Toy(storage).write({"a": "0"})
    ours, other = (Writer(storage, clock, n, mode=NBCC) for n in (1, 2))
    first, second = ours.begin(), other.begin()
    stats = ours.write(first, "a", "ours")
    other.commit(second, other.write(second, "a", "theirs"))
    later(clock)
    ours.commit(first, stats)
    assert Toy(storage).rows() == {"a": "ours"}, "the later completion wins"


def test_times_of_two_writers_ascend_in_the_order_of_their_files(
    storage: MemoryStorage, clock: ManualClock
) -> None:
    """A-01, A-04: clocks that agree to the millisecond, or are minutes apart."""
    behind = ManualClock(clock.now_ms() - 300_000)
    writers = [Writer(storage, clock, 1), Writer(storage, clock, 2)]
    late = Writer(storage, clock, 3)
    late.env = Env(storage, behind, SeededIds(3))
    found = [writer.begin().instant_time for writer in (*writers, late, writers[0])]
    assert found == sorted(set(found))


def test_the_schema_is_resolved_against_the_one_that_is(
    storage: MemoryStorage, clock: ManualClock
) -> None:
    ours, other = Writer(storage, clock, 1), Writer(storage, clock, 2)
    first, second = ours.begin(), other.begin()
    changed = SCHEMA.replace("[]", '[{"name":"x","type":["null","int"]}]')
    second.commit(other.write(second, "b", "theirs"), schema=changed)
    asked: list[tuple[str | None, str]] = []

    def resolve(now: str | None, by: str) -> str:
        asked.append((now, by))
        return now or SCHEMA

    done = ours.commit(first, ours.write(first, "a", "ours"), resolve)
    assert asked == [(changed, second.instant_time)]
    toy = Toy(storage)
    instant = next(i for i in toy.timeline.writes() if i.requested_time == done.requested_time)
    contents = TimelineContents(storage, toy.config)
    assert contents.commit_metadata(instant).schema == changed
    assert contents.commit_metadata(instant).extra_metadata["tidelake.writer"] == "writer 1"


def test_a_shared_mode_takes_a_lock() -> None:
    with pytest.raises(ValueError, match="takes a lock"):
        Concurrency(mode=OCC)


def test_an_aborted_write_is_rolled_back_under_the_lock(
    storage: MemoryStorage, clock: ManualClock
) -> None:
    ours = Writer(storage, clock, 1)
    txn = ours.begin()
    ours.write(txn, "a", "ours")
    with pytest.raises(KeyError), txn:
        raise KeyError
    toy = Toy(storage)
    assert [i.action for i in load_timeline(storage, toy.config).instants][-1] is Action.ROLLBACK
    assert toy.rows() == {"a": "0", "b": "0"}
    assert toy.leftovers() == []


def test_a_lock_that_is_lost_between_two_attempts_to_publish_stops_the_second(
    storage: MemoryStorage, clock: ManualClock
) -> None:
    fails = {"armed": False, "asked": False}

    def fail(_number: int, name: str, path: str) -> Fault | None:
        if fails["armed"] and name == "put_if_absent" and path.endswith("commit"):
            fails.update(armed=False, asked=True)
            return Fault.ERROR
        if fails["asked"] and name == "read":
            fails["asked"] = False
            clock.sleep_ms(LEASE_MS + 1)
            other = Writer(storage, clock, 2)
            theirs = other.begin()
            other.commit(theirs, other.write(theirs, "a", "theirs"))
        return None

    ours = Writer(FaultyStorage(storage, fail), clock, 1)
    txn = ours.begin()
    stats = ours.write(txn, "a", "ours")
    fails["armed"] = True
    with pytest.raises(LockLostError):
        ours.commit(txn, stats)
    assert Toy(storage).rows()["a"] == "theirs"


@pytest.mark.parametrize("mode", [OCC, NBCC])
def test_two_processes_that_make_the_same_write_commit_once(
    clock: ManualClock, mode: ConcurrencyMode
) -> None:
    storage = new_storage(9, TableType.MERGE_ON_READ)
    writers = [Writer(storage, clock, number, mode) for number in (1, 2)]
    txns = [writer.begin(write_id="batch 7") for writer in writers]
    stats = [w.write(t, "a-0", "a") for w, t in zip(writers, txns, strict=True)]
    first = writers[0].commit(txns[0], stats[0])
    with pytest.raises(SameWriteError, match=first.requested_time) as caught:
        writers[1].commit(txns[1], stats[1])
    answers: list[Commit | SameWriteError] = [caught.value, first]

    def attempt() -> Commit:
        answer = answers.pop(0)
        if isinstance(answer, SameWriteError):
            raise answer
        return answer

    assert retry_on_conflict(writers[1].env, 0, attempt) == first


@pytest.mark.parametrize("fault", [Fault.ERROR, Fault.LOST_REPLY])
def test_a_commit_raises_only_when_it_did_not_land(clock: ManualClock, fault: Fault) -> None:
    """Whatever call fails: what comes after the completed file is not worth an error."""
    countdown = {"to": 0}

    def fails(_number: int, _name: str, _path: str) -> Fault | None:
        countdown["to"] -= 1
        return fault if countdown["to"] == 0 else None

    number = 0
    while countdown["to"] <= 0:
        number += 1
        countdown["to"] = 0
        storage = new_storage(9, TableType.COPY_ON_WRITE)
        faulty = FaultyStorage(storage, fails)
        ours = Writer(faulty, clock, 1)
        txn = ours.begin()
        stats = ours.write(txn, "a", "ours")
        countdown["to"] = number
        is_told = True
        try:
            with txn:
                ours.commit(txn, stats)
        except TidelakeError:
            is_told = False
        assert ("a" in Toy(storage).rows()) is is_told, f"call {number}: {faulty.calls}"
    assert number > 10


def puts_completed(name: str, path: str) -> bool:
    return name == "put_if_absent" and "commit" in path and "/." not in path[1:]


def test_a_write_that_lost_its_lock_in_the_last_moment_gives_way_after_all(
    storage: MemoryStorage, clock: ManualClock
) -> None:
    """The storage took its time with the completed file, and another committed meanwhile."""
    armed = [False]
    theirs: list[Commit] = []

    def stall(_number: int, name: str, path: str) -> None:
        if armed[0] and puts_completed(name, path):
            armed[0] = False
            clock.sleep_ms(LEASE_MS + 1)
            other = Writer(storage, clock, 2)
            txn = other.begin()
            theirs.append(other.commit(txn, other.write(txn, "a", "theirs")))

    ours = Writer(FaultyStorage(storage, stall), clock, 1)
    txn = ours.begin()
    stats = ours.write(txn, "a", "ours")
    armed[0] = True
    with pytest.raises(WriteConflictError) as caught, txn:
        ours.commit(txn, stats)
    assert caught.value.theirs == theirs[0].requested_time
    assert Toy(storage).rows()["a"] == "theirs"
    assert Toy(storage).leftovers() == []
    third = Writer(storage, clock, 3)
    again = third.begin()
    third.commit(again, third.write(again, "a", "third"))
    assert Toy(storage).rows()["a"] == "third"


@pytest.mark.parametrize("is_saved", [False, True])
def test_a_write_that_lost_its_lock_gives_way_to_a_plan_that_did_not_see_it(
    storage: MemoryStorage, clock: ManualClock, *, is_saved: bool
) -> None:
    """It would be carried out without the rows, which came into the past of the plan."""
    steps = ["not yet"]
    planned: list[str] = []

    def stall(_number: int, name: str, path: str) -> None:
        if steps[-1] == "planned" and is_saved:
            steps.append("saved")
            clock.sleep_ms(1)
            keep_all(Writer(storage, clock, 3))
        elif steps[-1] == "armed" and puts_completed(name, path):
            steps.append("planned")
            clock.sleep_ms(LEASE_MS + 1)
            toy = Toy(storage)
            operations = tuple(
                CompactionOperation(
                    base_instant_time=found.base_instant_time,
                    delta_file_paths=(),
                    data_file_path=None,
                    file_id=group,
                    partition_path=PARTITION,
                )
                for group, found in toy.slices().items()
            )
            planned.append(InstantTimes(clock, toy.config, toy.timeline).next())
            plan = plans.encode(CompactionPlan(operations=operations, version=2))
            publisher = Publisher(storage, toy.config)
            publisher.request(planned[0], Action.COMPACTION, plan)

    ours = Writer(FaultyStorage(storage, stall), clock, 1)
    txn = ours.begin()
    stats = ours.write(txn, "a", "ours")
    steps.append("armed")
    with pytest.raises(WriteConflictError, match="planned on its file groups") as caught, txn:
        ours.commit(txn, stats)
    assert caught.value.theirs == planned[0]
    assert Toy(storage).rows()["a"] == "0"


def test_a_write_that_lost_its_lock_stays_where_others_completed_on_top_of_it(
    storage: MemoryStorage, clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    steps = ["not yet"]

    def stall(_number: int, name: str, path: str) -> None:
        if steps[-1] == "armed" and puts_completed(name, path):
            steps.append("completed")
            clock.sleep_ms(LEASE_MS + 1)
        elif steps[-1] == "completed":
            steps.append("others")
            clock.sleep_ms(1)
            other = Writer(storage, clock, 2)
            txn = other.begin()
            other.commit(txn, other.write(txn, "a", "theirs"))

    ours = Writer(FaultyStorage(storage, stall), clock, 1)
    txn = ours.begin()
    stats = ours.write(txn, "a", "ours")
    steps.append("armed")
    with txn:
        done = ours.commit(txn, stats)
    assert steps[-1] == "others"
    assert done.requested_time in {i.requested_time for i in Toy(storage).timeline.writes()}
    assert Toy(storage).rows()["a"] == "theirs"
    assert "began on top of it" in caplog.text


def test_a_write_that_lost_its_lock_gives_way_to_rows_that_it_would_hide_whatever_is_saved(
    storage: MemoryStorage, clock: ManualClock
) -> None:
    """What another was told is committed counts for more than a savepoint made meanwhile."""
    steps = ["not yet"]

    def stall(_number: int, name: str, path: str) -> None:
        if steps[-1] == "armed" and puts_completed(name, path):
            steps.append("completed")
            clock.sleep_ms(LEASE_MS + 1)
            other = Writer(storage, clock, 2)
            txn = other.begin()
            other.commit(txn, other.write(txn, "a", "theirs"))
        elif steps[-1] == "completed":
            steps.append("others")
            clock.sleep_ms(1)
            keep_all(Writer(storage, clock, 3))

    ours = Writer(FaultyStorage(storage, stall), clock, 1)
    txn = ours.begin()
    stats = ours.write(txn, "a", "ours")
    steps.append("armed")
    with pytest.raises(WriteConflictError), txn:
        ours.commit(txn, stats)
    assert steps[-1] == "others"
    assert Toy(storage).rows()["a"] == "theirs"


def keep_all(writer: Writer) -> None:
    savepoint(writer.env, concurrency=writer.concurrency)


def keep_newest_slices(writer: Writer) -> None:
    options = CleanOptions(policy=CleanPolicy.FILE_VERSIONS, file_versions=1)
    clean(writer.env, options, NoMetadataTable(writer.env), concurrency=writer.concurrency)


@pytest.mark.parametrize("serve", [keep_all, keep_newest_slices])
def test_a_write_that_lost_its_lock_stays_where_a_service_counts_on_its_files(
    storage: MemoryStorage, clock: ManualClock, serve: Callable[[Writer], None]
) -> None:
    """A savepoint names them, and a clean has deleted the slices behind them."""
    steps = ["not yet"]

    def stall(_number: int, name: str, path: str) -> None:
        if steps[-1] == "armed" and puts_completed(name, path):
            steps.append("completed")
            clock.sleep_ms(LEASE_MS + 1)
            other = Writer(storage, clock, 2)
            txn = other.begin()
            other.commit(txn, other.write(txn, "b", "theirs"))
        elif steps[-1] == "completed":
            steps.append("others")
            clock.sleep_ms(1)
            serve(Writer(storage, clock, 3))

    ours = Writer(FaultyStorage(storage, stall), clock, 1)
    txn = ours.begin()
    stats = ours.write(txn, "a", "ours")
    steps.append("armed")
    has_landed = False
    with suppress(WriteConflictError), txn:
        ours.commit(txn, stats)
        has_landed = True
    assert steps[-1] == "others"
    # Behind a log there is nothing to clean.
    is_log = Toy(storage).write_action is Action.DELTACOMMIT
    assert has_landed or (is_log and serve is keep_newest_slices)
    assert Toy(storage).rows() == {"a": "ours" if has_landed else "0", "b": "theirs"}
    timeline, contents = Toy(storage).timeline, TimelineContents(storage, Toy(storage).config)
    there = {path.rpartition("/")[2] for path in storage.files_below("")}
    for saved in (i for i in timeline.completed if i.action is Action.SAVEPOINT):
        for of in contents.savepoint_metadata(saved).partition_metadata.values():
            assert there >= {*of.savepoint_data_file}


def test_a_write_that_lost_its_lock_brings_nothing_back_that_was_rolled_back(
    storage: MemoryStorage, clock: ManualClock
) -> None:
    """It was silent for so long that nobody waited for it."""
    writer = Writer(storage, clock, 4)
    txn = writer.begin()
    newest = writer.commit(txn, writer.write(txn, "a", "newest")).requested_time
    armed = [False]

    def stall(_number: int, name: str, path: str) -> None:
        if armed[0] and puts_completed(name, path):
            armed[0] = False
            clock.sleep_ms(20 * LEASE_MS)
            other = Writer(storage, clock, 2)
            keeper = NoMetadataTable(other.env)
            roll_back(other.env, newest, keeper, concurrency=other.concurrency)

    later(clock)
    ours = Writer(FaultyStorage(storage, stall), clock, 1)
    txn = ours.begin()
    stats = ours.write(txn, "a", "ours")
    armed[0] = True
    with pytest.raises((WriteConflictError, InstantLostError)), txn:
        ours.commit(txn, stats)
    assert Toy(storage).rows()["a"] == "0"


def test_a_write_that_lost_its_lock_as_it_began_leaves_nothing(clock: ManualClock) -> None:
    storage = new_storage(9, TableType.COPY_ON_WRITE, clock.now_ms)
    Toy(storage).write({"a": "0"})
    armed = [True]

    def stall(_number: int, call: str, path: str) -> None:
        if armed[0] and call == "put" and path.startswith(heartbeat_path("")):
            armed[0] = False
            clock.sleep_ms(LEASE_MS + 1)
            other = Writer(storage, clock, 2)
            txn = other.begin()
            other.commit(txn, other.write(txn, "a", "theirs"))

    with pytest.raises(LockLostError, match=r"before .* appeared"):
        Writer(FaultyStorage(storage, stall), clock, 1).begin()
    assert Toy(storage).rows()["a"] == "theirs"
    assert Toy(storage).timeline.pending == ()
    assert storage.files_below(heartbeat_path("").rstrip("/")) == []


@pytest.mark.parametrize("version", [8, 9])
def test_a_write_that_lost_its_lock_gives_way_to_who_has_its_completion_time(
    clock: ManualClock, version: int
) -> None:
    storage = new_storage(version, TableType.COPY_ON_WRITE, clock.now_ms)
    Toy(storage).write({"a": "0"})
    armed = [False]

    def stall(_number: int, call: str, path: str) -> None:
        if armed[0] and puts_completed(call, path):
            armed[0] = False
            clock.sleep_ms(LEASE_MS + 1)
            # The clock of the other is behind ours.
            name = InstantName.parse(path.rpartition("/")[2], Toy(storage).config.layout_version)
            assert name is not None
            done = RollbackMetadata(
                start_rollback_time=requested,
                time_taken_in_millis=1,
                total_files_deleted=0,
                commits_rollback=(),
                partition_metadata={},
            )
            path = (
                f"{Toy(storage).config.timeline_folder}/{requested}_{name.completion_time}.rollback"
            )
            storage.put(path, plans.encode(done))

    ours = Writer(FaultyStorage(storage, stall), clock, 1)
    txn = ours.begin()
    requested = f"{int(txn.instant_time) + 1}"
    stats = ours.write(txn, "a", "ours")
    armed[0] = True
    with pytest.raises(WriteConflictError, match="completion time") as caught, txn:
        ours.commit(txn, stats)
    assert caught.value.theirs == requested
    assert Toy(storage).rows()["a"] == "0"


@pytest.mark.parametrize("version", [6, 8, 9])
def test_check_names_a_write_that_nobody_saw_because_it_lost_its_lock(
    clock: ManualClock, version: int
) -> None:
    """Its process ended right after the completed file, so that it could not look itself."""
    storage = new_storage(version, TableType.COPY_ON_WRITE, clock.now_ms)
    Toy(storage).write({"a": "0"})
    armed = [False]
    theirs: list[Commit] = []

    def stall(_number: int, name: str, path: str) -> Fault | None:
        if not (armed[0] and puts_completed(name, path)):
            return None
        clock.sleep_ms(LEASE_MS + 1)
        other = Writer(storage, clock, 2)
        txn = other.begin()
        theirs.append(other.commit(txn, other.write(txn, "a", "theirs")))
        return Fault.CRASH_AFTER

    ours = Writer(FaultyStorage(storage, stall), clock, 1)
    txn = ours.begin()
    stats = ours.write(txn, "a", "ours")
    armed[0] = True
    with pytest.raises(Crash):
        ours.commit(txn, stats)
    report = check_table(TableState.load(storage, ReadOptions()), None, quick=True)
    problems = [found.problem for found in report.violations]
    assert any(f"rows of {txn.instant_time} are lost" in problem for problem in problems)


def test_i8_a_write_that_was_rolled_back_does_not_stay_completed(
    storage: MemoryStorage, clock: ManualClock
) -> None:
    """It was stopped between the last look at its lock and the completed file."""
    armed = [False]

    def stall(_number: int, name: str, path: str) -> None:
        if armed[0] and puts_completed(name, path):
            armed[0] = False
            clock.sleep_ms(10 * LEASE_MS)
            other = Writer(storage, clock, 2)
            failed = roll_back_all_failed(
                other.env, expires_ms=LEASE_MS, concurrency=other.concurrency
            )
            assert failed == [txn.instant_time]
            theirs = other.begin()
            other.commit(theirs, other.write(theirs, "a", "theirs"))

    ours = Writer(FaultyStorage(storage, stall), clock, 1)
    txn = ours.begin()
    stats = ours.write(txn, "a", "ours")
    armed[0] = True
    with pytest.raises(InstantLostError), txn:
        ours.commit(txn, stats)
    assert armed == [False]
    assert Toy(storage).rows()["a"] == "theirs"
    assert Toy(storage).leftovers() == []
    times = {i.requested_time for i in Toy(storage).timeline.instants}
    assert txn.instant_time not in times
