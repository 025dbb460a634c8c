from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

import pytest

from tests.writes.cases import Case
from tests.writes.model import Do, Row, Step, Values
from tests.writes.quick_writer import QuickWriter
from tests.writes.readers import OurReader
from tidelake.config import WriteOptions
from tidelake.env import Env
from tidelake.errors import (
    ConfigError,
    CorruptFileError,
    MissingFileError,
    PlanCompletedError,
    PlanRemovedError,
    PlanRunningError,
    TidelakeError,
)
from tidelake.files import SliceTask
from tidelake.formats.marker_name import heartbeat_path
from tidelake.metadata import MetadataTable
from tidelake.model import Action, Commit, State
from tidelake.operations.compaction_run import Compactor
from tidelake.operations.open_table import load_state, open_state
from tidelake.operations.task_runner import Here, SliceWork, TaskRunner
from tidelake.state.table_state import TableState
from tidelake.storage import Storage, open_storage
from tidelake.testing import Crash, Fault, FaultyStorage
from tidelake.view import StorageListing

R = TypeVar("R")
VERSIONS = (6, 8, 9)
each_version = pytest.mark.parametrize("version", VERSIONS)


def row(key: str, ts: int, note: str) -> Row:
    return {
        "id": key,
        "region": "n",
        "city": "oslo",
        "day": 1_794_700_800_000,
        "ts": ts,
        "fare": 1.5,
        "note": note,
    }


def upsert(ts: int, *keys: str) -> Step:
    return Step(do=Do.UPSERT, rows=tuple(row(key, ts, f"at {ts}") for key in keys))


class Logged:
    """A table with a base file and logs, and ways to compact it."""

    def __init__(
        self,
        root: Path,
        version: int = 9,
        *,
        mor: bool = True,
        extra: Mapping[str, str] | None = None,
    ) -> None:
        self.root = root
        self.case = Case(version=version, mor=mor, extra=tuple((extra or {}).items()))
        self.writer = QuickWriter()
        self.writer.create(root, self.case)
        self.write(upsert(1, "a", "b", "c"))
        self.write(upsert(2, "a"))
        self.write(Step(do=Do.DELETE, rows=(row("b", 1, ""),)))

    def write(self, step: Step) -> None:
        self.writer.write(self.root, self.case, step)

    def compactor(
        self,
        storage: Storage | None = None,
        options: Mapping[str, str] | None = None,
        runner: TaskRunner | None = None,
    ) -> Compactor:
        own = storage or open_storage(str(self.root))
        given = {**self.case.options, **(options or {})}
        return Compactor(
            Env(own),
            lambda: load_state(own, given),
            WriteOptions.from_options(given),
            runner or Here(),
        )

    @property
    def state(self) -> TableState:
        return open_state(str(self.root))

    def rows(self) -> list[Values]:
        return OurReader(self.root).snapshot()

    def files(self) -> dict[str, bytes]:
        storage = self.state.storage
        return {path: storage.read(path) for path in storage.files_below("")}

    def plan(self) -> str:
        planned = self.compactor().schedule()
        assert planned is not None
        return planned


@each_version
def test_logs_are_folded_into_a_base_file(version: int, tmp_path: Path) -> None:
    table = Logged(tmp_path, version)
    before = table.rows()
    commit = table.compactor().both()
    assert isinstance(commit, Commit)
    assert (commit.action, commit.operation) == (Action.COMMIT, "COMPACT")
    assert (commit.inserts, commit.updates, commit.deletes) == (0, 1, 1)
    assert table.rows() == before
    slices = table.state.view.latest_slices()
    assert all(not piece.log_files for piece in slices)
    assert OurReader(tmp_path).base_files() == before
    instant = table.state.timeline.writes()[-1]
    assert instant.planned_as is Action.COMPACTION
    metadata = table.state.contents.commit_metadata(instant)
    assert metadata.compacted is True
    (stat,) = [s for s in metadata.write_stats if s.num_deletes]
    assert stat.total_log_files_compacted == 2
    assert stat.total_updated_records_compacted == 2
    assert stat.prev_commit == table.state.timeline.writes()[0].requested_time
    assert table.compactor().both() is None


