"""The record index: in which file group each key is."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta, timezone

from tidelake.config import TableConfig
from tidelake.errors import CorruptFileError, SnapshotLostError
from tidelake.formats.file_name import parse_log
from tidelake.formats.index_definitions import IndexDefinition
from tidelake.formats.metadata_record import RecordLocation, decode
from tidelake.metadata.file_group import (
    WAY_OUT,
    Keys,
    MetadataFileGroup,
    Prefixes,
    Stored,
    Wanted,
    reading_metadata,
)
from tidelake.metadata.freshness import built, unknown
from tidelake.metadata.names import METADATA_FOLDER, RECORD_INDEX
from tidelake.metadata.own_table import OwnTable
from tidelake.metadata.statistics import load_definitions
from tidelake.model import Action, FileGroupId, FileSlice
from tidelake.model.instant_digits import shown_moment
from tidelake.storage import Storage, StorageSpec, open_storage
from tidelake.timeline import Timeline, TimelineContents, reload_timeline
from tidelake.txn.conflicts.undone_writes import rollback_target

_DIGITS = 17


def is_index_kept(config: TableConfig, definitions: Mapping[str, IndexDefinition]) -> bool:
    """Return whether writes keep the index that the table has: not one for each partition apart."""
    definition = definitions.get(RECORD_INDEX)
    return (
        RECORD_INDEX in config.metadata_partitions
        and config.format.keeps_indexes
        and (definition is None or definition.index_options.get("isPartitioned") != "true")
    )


def epoch_ms(instant_time: str, *, is_utc: bool) -> int:
    """Return an instant's time in milliseconds since the epoch."""
    shown = shown_moment(instant_time)
    # What Hudi calls LOCAL is the zone of the process.
    moment = shown.replace(tzinfo=timezone.utc) if is_utc else shown.astimezone(timezone.utc)
    return (moment - datetime(1970, 1, 1, tzinfo=timezone.utc)) // timedelta(milliseconds=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordIndex:
    """The files of a record index as they were at one moment; it travels to tasks.

    `slices` are in the order of the numbers that keys hash to, `storage` is the metadata table's.
    """

    storage: StorageSpec
    slices: tuple[FileSlice, ...]

    def find(self, number: int, keys: Iterable[str]) -> dict[str, RecordLocation]:
        """Return where those of the keys are that file group `number` of the index has."""
        return self._find(number, Keys(keys))

    def of_logs(self, paths: Iterable[str]) -> RecordIndex:
        """Return what some log files alone say, which are not part of the index yet."""
        split = [path.rpartition("/") for path in paths]
        logs = [log for folder, _, name in split if (log := parse_log(folder, name, 0)) is not None]
        return replace(
            self,
            slices=tuple(
                replace(
                    found,
                    base_file=None,
                    log_files=tuple(log for log in logs if log.file_id == found.group.file_id),
                )
                for found in self.slices
            ),
        )

    def keys_in(self, number: int, groups: Container[FileGroupId]) -> list[str]:
        """Return the keys that file group `number` of the index has in some groups of the table."""
        return [
            key
            for key, location in self._find(number, Prefixes([""])).items()
            if FileGroupId(location.partition, location.file_id) in groups
        ]

    def _find(self, number: int, wanted: Wanted) -> dict[str, RecordLocation]:
        group = MetadataFileGroup(
            open_storage(self.storage),
            self.slices[number],
            is_visible=lambda _: True,
            may_be_torn=lambda _: False,
        )
        # One commit says the same of all keys that it brought into a file group.
        known: dict[Stored, RecordLocation | None] = {}
        found = {}
        with reading_metadata(RECORD_INDEX):
            for key, stored in group.newest(wanted).items():
                if stored not in known:
                    record = decode(stored.value, stored.schema)[1]
                    known[stored] = record if isinstance(record, RecordLocation) else None
                location = known[stored]
                if location is not None:
                    found[key] = location
        return found


def open_record_index(
    storage: Storage, config: TableConfig, timeline: Timeline
) -> RecordIndex | None:
    """Return the index of a table as `timeline` shows it, or None when it has none to look into.

    That is so as well while a write is being undone of which the index tells and the timeline no
    longer does.

    Raises `CorruptFileError` when a completed write never reached the index, and
    `SnapshotLostError` when one was taken back since the timeline was loaded.
    """
    if not is_index_kept(config, load_definitions(storage, config)):
        return None
    with reading_metadata(""):
        own = OwnTable.load(storage)
        if own is None:
            return None
        if _tells_of_undone(own, timeline, TimelineContents(storage, config)):
            return None
        missing = unknown(timeline.writes(), timeline, own.timeline, own.contents)
    if missing:
        if missing[0] not in reload_timeline(storage, config).writes():
            raise SnapshotLostError(f"{missing[0].requested_time} was taken back")
        raise CorruptFileError(
            f"{METADATA_FOLDER}/{RECORD_INDEX}",
            f"the record index does not know {missing[0].action} {missing[0].requested_time}",
            next_step=f"write with another hoodie.index.type, which makes good what is missing; or "
            f"{WAY_OUT}",
        )
    pending = timeline.pending_times
    newest = max((instant.requested_time for instant in timeline.instants), default="")
    with reading_metadata(RECORD_INDEX):
        slices = tuple(
            # What others are writing, or have written since, is no part of the table as it was.
            replace(
                found,
                log_files=tuple(
                    log
                    for log in found.log_files
                    if log.instant_time not in pending and log.instant_time <= newest
                ),
            )
            for found in own.slices(RECORD_INDEX)
        )
    return RecordIndex(storage=own.storage.spec, slices=slices) if slices else None


def _tells_of_undone(own: OwnTable, timeline: Timeline, contents: TimelineContents) -> bool:
    """Return whether the index knows a write that somebody has begun to take off the timeline."""
    there = {instant.requested_time for instant in timeline.writes()}
    told = {instant.requested_time for instant in own.timeline.writes()}
    since = built(own.timeline, own.contents)
    for instant in timeline.pending:
        if instant.action is Action.RESTORE:
            return True
        if instant.action is not Action.ROLLBACK:
            continue
        time = rollback_target(instant, contents)
        if time is None or time in there:
            continue
        if time in told or time <= since or own.timeline.is_archived(time):
            return True
    return False
