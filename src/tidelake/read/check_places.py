"""Files in the place of others: what they hold names another file, write or file group."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence, Set

from tidelake.errors import Malformed
from tidelake.files.log_records import raw_records
from tidelake.files.own_place import other_write
from tidelake.formats.file_name import parse_base, parse_log
from tidelake.formats.log_block import BlockKind, HeaderKey, LogBlock
from tidelake.model import BaseFile, FileGroupId, LogFile
from tidelake.records.schema import FILE_NAME
from tidelake.state.table_state import TableState

_WITH_ROWS = (BlockKind.AVRO_DATA, BlockKind.PARQUET_DATA)


def writers_of_logs(state: TableState) -> Mapping[str, Collection[str]]:
    """Return the completed writes that name a log or a file of changes, by its path."""
    found: dict[str, set[str]] = {}
    for instant in state.writes_by_time():
        for stat in state.contents.commit_metadata(instant).write_stats:
            for path in (stat.path, *(stat.cdc_stats or ())):
                if path and parse_log("", path.rpartition("/")[2], 0) is not None:
                    found.setdefault(path, set()).add(instant.requested_time)
    return found


def problem_of_log(
    state: TableState, path: str, blocks: Sequence[LogBlock], writers: Collection[str]
) -> str | None:
    """Return why a log is not the one that its name and its writes speak of, if it is another."""
    if state.config.logs_name_their_write:
        other = other_write(path, blocks)
        if other is not None:
            return f"holds blocks of instant {other}: one log was put in another's place"
    times = {b.headers.get(HeaderKey.INSTANT_TIME) for b in blocks}
    lost = sorted(set(writers) - times)
    if blocks and lost and all(b.kind is not BlockKind.CORRUPT for b in blocks):
        return (
            f"holds no block of instant {lost[0]}, which wrote to it: another log was put in its "
            "place, or the commit is that of another write"
        )
    group = _other_group(path, blocks)
    return None if group is None else f"holds rows of file group {group}, which is another's log"


def groups_written(state: TableState) -> Set[tuple[str, FileGroupId]]:
    """Return the completed writes on the timeline, each with every file group that it names."""
    return {
        (instant.requested_time, FileGroupId(partition, file.file_id))
        for instant in state.writes_by_time()
        for partition, of in state.contents.commit_metadata(
            instant
        ).partition_to_write_stats.items()
        for stat in of
        for file in [_parsed(stat.path or "")]
        if file is not None
    }


def stranger(
    state: TableState,
    file: BaseFile | LogFile,
    blocks: Sequence[LogBlock],
    written: Set[tuple[str, FileGroupId]],
) -> str | None:
    """Return the completed write under whose time a file counts, in a group that it does not name.

    Up to version 7 the blocks of a log say it and not its name. What a task wrote that was retried
    lies beside the file that the commit names.
    """
    if isinstance(file, BaseFile) or state.config.format.has_own_logs:
        times = {file.instant_time}
    else:
        times = {b.headers.get(HeaderKey.INSTANT_TIME, "") for b in blocks if b.kind in _WITH_ROWS}
    done = {i.requested_time for i in state.timeline.writes()}
    group = FileGroupId(file.partition, file.file_id)
    return min((t for t in times & done if (t, group) not in written), default=None)


def _parsed(path: str) -> BaseFile | LogFile | None:
    folder, _, name = path.rpartition("/")
    return parse_base(folder, name, 0) or parse_log(folder, name, 0)


def _other_group(path: str, blocks: Sequence[LogBlock]) -> str | None:
    """Return the file group that rows of the log say they are in, unless it is their own."""
    log = parse_log("", path.rpartition("/")[2], 0)
    for block in blocks:
        if log is None or block.kind not in _WITH_ROWS:
            continue
        try:
            rows = raw_records(block, (FILE_NAME,))
        except Malformed:
            continue  # readers refuse the block, and say why
        if FILE_NAME not in rows.column_names:
            continue
        for name in rows.column(FILE_NAME).unique().to_pylist():
            if isinstance(name, str) and name and not name.startswith(log.file_id):
                return name
    return None
