"""What a service has in its hands: the table at one moment, and what it changes it with."""

from __future__ import annotations

from dataclasses import dataclass, field

from tidelake.config import ReadOptions
from tidelake.env import Env
from tidelake.errors import RestorePendingError
from tidelake.model import Action
from tidelake.state.table_state import TableState
from tidelake.timeline.table_properties import refuse_cut
from tidelake.txn import InstantTimes, MetadataKeeper, NoMetadataTable
from tidelake.txn.concurrency import Concurrency


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceContext:
    """One table for one service; load it anew once the timeline has changed."""

    env: Env
    state: TableState
    """The table, its files listed from storage whatever the metadata table says."""
    times: InstantTimes
    keeper: MetadataKeeper
    concurrency: Concurrency = field(default_factory=Concurrency)
    """How the service shares the table with writers."""

    @classmethod
    def load(
        cls,
        env: Env,
        keeper: MetadataKeeper | None = None,
        concurrency: Concurrency | None = None,
    ) -> ServiceContext:
        """Load properties and active timeline; without `keeper` a change ends the metadata table.

        Raises `RestorePendingError` when a restore has not finished: until then it is not settled
        what the table holds.
        """
        now = cls.load_restoring(env, keeper, concurrency)
        for instant in now.state.timeline.pending:
            if instant.action is Action.RESTORE:
                raise RestorePendingError(instant.requested_time)
        return now

    @classmethod
    def load_restoring(
        cls,
        env: Env,
        keeper: MetadataKeeper | None = None,
        concurrency: Concurrency | None = None,
    ) -> ServiceContext:
        """Load the table even when a restore has not finished.

        Raises `CorruptFileError` when its properties may have been cut short.
        """
        shared = concurrency or Concurrency()
        state = TableState.load(env.storage, ReadOptions())
        refuse_cut(state.config)
        return cls(
            env=env,
            state=state,
            times=shared.times(env, state.config, state.timeline),
            keeper=keeper or NoMetadataTable(env),
            concurrency=shared,
        )
