"""The table that a service works on, as it is at one moment."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from tidelake.config import TableConfig
from tidelake.env import Env
from tidelake.errors import ConfigError, RestorePendingError
from tidelake.model import Action, Instant
from tidelake.storage import FileInfo
from tidelake.timeline import (
    History,
    Timeline,
    TimelineContents,
    load_table_config,
    load_timeline,
    open_history,
    reload_timeline,
)
from tidelake.timeline.table_properties import refuse_cut
from tidelake.txn import InstantTimes, MetadataKeeper, NoMetadataTable
from tidelake.txn.concurrency import Concurrency
from tidelake.view import KnownFiles, Listing, StorageListing, TableView


@dataclass(frozen=True, slots=True, kw_only=True)
class TableNow:
    """What a service knows of its table; load it anew once the timeline has changed."""

    env: Env
    config: TableConfig
    timeline: Timeline
    contents: TimelineContents
    history: History
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
    ) -> TableNow:
        """Load properties and active timeline; without `keeper` a change ends the metadata table.

        Raises `RestorePendingError` when a restore has not finished: until then it is not settled
        what the table holds.
        """
        now = cls.load_restoring(env, keeper, concurrency)
        for instant in now.timeline.pending:
            if instant.action is Action.RESTORE:
                raise RestorePendingError(instant.requested_time)
        return now

    @classmethod
    def load_restoring(
        cls,
        env: Env,
        keeper: MetadataKeeper | None = None,
        concurrency: Concurrency | None = None,
    ) -> TableNow:
        """Load the table even when a restore has not finished.

        Raises `CorruptFileError` when its properties may have been cut short.
        """
        shared = concurrency or Concurrency()
        config = load_table_config(env.storage)
        refuse_cut(config)
        timeline = load_timeline(env.storage, config)
        return cls(
            env=env,
            config=config,
            timeline=timeline,
            contents=TimelineContents(env.storage, config),
            history=open_history(env.storage, config),
            times=shared.times(env, config, timeline),
            keeper=keeper or NoMetadataTable(env),
            concurrency=shared,
        )

    def listing(self) -> Listing:
        """Return what lies on storage, whatever the metadata table says."""
        return StorageListing(self.env.storage)

    def view(self, files: Mapping[str, Sequence[FileInfo]] | None = None) -> TableView:
        """Return the table's file groups, those of `files` alone when they are given."""
        return TableView(
            table_version=self.config.table_version,
            timeline=self.timeline,
            contents=self.contents,
            listing=self.listing() if files is None else KnownFiles(files),
            history_times=self.history.completion_times,
            timeline_now=lambda: reload_timeline(self.env.storage, self.config),
        )

    @property
    def has_completion_times(self) -> bool:
        """Return whether slices and windows go by completion time, as from version 8 on."""
        return self.config.table_version >= 8

    def instant(self, requested_time: str) -> Instant:
        """Return the write or service on the active timeline that has this time.

        Raises `ConfigError` when there is none.
        """
        for instant in self.timeline.instants:
            if instant.requested_time == requested_time and instant.action is not Action.SAVEPOINT:
                return instant
        archived = bool(self.history.instants_at(requested_time))
        where = "is archived" if archived else "is not on the timeline"
        raise ConfigError(
            f"instant {requested_time} {where}",
            next_step="`tidelake timeline TABLE` shows the instants that there are; give the "
            "requested time of one",
        )

    def completed_after(self, write: Instant) -> Sequence[Instant]:
        """Return the writes that took effect after another, as far as they are not archived.

        Up to table version 7 that goes by requested time.
        """
        return [i for i in self.timeline.writes() if self.is_after(i, write)]

    def is_after(self, instant: Instant, write: Instant) -> bool:
        """Return whether an instant took effect after a completed write."""
        if self.has_completion_times:
            return (instant.completion_time or "") > (write.completion_time or "")
        return instant.requested_time > write.requested_time

    def late_beneath(self, savepoint: Instant) -> Sequence[Instant]:
        """Return writes that a savepoint does not name, though its time is later than theirs.

        They completed after it. Up to table version 7, where requested times count, they belong to
        the past that it stands for.
        """
        return [
            i
            for i in self.timeline.writes()
            if i.requested_time < savepoint.requested_time
            and (i.completion_time or "") > (savepoint.completion_time or "")
        ]

    def savepoints(self) -> Sequence[Instant]:
        """Return the completed savepoints."""
        return [i for i in self.timeline.completed if i.action is Action.SAVEPOINT]
