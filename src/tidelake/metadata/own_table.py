"""The metadata table as a table of its own, for whoever writes to it.

One deltacommit of it keeps this order: requested and inflight, one log file for each file group
that is touched, and then the completed file, which makes all of them count at once. Its times are
those of the instant of the table that it describes, so a crash in between is found by that name.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from typing_extensions import Self

from tidelake.config import TableConfig
from tidelake.errors import CorruptFileError, MissingFileError, TidelakeError, reading
from tidelake.formats.commit_metadata import CommitMetadata, WriteStat
from tidelake.formats.file_name import format_log, parse_base, parse_log
from tidelake.formats.instant_name import InstantName
from tidelake.formats.log_block import block_instants
from tidelake.formats.metadata_log import encode_log
from tidelake.formats.metadata_record import file_group_of
from tidelake.formats.metadata_schema import record_schema_text
from tidelake.metadata.file_group import WAY_OUT
from tidelake.metadata.names import FILES, METADATA_FOLDER, group_file_id, is_build
from tidelake.metadata.own_config import load_own_timeline
from tidelake.model import Action, FileGroupId, FileSlice, State
from tidelake.storage import Storage
from tidelake.timeline import (
    Publisher,
    Timeline,
    TimelineContents,
    load_history_times,
    load_timeline,
    reload_timeline,
)
from tidelake.txn import InstantTimes
from tidelake.txn.protocol.fenced_publish import start_requested
from tidelake.view import StorageListing, TableView

#: The metadata table has one writer, whose retries overwrite their files.
WRITE_TOKEN = "0-0-0"
#: The numbers of Spark's stages, which stand in the middle of a token, are smaller.
STAGES = 2**31
UPSERT = "UPSERT_PREPPED"

#: Values by key, None for one that is to go, by partition of the metadata table.
Updates = Mapping[str, Mapping[str, "bytes | None"]]


@dataclass(frozen=True, slots=True, kw_only=True)
class LogToWrite:
    """A log file that does not exist yet; on version 6 `before` is the slice that it joins."""

    partition: str
    name: str
    version: int
    before: FileSlice | None
    content: bytes
    records: int

    @property
    def path(self) -> str:
        """Return the path inside of the metadata table."""
        return f"{self.partition}/{self.name}"

    def renumbered(self) -> LogToWrite:
        """Return the same log under the next version of its name."""
        found = parse_log(self.partition, self.name, 0)
        assert found is not None  # it was spelt by us
        name = format_log(
            file_id=found.file_id,
            instant_time=found.instant_time,
            version=self.version + 1,
            write_token=found.write_token,
        )
        return replace(self, name=name, version=self.version + 1)


class OwnTable:
    """The metadata table's timeline and files, as they were when it was loaded."""

    def __init__(self, storage: Storage, config: TableConfig, timeline: Timeline) -> None:
        self.storage = storage
        self.config = config
        self.timeline = timeline
        self.publisher = Publisher(storage, config)
        self.contents = TimelineContents(storage, config)

    @classmethod
    def load(cls, table: Storage, layout: TableConfig | None = None) -> Self | None:
        """Return the metadata table of the table in that storage, or None when none lies there.

        `layout` are the settings of the table, of whose layout its metadata table is as well: its
        timeline is listed while its own settings are read.
        """
        found = load_own_timeline(table, layout)
        return None if found is None else cls(*found)

    def refuse_split(self) -> None:
        """Raise `UnsupportedTableError` when an upgrade has left half of the timeline elsewhere.

        That is asked where something is missing that the table has completed.
        """
        load_timeline(self.storage, self.config)

    def reloaded(self) -> OwnTable:
        """Return the same table as it is now."""
        return OwnTable(self.storage, self.config, reload_timeline(self.storage, self.config))

    @property
    def schema(self) -> str:
        """Return the schema of the records that we write."""
        return record_schema_text(self.config.table_version)

    @property
    def names_logs_by_slice(self) -> bool:
        """Return whether log files are named after the slice that they belong to."""
        return not self.config.format.has_own_logs

    @cached_property
    def view(self) -> TableView:
        """Return the metadata table's own files."""
        return TableView(
            table_version=self.config.table_version,
            timeline=self.timeline,
            contents=self.contents,
            listing=StorageListing(self.storage),
            history_times=lambda: load_history_times(self.storage, self.config),
            timeline_now=lambda: reload_timeline(self.storage, self.config),
        )

    def slices(self, partition: str) -> Sequence[FileSlice]:
        """Return the newest slice of every file group of a partition, ordered by file id."""
        found = self.view.latest_slices([partition])
        return sorted(found, key=lambda s: s.group.file_id)

    def file_ids(self, partition: str) -> Sequence[str]:
        """Return the ids of the file groups of a partition, without a look at their slices."""
        found = (
            parse_base(partition, file.name, 0) or parse_log(partition, file.name, 0)
            for file in self.storage.list(partition).files
        )
        is_committed = self.view.times.is_committed
        return sorted({f.file_id for f in found if f is not None and is_committed(f.instant_time)})

    def commit(
        self,
        instant_time: str,
        updates: Updates,
        times: InstantTimes,
        written: Sequence[WriteStat] = (),
        *,
        is_begun: bool = False,
    ) -> bool:
        """Write a deltacommit with these records; what an earlier attempt left is replaced.

        `written` are log files of it that are there already. One that `is_begun` has nothing else.
        Return what `publish` does.
        """
        # Who was stopped for long may find a table that others have built anew since it looked.
        times.ensure_lasting()
        if not is_begun:
            if self.has(instant_time):
                self.forget(instant_time, times, but={stat.path for stat in written})
            self.begin(instant_time)
        logs = [
            self._put(log)
            for partition in sorted(updates)
            for log in self._logs(partition, updates[partition], instant_time)
        ]
        stats = [_stat(log, instant_time) for log in logs]
        stats += [replace(stat, **ZEROS) for stat in written]
        return self.complete(instant_time, Action.DELTACOMMIT, stats, times)

    def _put(self, log: LogToWrite) -> LogToWrite:
        """Write a log file and return it, under another name when somebody else has taken its own.

        Where logs are named after their slice, a process that was stopped for long must not replace
        what others have written since it looked.
        """
        if not self.names_logs_by_slice:
            # On conditions, so that a request of an earlier attempt which comes late fails.
            while not self.storage.put_if_absent(log.path, log.content):
                with suppress(MissingFileError):
                    left = self.storage.read_tagged(log.path)
                    if self.storage.put_if_tagged(log.path, log.content, left.tag) is not None:
                        break
            return log
        while not self.storage.put_if_absent(log.path, log.content):
            log = log.renumbered()
        return log

    def next_time(self, times: InstantTimes) -> str:
        """Return a time that nothing on the metadata table's own timeline has reached.

        Its services may have run for a write that then failed, on a machine whose clock was ahead:
        a log that completed before their base file would count as part of it.
        """
        times.see(self.timeline)
        return times.next()

    def begin(self, instant_time: str) -> None:
        """Put a deltacommit on the timeline, so that whoever takes it off finds its files."""
        self.publisher.request(instant_time, Action.DELTACOMMIT)
        self.publisher.start(instant_time, Action.DELTACOMMIT)

    def begin_service(
        self, instant_time: str, action: Action, plan: bytes, times: InstantTimes
    ) -> None:
        """Put a service on the timeline; raise `LockLostError` when others may have come in."""
        times.ensure()
        self.publisher.request(instant_time, action, plan)
        start_requested(self.publisher, instant_time, action)
        times.ensure()

    def complete(
        self,
        instant_time: str,
        action: Action,
        stats: Sequence[WriteStat],
        times: InstantTimes,
        operation: str = UPSERT,
    ) -> bool:
        """Publish the completed file of an instant; return what `publish` does."""
        by_partition: dict[str, tuple[WriteStat, ...]] = {}
        for stat in stats:
            partition = stat.partition_path or ""
            by_partition[partition] = (*by_partition.get(partition, ()), stat)
        schema = record_schema_text(self.config.table_version, with_meta_columns=False)
        metadata = CommitMetadata(
            partition_to_write_stats=by_partition,
            compacted=action is Action.COMMIT,
            extra_metadata={"schema": schema},
            operation_type=operation,
        )
        path = self.publisher.completed_path(instant_time, action, self.next_time(times))
        if action is Action.DELTACOMMIT:
            times.ensure_lasting()
        else:
            times.ensure()
        return self.publish(path, self.publisher.encode(metadata), times)

    def publish(self, path: str, content: bytes, times: InstantTimes) -> bool:
        """Put a completed file, and take it back when others may have come in before it appeared.

        They may have built the table anew, with an instant of the same time: what lies there then
        is theirs. Return whether the lock was looked at behind the file, which is there already
        where an attempt left it.
        """
        if not self.storage.put_if_absent(path, content):
            return False
        try:
            times.ensure()
        except TidelakeError:
            with suppress(MissingFileError):
                if self.storage.read(path) == content:
                    self.storage.delete(path)
            raise
        return True

    def has(self, instant_time: str) -> bool:
        """Return whether any file of the instant's deltacommit is on the timeline."""
        return bool(self._timeline_files(instant_time, Action.DELTACOMMIT))

    def forget(
        self,
        instant_time: str,
        times: InstantTimes,
        action: Action = Action.DELTACOMMIT,
        *,
        but: Set[str | None] = frozenset(),
    ) -> None:
        """Take an instant off the table with all that it wrote, the completed file first."""
        names = self._timeline_files(instant_time, action)
        completed = [name for name, state in names.items() if state is State.COMPLETED]
        paths = self._files_of(instant_time, action, is_completed=bool(completed))
        # Others that came in may have made the same files anew.
        times.ensure()
        self.publisher.remove(completed)
        self.storage.delete_all([path for path in paths if path not in but])
        self.publisher.remove(name for name in names if name not in completed)

    def delete_strays(self, partition: str, instant_time: str, wanted: Set[str | None]) -> None:
        """Delete the logs of an instant that tasks wrote which were retried or ran twice."""
        for file in self.storage.list(partition).files:
            log = parse_log(partition, file.name, 0)
            if log is not None and log.instant_time == instant_time and log.path not in wanted:
                self.storage.delete(log.path)

    def has_logs_named(self, instant_time: str) -> bool:
        """Return whether log files belong to a slice of that time, on table versions up to 7."""
        return self.names_logs_by_slice and any(
            log is not None and log.instant_time == instant_time
            for partition in self.storage.list("").folders
            for file in self.storage.list(partition).files
            for log in [parse_log(partition, file.name, 0)]
        )

    def _files_of(self, instant_time: str, action: Action, *, is_completed: bool) -> list[str]:
        if is_completed:
            found = (
                i
                for i in self.timeline.completed
                if i.requested_time == instant_time and i.action is action.completed_as
            )
            return [
                stat.path
                for instant in found
                for stat in self.contents.commit_metadata(instant).write_stats
                if stat.path is not None
            ]
        has_bases, has_logs = _written_by(action, instant_time)
        paths = []
        for partition in self.storage.list("").folders if has_bases or has_logs else ():
            for file in self.storage.list(partition).files:
                log = parse_log(partition, file.name, 0) if has_logs else None
                base = parse_base(partition, file.name, 0) if has_bases else None
                if base is not None and base.instant_time == instant_time:
                    paths.append(base.path)
                elif log is not None and self._is_of(log.path, log.instant_time, instant_time):
                    paths.append(log.path)
        return paths

    def _is_of(self, path: str, named: str, instant_time: str) -> bool:
        """Return whether a log file is of an instant that did not get to say what it wrote."""
        if not self.names_logs_by_slice:
            return named == instant_time
        # The name says the slice; and where storage can append, others may have written there too.
        with self.storage.open(path) as file, reading(path):
            return block_instants(file) == {instant_time}

    def _timeline_files(self, instant_time: str, action: Action) -> Mapping[str, State]:
        found = {}
        for file_name in self.timeline.file_names:
            name = InstantName.parse(file_name, self.config.layout_version)
            if (
                name is not None
                and name.requested_time == instant_time
                and name.action.completed_as is action.completed_as
            ):
                found[file_name] = name.state
        return found

    def _logs(
        self, partition: str, values: Mapping[str, bytes | None], instant_time: str
    ) -> list[LogToWrite]:
        ids, slices = self._file_groups(partition)
        by_group: dict[int, dict[str, bytes | None]] = {}
        for key, value in values.items():
            by_group.setdefault(file_group_of(key, len(ids)), {})[key] = value
        return [
            self._log(FileGroupId(partition, ids[at]), slices[at], by_group[at], instant_time)
            for at in sorted(by_group)
        ]

    def lost_partitions(self, partitions: Iterable[str]) -> list[str]:
        """Return the partitions without a file group that a log could go to.

        Where logs have names of their own, that is not looked at.
        """
        return [p for p in partitions if self.names_logs_by_slice and not self.slices(p)]

    def _file_groups(self, partition: str) -> tuple[Sequence[str], Sequence[FileSlice | None]]:
        """Return the ids of file groups, and where logs are named after slices, their slices."""
        if partition == FILES and not self.names_logs_by_slice:
            # It has one file group in every table, so there is nothing to look at.
            return [group_file_id(FILES, 0)], [None]
        if self.names_logs_by_slice:
            slices = self.slices(partition)
            ids: Sequence[str] = [one.group.file_id for one in slices]
        else:
            slices, ids = (), self.file_ids(partition)
        if not ids:
            raise CorruptFileError(
                f"{METADATA_FOLDER}/{partition}",
                "it has no file that a completed instant of the metadata table wrote",
                next_step=WAY_OUT,
            )
        return ids, slices or [None] * len(ids)

    def _log(
        self,
        group: FileGroupId,
        before: FileSlice | None,
        values: Mapping[str, bytes | None],
        instant_time: str,
    ) -> LogToWrite:
        version, named, token = 1, instant_time, WRITE_TOKEN
        if self.names_logs_by_slice and before is not None:
            version = 1 + max((log.version for log in before.log_files), default=0)
            named = before.base_instant_time
            # Who was stopped while it deleted a log of another instant must not hit this one.
            token = f"0-{int(instant_time) % STAGES}-0"
        name = format_log(
            file_id=group.file_id, instant_time=named, version=version, write_token=token
        )
        return LogToWrite(
            partition=group.partition,
            name=name,
            version=version,
            before=before if self.names_logs_by_slice else None,
            content=encode_log(
                {key.encode(): value for key, value in values.items()},
                self.schema,
                instant_time,
                group.partition,
            ),
            records=len(values),
        )


