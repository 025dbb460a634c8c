"""A toy table that is compacted too, and that can be asked as of any of its commits."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping

from tests.unit.txn.toy_table import KINDS, PARTITION, SCHEMA, Toy, environment, new_storage
from tidelake.config import ServiceOptions, TimeBasis, WriteOptions
from tidelake.formats import plans
from tidelake.formats.commit_metadata import CommitMetadata, WriteStat
from tidelake.formats.file_name import format_base
from tidelake.formats.plans import CompactionOperation, CompactionPlan
from tidelake.model import Action, FileSlice, TableType
from tidelake.services.service_context import ServiceContext
from tidelake.state.table_state import TableState
from tidelake.storage import MemoryStorage, Storage
from tidelake.testing import Crash, Fault, FaultyStorage
from tidelake.timeline import Publisher
from tidelake.view import AsOf

__all__ = ["KINDS", "PARTITION", "Busy", "busy", "crash_everywhere", "options"]


class Busy:
    """A toy table of which each call sees what is there by then."""

    def __init__(self, storage: MemoryStorage) -> None:
        self.storage = storage

    @property
    def toy(self) -> Toy:
        return Toy(self.storage)

    @property
    def state(self) -> TableState:
        return self.now.state

    @property
    def now(self) -> ServiceContext:
        return ServiceContext.load(environment(self.storage))

    def write(self, rows: Mapping[str, str], *, overwrite: bool = False) -> str:
        return self.toy.write(rows, overwrite=overwrite).requested_time

    def plan_compaction(self) -> str:
        """Put a plan on the timeline that merges the logs of every group."""
        now = self.now
        time = now.times.next()
        operations = [
            CompactionOperation(
                base_instant_time=found.base_instant_time,
                delta_file_paths=tuple(log.name for log in found.log_files),
                data_file_path=found.base_file.name if found.base_file else None,
                file_id=group,
                partition_path=PARTITION,
            )
            for group, found in self.toy.slices().items()
            if found.log_files
        ]
        plan = CompactionPlan(operations=tuple(operations), version=2)
        Publisher(self.storage, now.state.config).request(
            time, Action.COMPACTION, plans.encode(plan)
        )
        return time

    def run_compaction(self, time: str) -> None:
        """Carry out the plan, when nothing was written since."""
        now = self.now
        publisher = Publisher(self.storage, now.state.config)
        (instant,) = (i for i in now.state.timeline.pending if i.requested_time == time)
        plan = now.state.contents.compaction_plan(instant)
        texts = self.rows()
        stats = []
        publisher.start(time, Action.COMPACTION)
        for operation in plan.operations:
            name = format_base(
                file_id=operation.file_id,
                write_token="0-0-0",
                instant_time=time,
                extension="parquet",
            )
            data = texts[operation.file_id].encode()
            self.storage.put(f"{PARTITION}/{name}", data)
            stats.append(
                WriteStat(
                    file_id=operation.file_id,
                    path=f"{PARTITION}/{name}",
                    partition_path=PARTITION,
                    prev_commit=operation.base_instant_time,
                    file_size_in_bytes=len(data),
                )
            )
        metadata = CommitMetadata(
            partition_to_write_stats={PARTITION: tuple(stats)},
            compacted=True,
            extra_metadata={"schema": SCHEMA},
            operation_type="COMPACT",
        )
        path = publisher.completed_path(time, Action.COMMIT, now.times.next())
        self.storage.put(path, publisher.encode(metadata))

    def compact(self) -> str:
        time = self.plan_compaction()
        self.run_compaction(time)
        return time

    def rows(self) -> dict[str, str]:
        return self._texts(self.state, None)

    def rows_as_of(self, requested_time: str) -> dict[str, str]:
        """Return what a reader sees as of a completed write."""
        now = self.now
        at = AsOf(time=requested_time, basis=TimeBasis.REQUESTED)
        if now.state.by_completion_time:
            done = now.state.timeline.completion_time_of(requested_time)
            at = AsOf(time=done or "", basis=TimeBasis.COMPLETION)
        return self._texts(now.state, at)

    def _texts(self, state: TableState, as_of: AsOf | None) -> dict[str, str]:
        found = state.view.latest_slices(as_of=as_of)
        visible = {
            i.requested_time
            for i in state.timeline.writes()
            if as_of is None
            or (i.requested_time if as_of.basis is TimeBasis.REQUESTED else i.completion_time or "")
            <= as_of.time
        }
        return {s.group.file_id: self._text(s, visible) for s in found}

    def _text(self, found: FileSlice, visible: set[str]) -> str:
        return self.toy._text(found, visible)

    def history(self) -> list[tuple[str, Action]]:
        """Return every instant there ever was and that still counts, archived or not."""
        now = self.now
        archived = {(i.requested_time, i.action) for i in now.state.history.instants()}
        return sorted(
            archived | {(i.requested_time, i.action) for i in now.state.timeline.instants}
        )


def busy(table_version: int, table_type: TableType, rounds: int = 6) -> Busy:
    """Return a table that was written to `rounds` times, and compacted after every second."""
    table = Busy(new_storage(table_version, table_type))
    for n in range(rounds):
        table.write({"a-0": f"a{n}", f"g{n}-0": f"g{n}"})
        if table_type is TableType.MERGE_ON_READ and n % 2:
            table.compact()
    return table


def options(**settings: str) -> ServiceOptions:
    """Return options whose names are written with underscores, without `hoodie`."""
    given = {f"hoodie.{name.replace('_', '.')}": value for name, value in settings.items()}
    return WriteOptions.from_options(given).services


def crash_everywhere(
    storage: MemoryStorage,
    act: Callable[[Storage], object],
    check: Callable[[MemoryStorage], None],
) -> int:
    """Let `act` crash before and after each of its calls, and `check` what is left every time."""
    counting = FaultyStorage(copy.deepcopy(storage))
    act(counting)
    for number in range(1, len(counting.calls) + 1):
        for fault in (Fault.CRASH_BEFORE, Fault.CRASH_AFTER):
            left = copy.deepcopy(storage)
            try:
                act(FaultyStorage.failing_at(left, number, fault))
            except Crash:
                check(left)
    return len(counting.calls)
