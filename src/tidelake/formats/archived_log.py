"""Archive of timeline layout 1: log files whose records are the files that left the timeline."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from tidelake.errors import Malformed
from tidelake.formats import avro_file, commit_metadata, log_block, plans
from tidelake.formats.avro_schemas import ARCHIVED_META_ENTRY
from tidelake.formats.commit_metadata import CommitMetadata
from tidelake.formats.file_name import UNKNOWN_WRITE_TOKEN
from tidelake.formats.log_block import BlockKind, HeaderKey
from tidelake.model import Action, State

_NAME = re.compile(r"\.commits_\.archive\.([0-9]{1,9}).*")


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchivedEntry:
    """One timeline file as the archive keeps it.

    `transition_time` is when the instant reached `state`; None in archives of old releases.
    """

    requested_time: str
    action: Action
    state: State
    transition_time: str | None
    record: Mapping[str, Any] = field(repr=False)

    def commit_metadata(self) -> CommitMetadata:
        """Return what a completed commit, deltacommit or replacecommit wrote."""
        is_replace = self.action is Action.REPLACECOMMIT
        slot = "hoodieReplaceCommitMetadata" if is_replace else "hoodieCommitMetadata"
        raw = self.record.get(slot)
        if raw is None:
            raise Malformed(
                f"{self.action} {self.requested_time} is archived without what it wrote"
            )
        return commit_metadata.from_archive(raw)

    def clean_metadata(self) -> plans.CleanMetadata | None:
        """Return what a completed clean deleted."""
        raw = self.record.get("hoodieCleanMetadata")
        return None if raw is None else plans.from_archive(plans.CleanMetadata, raw)

    def rollback_metadata(self) -> plans.RollbackMetadata | None:
        """Return what a completed rollback undid."""
        raw = self.record.get("hoodieRollbackMetadata")
        return None if raw is None else plans.from_archive(plans.RollbackMetadata, raw)


@dataclass(frozen=True, slots=True, kw_only=True)
class TimelineFile:
    """One file of the active timeline that goes into the archive."""

    requested_time: str
    action: Action
    state: State
    transition_time: str
    content: bytes = field(repr=False)


def file_name(version: int) -> str:
    """Return the name of the archive file with this number."""
    return f".commits_.archive.{version}_{UNKNOWN_WRITE_TOKEN}"


def version_of(name: str) -> int | None:
    """Return the number of an archive file, higher is newer; None for a file of some other kind."""
    found = _NAME.fullmatch(name)
    return int(found[1]) if found else None


def decode(data: bytes) -> list[ArchivedEntry]:
    """Return the entries of an archive file in file order.

    The torn block that a crash leaves at the end of a file holds nothing that left the timeline.
    """
    entries = []
    for block in log_block.decode_blocks(data):
        if block.kind is not BlockKind.AVRO_DATA:
            continue
        if block.schema is None:
            raise Malformed(f"the block at offset {block.offset} names no schema")
        _, count, body = log_block.split_avro_block(block.content)
        records = avro_file.decode_many(body, block.schema)
        if len(records) != count:
            raise Malformed(
                f"the block at offset {block.offset} claims {count} records, it has {len(records)}"
            )
        entries += [_entry(record) for record in records]
    return entries


def encode_entry(file: TimelineFile) -> bytes:
    """Return the record of one file.

    A plan that nobody can read is left out, as its action has completed; a completed file that
    nobody can read raises `Malformed`.
    """
    return avro_file.encode_bare(ARCHIVED_META_ENTRY, _record(file))


def encode(entries: Sequence[bytes], *, batch: int) -> bytes:
    """Return an archive file with `batch` records a block; the inverse of `decode`."""
    schema = json.dumps(ARCHIVED_META_ENTRY, separators=(",", ":"))
    blocks = []
    for start in range(0, len(entries), batch):
        content = log_block.join_avro_block(entries[start : start + batch])
        headers: dict[int, str] = {HeaderKey.SCHEMA: schema}
        blocks.append(
            log_block.encode_block(BlockKind.AVRO_DATA, headers, content, is_archive=True)
        )
    return b"".join(blocks)


def _record(file: TimelineFile) -> dict[str, Any]:
    record: dict[str, Any] = {
        "commitTime": file.requested_time,
        "actionType": file.action.value,
        "actionState": file.state.value.upper(),
        "stateTransitionTime": file.transition_time,
        "version": None,
    }
    if file.state is State.COMPLETED:
        record.update(_content(file))
    else:
        with suppress(Malformed):
            record.update(_content(file))
    return record


def _content(file: TimelineFile) -> Iterator[tuple[str, Any]]:
    """Return the field of the entry that holds what the file says, and its value."""
    data, state = file.content, file.state
    is_pending = state is not State.COMPLETED
    if file.action in (Action.COMMIT, Action.DELTACOMMIT):
        found = commit_metadata.decode(data, is_pending=is_pending)
        yield "hoodieCommitMetadata", commit_metadata.to_archive(found)
    elif file.action is Action.REPLACECOMMIT and state is State.COMPLETED:
        found = commit_metadata.decode(data, is_replace=True)
        yield "hoodieReplaceCommitMetadata", commit_metadata.to_archive(found, is_replace=True)
    elif file.action is Action.REPLACECOMMIT and state is State.INFLIGHT:
        inflight = commit_metadata.decode(data, is_pending=True)
        yield "HoodieInflightReplaceMetadata", commit_metadata.to_archive(inflight)
    elif data:
        slot = _SLOTS.get((file.action, state))
        if slot is not None:
            name, kind = slot
            yield name, plans.to_archive(plans.decode(kind, data))


_SLOTS: Mapping[tuple[Action, State], tuple[str, type[Any]]] = {
    (Action.CLEAN, State.REQUESTED): ("hoodieCleanerPlan", plans.CleanerPlan),
    (Action.CLEAN, State.INFLIGHT): ("hoodieCleanerPlan", plans.CleanerPlan),
    (Action.CLEAN, State.COMPLETED): ("hoodieCleanMetadata", plans.CleanMetadata),
    (Action.COMPACTION, State.REQUESTED): ("hoodieCompactionPlan", plans.CompactionPlan),
    (Action.LOGCOMPACTION, State.REQUESTED): ("hoodieCompactionPlan", plans.CompactionPlan),
    (Action.REPLACECOMMIT, State.REQUESTED): (
        "hoodieRequestedReplaceMetadata",
        plans.RequestedReplaceMetadata,
    ),
    (Action.ROLLBACK, State.COMPLETED): ("hoodieRollbackMetadata", plans.RollbackMetadata),
    (Action.INDEXING, State.COMPLETED): ("hoodieIndexCommitMetadata", plans.IndexCommitMetadata),
}


def _entry(record: Mapping[str, Any]) -> ArchivedEntry:
    requested_time, action = record.get("commitTime"), record.get("actionType")
    state = record.get("actionState") or "COMPLETED"
    transition_time = record.get("stateTransitionTime")
    try:
        return ArchivedEntry(
            requested_time=_text(requested_time),
            action=Action(_text(action)),
            state=State(_text(state).lower()),
            transition_time=None if transition_time is None else _text(transition_time),
            record=record,
        )
    except ValueError as cause:
        raise Malformed(
            f"an archived instant has time {requested_time!r}, action {action!r}, state {state!r}"
        ) from cause


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise ValueError(f"{value!r} is no text")  # noqa: TRY004 - the caller joins it with others
    return value