def _written_by(action: Action, instant_time: str) -> tuple[bool, bool]:
    """Return whether an action writes base files, and whether it writes logs.

    A service and a deltacommit may have the same time, when the one or the other was begun by
    somebody who had lost the lock: what the one leaves behind is no word on the other's files.
    """
    if action.completed_as is Action.COMMIT:
        return True, False
    return is_build(instant_time), action is Action.DELTACOMMIT


def _stat(log: LogToWrite, instant_time: str) -> WriteStat:
    found = parse_log(log.partition, log.name, 0)
    assert found is not None  # the name has just been spelt
    previous, base_file = instant_time, ""
    logs: tuple[str, ...] = (log.name,)
    if log.before is not None:
        previous = log.before.base_instant_time
        base_file = log.before.base_file.name if log.before.base_file else ""
        logs = (*(other.name for other in log.before.log_files), log.name)
    return WriteStat(
        file_id=found.file_id,
        path=log.path,
        prev_commit=previous,
        num_writes=log.records,
        num_update_writes=log.records,
        num_inserts=0,
        num_deletes=0,
        partition_path=log.partition,
        total_write_bytes=len(log.content),
        file_size_in_bytes=len(log.content),
        log_version=log.version,
        log_offset=0,
        base_file=base_file,
        log_files=logs,
        **ZEROS,
    )


#: Counters of a stat that the metadata table has no use for.
ZEROS: Mapping[str, Any] = {
    "total_write_errors": 0,
    "total_log_records": 0,
    "total_log_files_compacted": 0,
    "total_log_size_compacted": 0,
    "total_updated_records_compacted": 0,
    "total_log_blocks": 0,
    "total_corrupt_log_block": 0,
    "total_rollback_blocks": 0,
    "total_log_read_time_ms": 0,
    "num_updates": 0,
}
