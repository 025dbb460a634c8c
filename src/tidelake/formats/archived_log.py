"""Archive of timeline layout 1: log files whose records are the files that left the timeline."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tidelake.errors import Malformed
from tidelake.formats import avro_file, commit_metadata, log_block, plans
from tidelake.formats.commit_metadata import CommitMetadata
from tidelake.formats.log_block import BlockKind
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
        return CommitMetadata() if raw is None else commit_metadata.from_archive(raw)

    def clean_metadata(self) -> plans.CleanMetadata | None:
        """Return what a completed clean deleted."""
        raw = self.record.get("hoodieCleanMetadata")
        return None if raw is None else plans.from_archive(plans.CleanMetadata, raw)


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
