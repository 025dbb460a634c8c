"""What a query knows of a table: one load of its timeline, and everything that follows from it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone, tzinfo
from functools import cached_property

from tidelake.config import ReadOptions, TableConfig, TimeBasis
from tidelake.errors import ConfigError, MissingFileError, SchemaError, TimeTravelError, reading
from tidelake.formats.schema_history import InternalSchema, SchemaHistory
from tidelake.formats.table_schema import column_names
from tidelake.model import WRITE_ACTIONS, Action, Instant, State
from tidelake.state.committed_logs import CommittedLogs
from tidelake.state.file_statistics import FileStatistics
from tidelake.state.point_in_time import to_instant
from tidelake.storage import FileInfo, Storage
from tidelake.timeline import (
    History,
    Timeline,
    TimelineContents,
    load_schema_history,
    load_table_config,
    load_timeline,
    open_history,
    reload_timeline,
)
from tidelake.timeline.schema_history import SCHEMA_FOLDER
from tidelake.timeline.table_properties import PROPERTIES_PATH
from tidelake.timeline.table_schema import commit_with_schema, writes_in_order
from tidelake.view import AsOf, KnownFiles, Listing, StorageListing, TableView, is_by

#: Makes the listing and the statistics of a table that has a metadata table.
MetadataSource = Callable[[Storage, TableConfig, Timeline], "tuple[Listing, FileStatistics] | None"]

_SHORTEST_TIME = len("20260301101500")


@dataclass(frozen=True, slots=True, kw_only=True)
class TableSchema:
    """The table's columns at one point in time, without meta columns.

    `history` is set for tables that rename, drop or reorder columns by id.
    """

    avro: str
    history: SchemaHistory | None = None


class TableState:
    """One table at one moment; nothing in it changes when the table does."""

    def __init__(
        self,
        *,
        storage: Storage,
        config: TableConfig,
        timeline: Timeline,
        options: ReadOptions,
        metadata: MetadataSource | None = None,
        contents: TimelineContents | None = None,
        listing: Listing | None = None,
    ) -> None:
        """Take what was loaded; `contents` are those of timeline files that somebody has read.

        Files are listed by `listing`, or by what the options say.
        """
        self._listing = listing
        self.storage = storage
        self.config = config
        self.timeline = timeline
        self.options = options
        self.contents = contents or TimelineContents(storage, config)
        self._metadata = metadata

    @classmethod
    def load(
        cls, storage: Storage, options: ReadOptions, metadata: MetadataSource | None = None
    ) -> TableState:
        """Load properties and active timeline; history and files are looked at when needed."""
        config = load_table_config(storage)
        timeline = load_timeline(storage, config)
        return cls(
            storage=storage, config=config, timeline=timeline, options=options, metadata=metadata
        )

    def with_timeline(self, timeline: Timeline) -> TableState:
        """Return the table as it would be with another timeline."""
        return TableState(
            storage=self.storage,
            config=self.config,
            timeline=timeline,
            options=self.options,
            metadata=self._metadata,
        )

    @property
    def by_completion_time(self) -> bool:
        """Return whether windows and points in time mean completion times, as from version 8 on."""
        return self.config.format.has_completion_times

    @property
    def zone(self) -> tzinfo | None:
        """Return the time zone in which the timeline's digits are written, None for this machine's.

        That has an offset of its own at every moment.
        """
        return timezone.utc if self.config.timeline_timezone_utc else None

    @cached_property
    def _from_metadata(self) -> tuple[Listing, FileStatistics] | None:
        if self._metadata is None or not self.options.metadata_enable:
            return None
        return self._metadata(self.storage, self.config, self.timeline)

    @property
    def is_listed_by_metadata(self) -> bool:
        """Return whether the metadata table, which commits keep, says which files there are."""
        return self._from_metadata is not None

    @property
    def statistics(self) -> FileStatistics | None:
        """Return the column statistics of the table's files, if the table keeps any."""
        found = self._from_metadata
        return None if found is None or not self.options.data_skipping else found[1]

    @cached_property
    def view(self) -> TableView:
        """Return the table's file groups and slices."""
        listing = self._listing
        if listing is None:
            found = self._from_metadata
            listing = self.listing() if found is None else found[0]
        return self._view(listing)

    def view_of(self, files: Mapping[str, Sequence[FileInfo]]) -> TableView:
        """Return the file groups and slices that some files make, by partition."""
        return self._view(KnownFiles(files))

    def _view(self, listing: Listing) -> TableView:
        return TableView(
            table_version=self.config.table_version,
            timeline=self.timeline,
            contents=self.contents,
            listing=listing,
            history_times=self.history.completion_times,
            order=self.options.log_merge_order,
            timeline_now=lambda: reload_timeline(self.storage, self.config),
        )

    def listing(self) -> Listing:
        """Return what lies on storage, whatever the metadata table says."""
        return StorageListing(self.storage)

    @cached_property
    def committed_logs(self) -> CommittedLogs:
        """Return what completed writes say of log files."""
        return CommittedLogs(
            table_version=self.config.table_version,
            timeline=self.timeline,
            contents=self.contents,
            is_listed_by_metadata=self.is_listed_by_metadata,
        )

    @cached_property
    def history(self) -> History:
        """Return the archived instants; nothing of them is read before it is asked for."""
        return open_history(self.storage, self.config)

    def instant(self, time: str | int | datetime) -> str:
        """Return a point in time, however it is spelled, in the timeline's own digits."""
        return to_instant(time, self.zone)

    def as_of(self, time: str | int | datetime) -> AsOf:
        """Return the point in the past that `time` means, or raise `TimeTravelError`.

        From version 8 on it is a completion time, unless `time` is the requested time of a
        completed instant: people paste `_hoodie_commit_time`, and mean the table as of that commit.
        """
        at = self.instant(time)
        basis = TimeBasis.REQUESTED
        if self.by_completion_time and self.options.time_travel_basis is TimeBasis.COMPLETION:
            basis = TimeBasis.COMPLETION
            at = self._completion_of(at) or at
        self._refuse_unreachable(at, basis)
        return AsOf(time=at, basis=basis)

    def window_bound(self, time: str | int | datetime) -> str:
        """Return where a window starts or ends, however it is spelled, as this table's windows go.

        The requested time of a completed instant means the end of that, as in `as_of`.
        """
        at = self.instant(time)
        if (
            not self.by_completion_time
            or len(at) < _SHORTEST_TIME
            or any(i.completion_time == at for i in self.timeline.completed)
        ):
            return at
        return self._completion_of(at) or at

    def _completion_of(self, requested_time: str) -> str | None:
        """Return when an instant completed, archived or not; None when there is no such instant."""
        found = self.timeline.completion_time_of(requested_time)
        return found or self.view.times(requested_time)

    def _refuse_unreachable(self, at: str, basis: TimeBasis) -> None:
        writes = self.timeline.writes()
        times = [
            i.completion_time if basis is TimeBasis.COMPLETION else i.requested_time for i in writes
        ]
        earliest = min((t for t in times if t), default=None)
        if earliest is None:
            raise TimeTravelError(
                f"the table has no completed commit, so there is nothing as of {at}",
                next_step="write to the table first, or read it without a time",
            )
        if at < earliest:
            archived = self.history.completion_times()
            if basis is TimeBasis.COMPLETION and archived.has_completed_by(at):
                earliest = at
            else:
                known = archived.values() if basis is TimeBasis.COMPLETION else archived
                earliest = min([earliest, *known])
        if at < earliest:
            raise TimeTravelError(
                f"the table did not exist at {at}: its first commit is {earliest}",
                next_step=f"choose a time from {earliest} on",
            )
        retained = self.earliest_retained
        if retained is not None and at < retained and not self._is_saved(at, basis):
            saved = sorted(i.requested_time for i in self.savepoints())
            raise TimeTravelError(
                f"files as of {at} were cleaned: the table keeps its past from {retained} on"
                + (f", and as of its savepoints {', '.join(saved)}" if saved else ""),
                next_step=f"choose a time from {retained} on, or raise "
                "hoodie.clean.commits.retained for the future",
            )
        hollow = self.first_hollow_commit
        if not self.by_completion_time and hollow is not None and at >= hollow.requested_time:
            raise TimeTravelError(
                f"{hollow.action} {hollow.requested_time} is still {hollow.state}, so the table as "
                f"of {at} is not settled",
                next_step=f"choose a time before {hollow.requested_time}, or wait until that "
                "write has completed or was rolled back",
            )

    def _is_saved(self, at: str, basis: TimeBasis) -> bool:
        """Return whether the table as of `at` is that of a savepoint, whose files cleans leave.

        Raises `TimeTravelError` when somebody deleted some of them all the same.
        """
        as_of = AsOf(time=at, basis=basis)
        writes = [i for i in self.timeline.writes() if is_by(i, as_of)]
        if not writes:
            return False
        current = max(writes, key=lambda i: _time(i, basis))
        savepoint = next(
            (i for i in self.savepoints() if i.requested_time == current.requested_time), None
        )
        if savepoint is None or any(
            _time(current, basis) < _time(i, basis) <= at
            for i in self.history.instants_since(_time(current, basis))
            if i.action in WRITE_ACTIONS
        ):
            return False
        saved = self.contents.savepoint_metadata(savepoint).partition_metadata
        there = {
            file.name
            for found in self.view.latest_slices(sorted(saved), as_of=as_of)
            for file in (found.base_file, *found.log_files)
            if file is not None
        }
        lost = [n for of in saved.values() for n in of.savepoint_data_file if n not in there]
        if lost:
            raise TimeTravelError(
                f"the table as of {at} is kept by a savepoint, but its file {lost[0]} is gone",
                next_step=f"choose a time from {self.earliest_retained} on, or bring the file back "
                "from the storage's versions",
            )
        return True

    @cached_property
    def earliest_retained(self) -> str | None:
        """Return the requested time of the earliest commit whose table cleans left readable.

        Commits before it may still have all their files, but nobody promises that.
        """
        cleans = [i for i in self.timeline.completed if i.action is Action.CLEAN]
        kept = [self.contents.clean_metadata(i).earliest_commit_to_retain for i in cleans]
        if not cleans:
            archived = self.history.instants_of(Action.CLEAN)
            found = [self.history.clean_metadata(i) for i in archived[-1:]]
            kept = [clean.earliest_commit_to_retain for clean in found if clean is not None]
        return max(filter(None, [*kept, *self._being_cleaned()]), default=None)

    def _being_cleaned(self) -> Iterator[str]:
        """Return the horizons of cleans that have begun to delete and not ended."""
        for instant in self.timeline.pending:
            if instant.action is Action.CLEAN and instant.state is State.INFLIGHT:
                try:
                    kept = self.contents.clean_plan(instant).earliest_instant_to_retain
                except MissingFileError:
                    continue  # it has ended, and was archived, since the timeline was loaded
                if kept is not None:
                    yield kept.timestamp

    @property
    def first_hollow_commit(self) -> Instant | None:
        """Return the earliest pending write, plans of services left aside."""
        for instant in self.timeline.pending:
            if instant.action in (Action.COMMIT, Action.DELTACOMMIT):
                return instant
            if instant.action is Action.REPLACECOMMIT and not self.contents.is_clustering(instant):
                return instant
        return None

    def find_instant(self, requested_time: str) -> Instant:
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
        if self.by_completion_time:
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

    def writes_by_time(self) -> Sequence[Instant]:
        """Return completed writes in the order that this table version's windows go by."""
        return writes_in_order(self.config.table_version, self.timeline)

    def schema(self, as_of: AsOf | None = None) -> TableSchema:
        """Return the table's schema now or as of a point in time."""
        avro, path = self.config.create_schema, PROPERTIES_PATH
        writes = [i for i in self.writes_by_time() if as_of is None or is_by(i, as_of)]
        found = commit_with_schema(writes, self.contents)
        if as_of is not None:
            after = None if found is None else found[0]
            # Archival goes on behind a savepoint, so an archived write may be the newer one.
            archived = (commit_with_schema([i], self.history) for i in self._archived(as_of, after))
            found = next(filter(None, archived), found)
        if found is not None:
            avro = found[1]
            path = f"{self.config.timeline_folder}/{found[0].file_name}"
        if avro is None:
            raise SchemaError(
                f"no commit of {self.storage.spec.uri} records a schema yet",
                next_step="write to the table once, or set hoodie.table.create.schema",
            )
        with reading(path):
            column_names(avro)
        return TableSchema(avro=avro, history=self._schema_history(as_of))

    def _archived(self, as_of: AsOf, after: Instant | None) -> Iterator[Instant]:
        """Yield the archived writes between one and a point in the past, newest first."""
        times = self.history.completion_times()
        if as_of.basis is TimeBasis.REQUESTED:
            first = "" if after is None else after.requested_time
            found = sorted(times.within(first, f"{as_of.time}~"), reverse=True)
        else:
            first = "" if after is None else after.completion_time or ""
            later = sorted(((done, t) for t, done in times.completed_after(first).items()))
            found = [time for done, time in reversed(later) if done <= as_of.time]
        for requested_time in found:
            known = self.history.instants_at(requested_time)
            yield from (
                i for i in known if i.action in WRITE_ACTIONS and i.state is State.COMPLETED
            )

    def _schema_history(self, as_of: AsOf | None) -> SchemaHistory | None:
        versions = self._schema_versions
        if as_of is not None:
            seen = tuple(v for v in versions if self._is_version_by(v, as_of))
            versions = seen or versions[:1]
        if not versions:
            return None
        return SchemaHistory(versions=self._schema_versions, target=versions[-1])

    def _is_version_by(self, version: InternalSchema, as_of: AsOf) -> bool:
        requested_time = str(version.version_id)
        if version.version_id == 0 or as_of.basis is TimeBasis.REQUESTED:
            return version.version_id == 0 or requested_time <= as_of.time
        done = self.view.times(requested_time)
        return done is not None and done <= as_of.time

    @cached_property
    def _schema_versions(self) -> tuple[InternalSchema, ...]:
        if not self.timeline.may_have(SCHEMA_FOLDER):
            return ()
        return load_schema_history(self.storage, self.config, self.view.times.is_committed)


def _time(instant: Instant, basis: TimeBasis) -> str:
    return instant.requested_time if basis is TimeBasis.REQUESTED else instant.completion_time or ""