def test_a_group_without_a_base_file_gets_one(tmp_path: Path) -> None:
    table = Logged(tmp_path)
    for piece in table.state.view.latest_slices():
        assert piece.base_file is not None
    options = {"hoodie.write.concurrency.mode": "NON_BLOCKING_CONCURRENCY_CONTROL"}
    bucket = Case(mor=True, index="BUCKET", extra=tuple(options.items()))
    root = tmp_path / "logs only"
    writer = QuickWriter()
    writer.create(root, bucket)
    writer.write(root, bucket, upsert(1, "a", "b", "c"))
    assert all(piece.base_file is None for piece in open_state(str(root)).view.latest_slices())
    before = OurReader(root).snapshot()
    assert writer.schedule(root, bucket)
    assert writer.run_pending(root, bucket) == 1
    assert OurReader(root).base_files() == before


def test_rows_keep_the_commit_that_wrote_them(tmp_path: Path) -> None:
    table = Logged(tmp_path)
    times = {i.requested_time for i in table.state.timeline.writes()}
    start = table.state.timeline.writes()[0].completion_time
    assert start is not None
    before = OurReader(tmp_path).incremental(start, "20990101000000000")
    commit = table.compactor().both()
    assert commit is not None
    assert OurReader(tmp_path).incremental(start, "20990101000000000") == before
    assert commit.requested_time not in times
    assert OurReader(tmp_path).incremental(commit.completion_time, "20990101000000000") == []


@each_version
def test_what_is_written_while_a_plan_waits_is_kept(version: int, tmp_path: Path) -> None:
    table = Logged(tmp_path, version)
    planned = table.plan()
    assert table.compactor().schedule() is None
    table.write(upsert(5, "a", "e"))
    before = table.rows()
    commit = table.compactor().run(planned)
    assert commit.requested_time == planned
    assert table.rows() == before
    table.write(upsert(6, "a", "c"))
    assert len(table.rows()) == len(before)
    after = table.rows()
    assert table.compactor().both() is not None
    assert table.rows() == after == OurReader(tmp_path).base_files()


def test_a_trigger_that_is_asked_for_is_waited_for(tmp_path: Path) -> None:
    table = Logged(tmp_path)
    key = "hoodie.compact.inline.max.delta.commits"
    assert table.compactor(options={key: "4"}).schedule() is None
    assert table.compactor().schedule(only_if_due=True) is None
    assert table.compactor(options={key: "3"}).schedule() is not None


def refused(table: Logged, kind: type[TidelakeError], instant: str) -> str:
    before = table.files()
    with pytest.raises(kind) as caught:
        table.compactor().run(instant)
    assert table.files() == before
    assert caught.value.next_step
    return str(caught.value)


def test_a_plan_that_is_gone_is_refused(tmp_path: Path) -> None:
    table = Logged(tmp_path)
    assert "schedule a new compaction" in refused(table, PlanRemovedError, "20260101000000000")
    planned = table.plan()
    assert planned in refused(table, PlanRemovedError, "20260101000000000")


def test_a_plan_that_is_done_is_refused(tmp_path: Path) -> None:
    table = Logged(tmp_path)
    planned = table.plan()
    commit = table.compactor().run(planned)
    assert commit.completion_time in refused(table, PlanCompletedError, planned)


def test_an_instant_that_is_no_compaction_is_refused(tmp_path: Path) -> None:
    table = Logged(tmp_path)
    first = table.state.timeline.writes()[0].requested_time
    assert "deltacommit" in refused(table, ConfigError, first)


@pytest.mark.parametrize("content", [b"", b"Obj\x01 and nothing of use"])
def test_a_plan_that_cannot_be_read_is_refused(content: bytes, tmp_path: Path) -> None:
    table = Logged(tmp_path)
    planned = table.plan()
    (tmp_path / ".hoodie" / "timeline" / f"{planned}.compaction.requested").write_bytes(content)
    assert "scheduled anew" in refused(table, CorruptFileError, planned)


