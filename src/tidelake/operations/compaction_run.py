"""Compactions of one table: planned on the driver, carried out where the files are."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass, replace

from tidelake.config import FailedWritesPolicy, ProgressStyle, TimeBasis, WriteOptions
from tidelake.config.keys import write_keys
from tidelake.env import Env
from tidelake.errors import (
    CorruptFileError,
    InstantLostError,
    PlanCompletedError,
    TidelakeError,
)
from tidelake.files import BlockFilter, SliceTask, WriteSpec, WriteToken
from tidelake.files.compact_slice import compact_slice
from tidelake.formats import plans
from tidelake.formats.commit_metadata import WriteStat
from tidelake.formats.plans import CompactionPlan
from tidelake.model import Action, Commit, Instant, TableType
from tidelake.operations.progress import Progress
from tidelake.operations.task_runner import TaskRunner
from tidelake.operations.write_session import WriteSession
from tidelake.read.scan import block_filter, slice_tasks
from tidelake.services.compaction import (
    is_due,
    plan_compaction,
    planned_slices,
    refuse_uncompactable,
)
from tidelake.state.table_state import TableSchema, TableState
from tidelake.timeline import Timeline
from tidelake.txn import Transaction, completed_commit, find_plan, schedule, take_over
from tidelake.view import AsOf, Listing, StorageListing
from tidelake.write.schema_evolution import without_meta_columns
from tidelake.write.spec import write_spec

_log = logging.getLogger(__name__)

_OPERATION = "COMPACT"


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionWork:
    """What a worker is told besides the slice: how files are written, and which blocks count."""

    spec: WriteSpec
    blocks: BlockFilter

    def run(self, task: SliceTask, token: WriteToken) -> WriteStat:
        """Fold the logs of the slice into a base file."""
        return compact_slice(task, token.of_owner(self.spec.owner), self.spec, self.blocks)


class Compactor:
    """Compacts one table; each step looks at the table anew."""

    def __init__(
        self,
        env: Env,
        load: Callable[[], TableState],
        options: WriteOptions,
        runner: TaskRunner,
    ) -> None:
        self._env = env
        self._load = load
        self._options = options
        self._chosen = options.services.compaction
        self._runner = runner

    def schedule(self, *, only_if_due: bool = False) -> str | None:
        """Put a plan on the timeline and return its instant; None: there is nothing to do.

        A call is reason enough, unless `only_if_due` or the options name a trigger.
        """
        return self._scheduled(self._session(), only_if_due=only_if_due)[0]

    def _scheduled(
        self, session: WriteSession, *, only_if_due: bool = False
    ) -> tuple[str | None, Listing | None]:
        """Do what `schedule` does; return the files that the plan was made of as well."""
        listing: Listing | None = None

        def make_plan(timeline: Timeline, requested_time: str) -> bytes | None:
            nonlocal listing
            # Each time anew: what completed before the time of the plan has to be in it.
            listing = StorageListing(session.state.storage)
            state = _state(session.state, timeline, listing)
            made = self._made(session, state, requested_time, only_if_due=only_if_due)
            return None if made is None else plans.encode(made)

        planned = schedule(
            self._env,
            session.config,
            session.state.timeline,
            action=Action.COMPACTION,
            make_plan=make_plan,
            keeper=session.keeper,
            concurrency=session.concurrency,
            roll_back=self._options.failed_writes is FailedWritesPolicy.EAGER,
            use_markers=self._options.rollback_using_markers,
        )
        return planned, listing

    def _made(
        self, session: WriteSession, state: TableState, requested_time: str, *, only_if_due: bool
    ) -> CompactionPlan | None:
        must_be_due = only_if_due or self._chosen.is_trigger_given
        if must_be_due and not is_due(state.timeline, self._chosen, at=requested_time):
            return None
        return plan_compaction(
            state.view,
            state.contents,
            self._chosen,
            table_version=session.config.table_version,
            requested_time=requested_time,
        )

    def pending(self) -> Sequence[Instant]:
        """Return the compactions that wait to be carried out, oldest first."""
        return _pending(self._session())

    def inline(self) -> None:
        """Do what a write asks for once it has committed; what fails leaves a warning."""
        caught: tuple[type[Exception], ...] = (TidelakeError, *self._runner.failures)
        try:
            if self._chosen.inline:
                self.run_pending()
            if self._chosen.inline or self._chosen.schedule_inline:
                planned = self.schedule(only_if_due=True)
                if planned is not None and self._chosen.inline:
                    self._run_planned(planned)
        except caught as cause:
            _log.warning("the write has committed, but the compaction after it failed: %s", cause)

    def both(self) -> Commit | None:
        """Carry out every plan that waits, oldest first, then plan the rest and carry that out.

        Return the last commit made, None when there was nothing to do.
        """
        session = self._session()
        waiting = _pending(session)
        commit = self._run_all(waiting)
        # The files that the plan was made of need not be listed again to carry it out.
        planned, listing = self._scheduled(self._session() if waiting else session)
        return commit if planned is None else self._run_planned(planned, listing)

    def run_pending(self) -> Commit | None:
        """Carry out every plan, oldest first; return the last commit made."""
        return self._run_all(self.pending())

    def _run_all(self, waiting: Sequence[Instant]) -> Commit | None:
        commit = None
        for instant in waiting:
            commit = self._run_planned(instant.requested_time)
        return commit

    def run(self, requested_time: str, listing: Listing | None = None) -> Commit:
        """Carry out a plan, ours or Apache Hudi's; `listing` tells the files that it was made of.

        Raises `PlanRemovedError` and `PlanCompletedError` when there is no such plan to run, and
        `MissingFileError` and `CorruptFileError` when it cannot be carried out; the plan stays, and
        the table is as it was. When somebody else completes it meanwhile, that commit is returned.
        """
        session = self._session()
        # What is wrong with the plan is known before anything is done.
        instant = find_plan(session.state.timeline, requested_time, Action.COMPACTION)
        _readable_plan(session.state, instant)
        try:
            with take_over(
                self._env,
                session.config,
                session.state.timeline,
                requested_time=requested_time,
                action=Action.COMPACTION,
                operation=_OPERATION,
                keeper=session.keeper,
                concurrency=session.concurrency,
                roll_back=self._options.failed_writes is FailedWritesPolicy.EAGER,
                use_markers=self._options.rollback_using_markers,
                contents=session.state.contents,
            ) as txn:
                return self._carried_out(session, txn, instant, listing)
        except (InstantLostError, PlanCompletedError):
            done = self._done_by_others(requested_time)
            if done is None:
                raise
            return done

    def _run_planned(self, requested_time: str, listing: Listing | None = None) -> Commit:
        """Carry out a plan that was pending a moment ago."""
        try:
            return self.run(requested_time, listing)
        except PlanCompletedError:
            done = self._done_by_others(requested_time)
            if done is None:
                raise
            return done

    def _done_by_others(self, requested_time: str) -> Commit | None:
        state = self._load()
        return completed_commit(state.timeline, state.contents, requested_time)

    def _carried_out(
        self,
        session: WriteSession,
        txn: Transaction,
        instant: Instant,
        listing: Listing | None = None,
    ) -> Commit:
        state = _state(session.state, txn.timeline, listing)
        slices = planned_slices(state.view, state.contents.compaction_plan(instant))
        tasks = slice_tasks(state, slices)
        schema = _schema(state, txn.instant_time)
        avro = without_meta_columns(schema.avro)
        work = CompactionWork(
            spec=replace(
                write_spec(
                    txn.config,
                    self._options,
                    state.storage.spec,
                    schema=avro,
                    history=schema.history,
                    instant_time=txn.instant_time,
                    marker_folder=txn.marker_folder,
                    combine=False,
                    bounded_columns=session.keeper.bounded_columns(txn.config),
                ),
                owner=txn.owner,
                waits=self._runner.waits,
                # What changed was logged, or can be told, by the writes that changed it.
                cdc=None,
            ),
            blocks=block_filter(state, AsOf(time=txn.instant_time, basis=TimeBasis.REQUESTED)),
        )
        txn.start()
        stats: list[WriteStat] = []
        with (
            self._progress(f"compaction {txn.instant_time}", tasks) as progress,
            # Closed, so that no task is left running when the attempt is rolled back.
            closing(self._runner.run(tasks, work)) as results,
        ):
            for task, stat in results:
                stats.append(stat)
                progress.add(files=1, size_bytes=_bytes(task))
        return session.commit(txn, stats, avro)

    def _progress(self, what: str, tasks: Sequence[SliceTask]) -> Progress:
        return Progress(
            what,
            files=len(tasks),
            size_bytes=sum(map(_bytes, tasks)),
            clock=self._env.clock,
            style=write_keys.PROGRESS.word(self._options.settings, ProgressStyle)
            or ProgressStyle.AUTO,
        )

    def _session(self) -> WriteSession:
        session = WriteSession(self._env, self._load(), self._options)
        refuse_uncompactable(session.config)
        return session


def inline_compaction(
    env: Env, state: TableState, options: WriteOptions, runner: TaskRunner
) -> Callable[[], None] | None:
    """Return what a write of the table has to do about compactions afterwards, None: nothing."""
    chosen = options.services.compaction
    if state.config.table_type is not TableType.MERGE_ON_READ:
        return None
    if not (chosen.inline or chosen.schedule_inline):
        return None
    return Compactor(
        env, lambda: TableState.load(state.storage, state.options), options, runner
    ).inline


def _pending(session: WriteSession) -> list[Instant]:
    pending = session.state.timeline.pending
    return [i for i in pending if i.planned_as is Action.COMPACTION]


def _readable_plan(state: TableState, instant: Instant) -> CompactionPlan:
    try:
        return state.contents.compaction_plan(instant)
    except CorruptFileError as cause:
        raise CorruptFileError(
            cause.path,
            cause.cause,
            next_step="restore the file from a backup; a plan that nobody began to carry out may "
            "also be deleted, and scheduled anew",
        ) from cause


def _state(state: TableState, timeline: Timeline, listing: Listing | None) -> TableState:
    """Return the table with another timeline, files listed from storage and read as they are."""
    return TableState(
        storage=state.storage,
        config=state.config,
        timeline=timeline,
        options=replace(state.options, partition_values_from_path=False),
        contents=state.contents,
        listing=listing,
    )


def _schema(state: TableState, requested_time: str) -> TableSchema:
    """Return the columns of the new base files: the table's own, as new as can be.

    Files of a table that follows its columns by id are understood by the schema of their instant.
    """
    found = state.schema()
    if found.history is None:
        return found
    return state.schema(AsOf(time=requested_time, basis=TimeBasis.REQUESTED))


def _bytes(task: SliceTask) -> int:
    return task.base_size_bytes + task.log_size_bytes
