"""Whether a file holds what its name says, or was put in the place of another.

Rows name their file in `_hoodie_file_name`, which the statistics of a footer repeat, and the blocks
of a log name the instant that wrote them. Both are read anyway before any row is.
"""

from __future__ import annotations

from collections.abc import Iterable

from tidelake.errors import Malformed
from tidelake.formats.file_name import parse_log
from tidelake.formats.log_block import BlockKind, HeaderKey, LogBlock


def other_file(path: str, row_file_names: Iterable[str]) -> str | None:
    """Return the name of another file that rows of the base file at `path` say they are in.

    Rows that came from logs have the id of their file group there, with which a name begins.
    """
    own = path.rpartition("/")[2]
    return min((name for name in row_file_names if not own.startswith(name)), default=None)


def other_write(path: str, blocks: Iterable[LogBlock]) -> str | None:
    """Return the instant of a block in the log at `path`, unless it is the one in its name."""
    log = parse_log("", path.rpartition("/")[2], 0)
    if log is None:
        return None
    times = (b.headers.get(HeaderKey.INSTANT_TIME) for b in blocks if _has_instant(b))
    return min((t for t in times if t is not None and t != log.instant_time), default=None)


def refuse_blocks_of_another(path: str, blocks: Iterable[LogBlock]) -> None:
    """Raise `Malformed` when blocks of a log are of another instant than that in its name."""
    other = other_write(path, blocks)
    if other is not None:
        raise Malformed(f"holds blocks of instant {other}: one log was put in another's place")


def _has_instant(block: LogBlock) -> bool:
    return block.kind is not BlockKind.CORRUPT and bool(block.headers)