def test_a_plan_that_names_a_lost_log_is_refused(tmp_path: Path) -> None:
    table = Logged(tmp_path)
    planned = table.plan()
    lost = table.state.view.latest_slices()[0].log_files[0]
    (tmp_path / lost.path).unlink()
    assert lost.name in refused(table, MissingFileError, planned)


def test_a_table_without_logs_is_refused(tmp_path: Path) -> None:
    table = Logged(tmp_path, mor=False)
    before = table.files()
    with pytest.raises(ConfigError, match="copy-on-write"):
        table.compactor().both()
    assert table.files() == before


def test_a_log_that_is_damaged_is_not_folded_in(tmp_path: Path) -> None:
    table = Logged(tmp_path)
    planned = table.plan()
    path = tmp_path / table.state.view.latest_slices()[0].log_files[0].path
    data = bytearray(path.read_bytes())
    data[6:14] = (1 << 40).to_bytes(8, "big")  # the length of the first block
    path.write_bytes(data)
    with pytest.raises(CorruptFileError, match="no block stands at offset 0"):
        table.compactor().run(planned)
    (pending,) = table.state.timeline.pending
    assert (pending.requested_time, pending.state) == (planned, State.REQUESTED)
    assert sum(path.suffix == ".parquet" for path in tmp_path.rglob("*")) == 1


class Interrupted:
    """Lets somebody else carry out the plan while the tasks of this attempt run."""

    def __init__(self, table: Logged, planned: str) -> None:
        self._table, self._planned = table, planned
        self._here = Here(attempt=7)

    @property
    def failures(self) -> tuple[type[Exception], ...]:
        return ()

    @property
    def waits(self) -> bool:
        return self._here.waits

    def run(
        self, tasks: Sequence[SliceTask], work: SliceWork[R]
    ) -> Generator[tuple[SliceTask, R], None, None]:
        yield from self._here.run(tasks[:1], work)
        # This attempt has given no sign of life for long.
        (self._table.root / heartbeat_path(self._planned)).unlink()
        self._table.compactor().run(self._planned)
        yield from self._here.run(tasks[1:], work)


@pytest.mark.parametrize("tasks_left", [0, 1])
@each_version
def test_an_attempt_that_was_taken_over_has_the_result_of_the_other(
    version: int, tasks_left: int, tmp_path: Path
) -> None:
    table = Logged(tmp_path, version)
    if tasks_left:
        table.write(
            Step(do=Do.UPSERT, rows=tuple({**row(k, 3, "x"), "city": "rom"} for k in ("r", "s")))
        )
        table.write(Step(do=Do.UPSERT, rows=({**row("r", 4, "y"), "city": "rom"},)))
    before = table.rows()
    planned = table.plan()
    commit = table.compactor(runner=Interrupted(table, planned)).run(planned)
    (done,) = [i for i in table.state.timeline.writes() if i.requested_time == planned]
    assert (commit.requested_time, commit.completion_time) == (planned, done.completion_time)
    assert table.rows() == before == OurReader(tmp_path).base_files()
    commits = [i for i in table.state.timeline.instants if i.requested_time == planned]
    assert [i.state for i in commits] == [State.COMPLETED]
    named = {
        stat.path
        for instant in table.state.timeline.writes()
        for stat in table.state.contents.commit_metadata(instant).write_stats
    }
    on_storage = {p for p in table.state.storage.files_below("") if p.endswith(".parquet")}
    assert on_storage <= named
    assert table.state.storage.stat(heartbeat_path(planned)) is None


