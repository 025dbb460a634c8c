"""Who clusters the table as Apache Hudi does; our writers have to live with it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from typing_extensions import override

from tidelake.config import WriteOperation
from tidelake.env import Env
from tidelake.errors import MissingFileError
from tidelake.files.write_task import GroupTarget, WriteKind
from tidelake.formats import plans
from tidelake.formats.plans import (
    ClusteringGroup,
    ClusteringPlan,
    RequestedReplaceMetadata,
    SliceInfo,
)
from tidelake.model import Action, FileSlice
from tidelake.operations.write_session import WriteSession
from tidelake.read.scan import block_filter, slice_tasks
from tidelake.state.table_state import TableState
from tidelake.testing.simulation.actors.sharing import Repeats
from tidelake.testing.simulation.toy_rows import Rows, read_toy_slice, toy_columns, write_toy_file
from tidelake.timeline import Timeline
from tidelake.txn import schedule, take_over
from tidelake.txn.conflicts.candidates import clustered_groups, is_clustering

_OPERATION = "CLUSTER"
_FIRST_NAMED = 8


@dataclass(frozen=True, kw_only=True)
class Clusters(Repeats):
    """Plans to bring the rows of a partition together in one new file group, and does it."""

    @override
    def act(self, env: Env) -> None:
        session = self.sharing.session(env)
        state = session.state
        waiting = [i for i in state.timeline.pending if is_clustering(i, state.contents)]
        if waiting:
            self._carry_out(env, waiting[0].requested_time)
            return
        partition = f"p{self.chance.randrange(self.sharing.partitions)}"
        requested_time = schedule(
            env,
            session.config,
            state.timeline,
            action=_action(session),
            make_plan=lambda timeline, _: _planned(state, timeline, partition),
            keeper=session.keeper,
            concurrency=session.concurrency,
            roll_back=False,
        )
        self.linger(env)
        if requested_time is not None:
            self._carry_out(env, requested_time)

    def _carry_out(self, env: Env, requested_time: str) -> None:
        session = self.sharing.session(env)
        with take_over(
            env,
            session.config,
            session.state.timeline,
            requested_time=requested_time,
            action=_action(session),
            operation=_OPERATION,
            keeper=session.keeper,
            concurrency=session.concurrency,
            roll_back=False,
        ) as txn:
            txn.start()
            state = _at(session.state, txn.timeline)
            slices = _inputs(state, requested_time)
            if not slices:
                raise MissingFileError(requested_time)
            rows: Rows = {}
            for task in slice_tasks(state, slices):
                self.linger(env)
                rows |= read_toy_slice(env.storage, task, block_filter(state, None))
            partition = slices[0].group.partition
            target = GroupTarget(
                partition=partition,
                file_id=f"{env.ids.new()}-0",
                kind=WriteKind.CREATE,
                base_path=None,
                base_instant=None,
                partition_known=True,
            )
            choice = session.choose(WriteOperation.INSERT, toy_columns(), None)
            stat = write_toy_file(env, session.spec(txn, choice), target, rows)
            self.linger(env)
            txn.commit([stat], schema="", replaced={partition: [s.group.file_id for s in slices]})


def _action(session: WriteSession) -> Action:
    """Return what the table's version calls a clustering."""
    is_named = session.config.table_version >= _FIRST_NAMED
    return Action.CLUSTERING if is_named else Action.REPLACECOMMIT


def _at(state: TableState, timeline: Timeline) -> TableState:
    return TableState(
        storage=state.storage, config=state.config, timeline=timeline, options=state.options
    )


def _planned(state: TableState, timeline: Timeline, partition: str) -> bytes | None:
    """Return a plan for all that a partition has and no other plan names; None for nothing."""
    now = _at(state, timeline)
    taken = clustered_groups(timeline, now.contents)
    pieces = tuple(
        SliceInfo(file_id=found.group.file_id, partition_path=partition)
        for found in now.view.latest_slices([partition])
        if found.group not in taken and not now.view.pending_compactions(found.group)
    )
    if not pieces:
        return None
    plan = ClusteringPlan(input_groups=(ClusteringGroup(slices=pieces),))
    return plans.encode(RequestedReplaceMetadata(operation_type=_OPERATION, clustering_plan=plan))


def _inputs(state: TableState, requested_time: str) -> Sequence[FileSlice]:
    """Return the slices that a plan names, as they are now: nobody may write to them meanwhile."""
    plan = next(i for i in state.timeline.pending if i.requested_time == requested_time)
    made = state.contents.clustering_plan(plan)
    named = [
        (piece.partition_path or "", piece.file_id)
        for group in (made.input_groups if made else ())
        for piece in group.slices
    ]
    slices = state.view.latest_slices(sorted({partition for partition, _ in named}))
    return [s for s in slices if (s.group.partition, s.group.file_id) in named]
