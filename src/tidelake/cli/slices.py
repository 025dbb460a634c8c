"""The verb `slices`: which files a query reads, file group by file group."""

from __future__ import annotations

from collections.abc import Sequence

from tidelake.cli import text
from tidelake.cli.call import Call
from tidelake.cli.output import Json
from tidelake.errors import ConfigError
from tidelake.model import FileSlice
from tidelake.model.byte_size import byte_size_text
from tidelake.model.printed import FileSliceList
from tidelake.operations.open_table import open_state
from tidelake.state.table_state import TableState


def as_json(found: FileSlice) -> Json:
    """Return the facts about one file slice; paths are relative to the table."""
    base = found.base_file
    return {
        "partition": found.group.partition,
        "file_id": found.group.file_id,
        "base_instant_time": found.base_instant_time,
        "base_file": None if base is None else {"path": base.path, "size_bytes": base.size_bytes},
        "log_files": [
            {"path": log.path, "size_bytes": log.size_bytes, "instant_time": log.instant_time}
            for log in found.log_files
        ],
        "size_bytes": found.size_bytes,
    }


def render(slices: Sequence[FileSlice], *, as_of: str | None) -> list[str]:
    """Return one line a file slice, and a sum."""
    when = f" as of {as_of}" if as_of else ""
    if not slices:
        return [f"No file slice is visible{when}: the table has no committed rows there."]
    table = FileSliceList(slices)
    lines = text.columns(table.headers, [table.cells(s) for s in table], right=table.right)
    partitions = len({found.group.partition for found in slices})
    logged = sum(1 for found in slices if found.log_files)
    return [
        *lines,
        "",
        f"{text.count(len(slices), 'file slice')}{when} in {text.count(partitions, 'partition')}, "
        f"{byte_size_text(sum(found.size_bytes for found in slices))}.",
        "A file slice is one version of a file group: its base file and the logs on top of it.",
        f"Read as plain Parquet: {len(slices) - logged}. Merged with their logs: {logged}.",
    ]


def chosen_slices(call: Call, state: TableState) -> list[FileSlice]:
    """Return the slices that `--as-of` and `--partition` choose."""
    at = None if call.args.as_of is None else state.as_of(call.args.as_of)
    partition = call.args.partition
    if partition is not None and partition not in state.view.partitions():
        raise ConfigError(
            f"the table has no partition {partition!r}",
            next_step="see `tidelake stats` for the partitions; they are written as in their path",
        )
    return state.view.latest_slices(None if partition is None else [partition], as_of=at)


def run(call: Call) -> bool:
    """Show the file slices."""
    found = chosen_slices(call, open_state(call.table, call.options))
    if call.out.as_json:
        call.out.records(as_json(piece) for piece in found)
    else:
        call.out.lines(render(found, as_of=call.args.as_of))
    return True
