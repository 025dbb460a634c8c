"""How many rows base files hold, by their commits where these tell, else by their footers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tidelake.files import read_footers
from tidelake.model import FileSlice
from tidelake.state.table_state import TableState


@dataclass(frozen=True, slots=True, kw_only=True)
class CountedRows:
    """Rows of base files by path, and what was read to count them."""

    rows: Mapping[str, int]
    by_commits: int
    """Files whose commit is on the active timeline and says it."""
    by_footers: int
    uncounted: int


def count_rows(
    state: TableState, slices: Sequence[FileSlice], *, quick: bool = False
) -> CountedRows:
    """Return the rows of the base files of `slices`; a `quick` count opens no data file."""
    sizes = {s.base_file.path: s.base_file.size_bytes for s in slices if s.base_file}
    wanted = {s.base_file.instant_time for s in slices if s.base_file}
    writes = [i for i in state.timeline.writes() if i.requested_time in wanted]
    state.contents.load_commit_metadata(writes)
    rows = {
        stat.path: stat.num_writes
        for write in writes
        for stat in state.contents.commit_metadata(write).write_stats
        if stat.path is not None and stat.path in sizes and stat.num_writes
    }
    rest = {path: size for path, size in sizes.items() if path not in rows}
    footers = {} if quick else read_footers(state.storage, rest)
    return CountedRows(
        rows={**rows, **{path: footer.row_count for path, footer in footers.items()}},
        by_commits=len(rows),
        by_footers=len(footers),
        uncounted=len(rest) - len(footers),
    )
