"""What the newest commits and a few files tell of a table that nobody wrote down."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import islice

from tidelake.files import read_footers, read_slice
from tidelake.formats.commit_metadata import CommitMetadata
from tidelake.model import FileSlice
from tidelake.read.scan import read_spec, slice_tasks
from tidelake.records.schema import RECORD_KEY
from tidelake.state.table_state import TableSchema, TableState

#: Files that are looked into to learn how a table spells or spreads its keys.
_SAMPLED_FILES = 8
_SAMPLED_KEYS = 50


def newest_commits(state: TableState) -> Iterator[CommitMetadata]:
    """Return what the writes of the active timeline did, the newest first."""
    for instant in reversed(state.writes_by_time()):
        yield state.contents.commit_metadata(instant)


def recent_file_ids(state: TableState) -> frozenset[str]:
    """Return the file ids of the newest commit that wrote any."""
    for metadata in newest_commits(state):
        found = frozenset(s.file_id for s in metadata.write_stats if s.file_id)
        if found:
            return found
    return frozenset()


def sampled_keys(state: TableState, schema: Callable[[], TableSchema]) -> Iterator[tuple[str, str]]:
    """Return keys of the table with the file ids of their groups."""
    partitions: list[str] = []
    for metadata in newest_commits(state):
        partitions = [p for p, stats in metadata.partition_to_write_stats.items() if stats]
        if partitions:
            break
    slices = state.view.latest_slices(partitions)[:_SAMPLED_FILES]
    bases = {s.base_file.path: s for s in slices if s.base_file is not None}
    sizes = {path: s.base_file.size_bytes for path, s in bases.items() if s.base_file}
    for path, footer in read_footers(state.storage, sizes).items():
        for key in footer.key_range or ():
            yield bases[path].group.file_id, key
    if state.config.populate_meta_fields:
        yield from _keys_inside(state, slices, schema())


def _keys_inside(
    state: TableState, slices: Sequence[FileSlice], schema: TableSchema
) -> Iterator[tuple[str, str]]:
    spec = read_spec(state, schema, (RECORD_KEY,))
    for task in slice_tasks(state, slices):
        for batch in islice(read_slice(task, spec), 1):
            for key in batch.column(0).slice(0, _SAMPLED_KEYS).to_pylist():
                yield task.file_id, key
