"""How many rows go to which file: small files are filled up first, then new ones are begun."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tidelake.config import WriteOptions
from tidelake.formats.commit_metadata import CommitMetadata

#: Commits that wrote less than this say more about footers than about rows.
_TELLING_BYTES = 8 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """So many of a partition's new rows go to one file group."""

    file_id: str
    rows: int
    is_new: bool


def record_size(newest_first: Iterable[CommitMetadata], options: WriteOptions) -> int:
    """Return the bytes that a row takes in a base file, from the newest commit that tells."""
    for metadata in newest_first:
        files = [s for s in metadata.write_stats if s.log_version is None]
        size_bytes = sum(s.total_write_bytes or 0 for s in files)
        rows = sum(s.num_writes or 0 for s in files)
        if size_bytes >= _TELLING_BYTES and rows:
            return max(1, size_bytes // rows)
    return options.record_size_bytes


def share_out(
    rows: int,
    small: Sequence[tuple[str, int]],
    new_ids: Iterable[str],
    options: WriteOptions,
    record_bytes: int,
) -> list[Share]:
    """Return where the new rows of one partition go.

    `small` are file groups that take rows, with the size of their base files; `new_ids` are ids for
    new groups, of which none is taken while `small` has room.
    """
    shares = []
    left = rows
    for file_id, size_bytes in small:
        room = min(left, (options.max_file_size_bytes - size_bytes) // record_bytes)
        if room > 0:
            shares.append(Share(file_id=file_id, rows=room, is_new=False))
            left -= room
    each = options.insert_split
    if options.insert_auto_split:
        each = max(1, options.max_file_size_bytes // record_bytes)
    files = -(-left // each)
    fresh = iter(new_ids)
    for at in range(files):
        own = left // files + (1 if at < left % files else 0)
        shares.append(Share(file_id=next(fresh), rows=own, is_new=True))
    return shares


def small_files(sizes: Iterable[tuple[str, int]], options: WriteOptions) -> list[tuple[str, int]]:
    """Return the file groups whose base file is small enough to take more rows, smallest first."""
    limit = min(options.small_file_limit_bytes, options.max_file_size_bytes)
    return sorted((s for s in sizes if s[1] < limit), key=lambda s: (s[1], s[0]))