class Watched:
    """Lets somebody else try to carry out the plan while the tasks of this attempt run."""

    def __init__(self, table: Logged, planned: str, options: Mapping[str, str]) -> None:
        self._table, self._planned, self._options = table, planned, options

    @property
    def failures(self) -> tuple[type[Exception], ...]:
        return ()

    @property
    def waits(self) -> bool:
        return Here().waits

    def run(
        self, tasks: Sequence[SliceTask], work: SliceWork[R]
    ) -> Generator[tuple[SliceTask, R], None, None]:
        with pytest.raises(PlanRunningError, match="being carried out"):
            self._table.compactor(options=self._options).run(self._planned)
        yield from Here().run(tasks, work)


@each_version
def test_where_others_write_a_plan_that_is_being_carried_out_is_left_alone(
    version: int, tmp_path: Path
) -> None:
    table = Logged(tmp_path, version)
    before = table.rows()
    shared = {"hoodie.write.concurrency.mode": "OPTIMISTIC_CONCURRENCY_CONTROL"}
    planned = table.compactor(options=shared).schedule()
    assert planned is not None
    commit = table.compactor(options=shared, runner=Watched(table, planned, shared)).run(planned)
    assert commit.requested_time == planned
    assert table.rows() == before == OurReader(tmp_path).base_files()
    assert table.state.storage.stat(heartbeat_path(planned)) is None


def dies(name: str, ending: str) -> Callable[[int, str, str], Fault | None]:
    """Return a storage's end: right after a call on a file whose path ends like that."""

    def fault(_number: int, called: str, path: str) -> Fault | None:
        return Fault.CRASH_AFTER if (called, path.endswith(ending)) == (name, True) else None

    return fault


@each_version
def test_where_others_write_rollbacks_of_dead_attempts_are_finished_first(
    version: int, tmp_path: Path
) -> None:
    table = Logged(tmp_path, version)
    before = table.rows()
    shared = {"hoodie.write.concurrency.mode": "OPTIMISTIC_CONCURRENCY_CONTROL"}
    planned = table.compactor(options=shared).schedule()
    assert planned is not None
    for name, ending in (
        ("put", ".sealed"),
        ("put_if_absent", "rollback.requested"),
    ):
        storage = FaultyStorage(open_storage(str(tmp_path)), dies(name, ending))
        with pytest.raises(Crash):
            table.compactor(storage, options=shared).run(planned)
        # Long enough ago for others to take it for dead.
        (tmp_path / heartbeat_path(planned)).unlink(missing_ok=True)
    pending = {i.action for i in table.state.timeline.pending}
    assert pending == {Action.COMPACTION, Action.ROLLBACK}
    table.compactor(options=shared).run(planned)
    assert not table.state.timeline.pending
    table.write(upsert(9, "c"))  # a writer that thinks it is alone rolls back whatever is begun
    (compacted,) = [i for i in table.state.timeline.instants if i.requested_time == planned]
    assert compacted.state is State.COMPLETED
    assert len(table.rows()) == len(before)
    assert OurReader(tmp_path).base_files() == before


@each_version
def test_the_metadata_table_learns_of_a_compaction(version: int, tmp_path: Path) -> None:
    table = Logged(tmp_path, version, extra={"hoodie.metadata.enable": "true"})
    before = table.rows()
    planned = table.plan()
    table.write(upsert(5, "a"))
    storage = FaultyStorage(open_storage(str(tmp_path)), dies("put", ".sealed"))
    with pytest.raises(Crash):
        table.compactor(storage).run(planned)
    with pytest.raises(PlanRunningError, match="120 s"):
        table.compactor().run(planned)
    (tmp_path / heartbeat_path(planned)).unlink()
    assert len(table.rows()) == len(before)
    table.compactor().run(planned)
    assert table.compactor().both() is not None
    state = table.state
    assert state.is_listed_by_metadata
    found = MetadataTable.open(state.storage, state.config, state.timeline)
    assert found is not None
    listed = StorageListing(state.storage)
    names = {p: {f.name for f in files} for p, files in found.files_of(found.partitions()).items()}
    assert names == {
        p: {f.name for f in files if not f.name.startswith(".hoodie_partition")}
        for p, files in listed.files_of(listed.partitions()).items()
    }
    assert table.rows() == OurReader(tmp_path).base_files()
