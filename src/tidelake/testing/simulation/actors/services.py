"""Who keeps the table fast, and rolls back what died."""

from __future__ import annotations

from dataclasses import dataclass

from typing_extensions import override

from tidelake.config import CompactionOptions
from tidelake.env import Env
from tidelake.errors import (
    CommitOutcomeUnknownError,
    PlanCompletedError,
    PlanRemovedError,
    PlanRunningError,
    UnsupportedTableError,
)
from tidelake.formats import plans
from tidelake.model import Action
from tidelake.services.archive import archive
from tidelake.services.clean import clean
from tidelake.services.compaction import plan_compaction, planned_slices
from tidelake.services.rollback import roll_back_all_failed
from tidelake.testing.simulation.actors.sharing import EXPIRES_MS, GIVEN_UP, SERVICES, Part
from tidelake.testing.simulation.toy_rows import SCHEMA, Snapshot, read_toy_slice, write_toy_file
from tidelake.timeline import Timeline
from tidelake.txn import NoMetadataTable
from tidelake.txn.planned import find_plan, schedule, take_over


@dataclass(frozen=True, kw_only=True)
class Compacts(Part):
    """Plans compactions and carries out whatever plan waits, its own or not."""

    @override
    def __call__(self, env: Env) -> None:
        """Compact; what fails is left to the next attempt."""
        for _ in range(self.times):
            self.pause(env)
            try:
                self._plan(env)
                for instant in self._pending(env):
                    self._run(env, instant)
            except (*GIVEN_UP, PlanCompletedError, PlanRemovedError, PlanRunningError):
                continue
            except CommitOutcomeUnknownError:
                continue
            except UnsupportedTableError:
                continue  # a log that a dead writer left stands in the way

    def _plan(self, env: Env) -> None:
        snapshot = Snapshot.load(env.storage)

        def make_plan(timeline: Timeline, requested_time: str) -> bytes | None:
            now = Snapshot.load(env.storage, timeline)
            made = plan_compaction(
                now.view,
                now.contents,
                CompactionOptions(),
                table_version=now.config.table_version,
                requested_time=requested_time,
            )
            return None if made is None else plans.encode(made)

        schedule(
            env,
            snapshot.config,
            snapshot.timeline,
            action=Action.COMPACTION,
            make_plan=make_plan,
            keeper=NoMetadataTable(env),
            concurrency=self.concurrency(env),
            roll_back=False,
        )

    def _pending(self, env: Env) -> list[str]:
        pending = Snapshot.load(env.storage).timeline.pending
        return [i.requested_time for i in pending if i.planned_as is Action.COMPACTION]

    def _run(self, env: Env, requested_time: str) -> None:
        snapshot = Snapshot.load(env.storage)
        with take_over(
            env,
            snapshot.config,
            snapshot.timeline,
            requested_time=requested_time,
            action=Action.COMPACTION,
            operation="COMPACT",
            keeper=NoMetadataTable(env),
            concurrency=self.concurrency(env),
            roll_back=False,
        ) as txn:
            now = Snapshot.load(env.storage, txn.timeline)
            instant = find_plan(now.timeline, requested_time, Action.COMPACTION)
            slices = planned_slices(now.view, now.contents.compaction_plan(instant))
            txn.start()
            stats = [
                write_toy_file(
                    env,
                    now.config,
                    txn,
                    piece.group.file_id,
                    read_toy_slice(env.storage, piece),
                    before=piece,
                    as_base=True,
                )
                for piece in slices
            ]
            txn.commit(stats, schema=SCHEMA)


@dataclass(frozen=True, kw_only=True)
class Cleans(Part):
    """Cleans the table and archives its instants, and rolls back what died on the way."""

    @override
    def __call__(self, env: Env) -> None:
        """Clean; what fails is left to the next attempt."""
        for _ in range(self.times):
            self.pause(env)
            concurrency = self.concurrency(env)
            try:
                clean(env, SERVICES.clean, expires_ms=EXPIRES_MS, concurrency=concurrency)
                archive(env, SERVICES, concurrency)
            except (*GIVEN_UP, PlanCompletedError, PlanRemovedError, PlanRunningError):
                continue


@dataclass(frozen=True, kw_only=True)
class RollsBack(Part):
    """Rolls back writes that show no signs of life."""

    @override
    def __call__(self, env: Env) -> None:
        """Roll back; what fails is left to the next attempt."""
        for _ in range(self.times):
            self.pause(env)
            try:
                roll_back_all_failed(
                    env,
                    expires_ms=EXPIRES_MS,
                    concurrency=self.concurrency(env),
                )
            except GIVEN_UP:
                continue
