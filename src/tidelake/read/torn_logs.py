"""Telling a write that was cut off from damage done to a finished log."""

from __future__ import annotations

from collections.abc import Sequence

from tidelake.errors import CorruptFileError
from tidelake.files import TornBlock
from tidelake.formats.file_name import parse_log
from tidelake.model import Instant
from tidelake.read.state import TableState


def refuse_damaged_logs(state: TableState, torn: Sequence[TornBlock]) -> None:
    """Raise `CorruptFileError` for a torn block in a log of exactly the size that was committed.

    A log that is shorter or longer than that was cut off, or appended to by a write that was; as in
    Hudi, its torn blocks are passed over.
    """
    for block in torn:
        if block.file_bytes == _committed_bytes(state, block.path):
            raise CorruptFileError(
                block.path,
                f"no block stands at offset {block.offset}, although the file has the "
                f"{block.file_bytes} bytes that its commit wrote",
            )


def _committed_bytes(state: TableState, path: str) -> int | None:
    """Return the size that a completed write of the active timeline names for a log file."""
    for instant in _possible_writers(state, path):
        for stat in state.contents.commit_metadata(instant).write_stats:
            if stat.path == path and stat.file_size_in_bytes:
                return stat.file_size_in_bytes
    return None


def _possible_writers(state: TableState, path: str) -> Sequence[Instant]:
    writes = state.timeline.writes()
    partition, _, name = path.rpartition("/")
    log = parse_log(partition, name, 0)
    if log is None or state.config.table_version < 8:
        return writes
    return [i for i in writes if i.requested_time == log.instant_time]
