"""The verb `stats`: rows, bytes and files of each partition, and which slices want attention."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tidelake.cli import text
from tidelake.cli.call import Call
from tidelake.cli.output import Json
from tidelake.cli.slices import chosen_slices
from tidelake.model import BaseFile, FileSlice
from tidelake.model.byte_size import byte_size_text
from tidelake.operations.open_table import open_state
from tidelake.read.counted_rows import CountedRows, count_rows

#: Hudi's default of `hoodie.parquet.small.file.limit`: writers add rows to smaller base files.
SMALL_FILE_BYTES = 104_857_600
#: With logs larger than their base file a read spends most of its time on merging.
HEAVY_LOG_RATIO = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionStats:
    """The sums of one partition, or of the whole table."""

    partition: str | None
    file_groups: int
    base_rows: int
    base_bytes: int
    log_files: int
    log_bytes: int
    small_base_files: int
    slices_without_base: int
    heavy_slices: int

    @property
    def log_ratio(self) -> float | None:
        """Return log bytes for each byte of base files."""
        return self.log_bytes / self.base_bytes if self.base_bytes else None

    def as_json(self) -> dict[str, Json]:
        """Return the facts; the partition is null for the whole table."""
        return {
            "partition": self.partition,
            "file_groups": self.file_groups,
            "base_rows": self.base_rows,
            "base_bytes": self.base_bytes,
            "log_files": self.log_files,
            "log_bytes": self.log_bytes,
            "log_ratio": self.log_ratio,
            "small_base_files": self.small_base_files,
            "slices_without_base": self.slices_without_base,
            "heavy_slices": self.heavy_slices,
        }


def gather(
    slices: Sequence[FileSlice], base_rows: Mapping[str, int]
) -> tuple[list[PartitionStats], PartitionStats]:
    """Return the sums of every partition and of the table; `base_rows` is by path of the file."""
    by_partition: dict[str, list[FileSlice]] = {}
    for piece in slices:
        by_partition.setdefault(piece.group.partition, []).append(piece)
    return (
        [_sum(p, by_partition[p], base_rows) for p in sorted(by_partition)],
        _sum(None, slices, base_rows),
    )


def as_json(parts: Sequence[PartitionStats], total: PartitionStats, counts: CountedRows) -> Json:
    """Return the facts as one document."""
    return {
        "table": total.as_json(),
        "partitions": [part.as_json() for part in parts],
        "counted_by_commits": counts.by_commits,
        "counted_by_footers": counts.by_footers,
        "uncounted_base_files": counts.uncounted,
    }


def render(
    parts: Sequence[PartitionStats], total: PartitionStats, counts: CountedRows | None = None
) -> list[str]:
    """Return one line a partition, a sum, and advice."""
    headers = ["PARTITION", "FILE GROUPS", "BASE ROWS", "BASE", "LOGS", "LOG SIZE", "LOG/BASE"]
    lines = text.columns(headers, [_cells(p) for p in [*parts, total]], right=headers[1:])
    return [*lines, "", *_advice(total), *([] if counts is None else _read(counts))]


def _read(counts: CountedRows) -> list[str]:
    read = (
        f"Rows of {text.count(counts.by_commits, 'base file')} are as their commits say, and of "
        f"{counts.by_footers:,} as their footers do."
    )
    if not counts.uncounted:
        return [read]
    left = text.count(counts.uncounted, "base file")
    return [read, f"{left} of archived commits are not counted in: without --quick they are."]


def _sum(
    partition: str | None, slices: Sequence[FileSlice], base_rows: Mapping[str, int]
) -> PartitionStats:
    bases = [s.base_file for s in slices if s.base_file]
    return PartitionStats(
        partition=partition,
        file_groups=len(slices),
        base_rows=sum(base_rows.get(base.path, 0) for base in bases),
        base_bytes=sum(base.size_bytes for base in bases),
        log_files=sum(len(s.log_files) for s in slices),
        log_bytes=sum(s.log_bytes for s in slices),
        small_base_files=_joinable(bases),
        slices_without_base=sum(1 for s in slices if s.base_file is None),
        heavy_slices=sum(
            1
            for s in slices
            if s.base_file and s.log_bytes > HEAVY_LOG_RATIO * s.base_file.size_bytes
        ),
    )


def _joinable(bases: Sequence[BaseFile]) -> int:
    """Return the number of small base files that have another one in their partition."""
    small = Counter(base.partition for base in bases if base.size_bytes < SMALL_FILE_BYTES)
    return sum(files for files in small.values() if files > 1)


def _cells(part: PartitionStats) -> list[str]:
    name = "all" if part.partition is None else part.partition or "(whole table)"
    return [
        name,
        f"{part.file_groups:,}",
        f"{part.base_rows:,}",
        byte_size_text(part.base_bytes),
        f"{part.log_files:,}",
        byte_size_text(part.log_bytes),
        "-" if part.log_ratio is None else f"{part.log_ratio:.2f}",
    ]


def _advice(total: PartitionStats) -> list[str]:
    if not total.file_groups:
        return ["The table has no committed files."]
    lines = [
        "Base rows are those in base files; what logs add, change or delete is not counted in."
        if total.log_files
        else "No slice has logs: base rows are the rows of the table."
    ]
    if total.heavy_slices:
        slices = text.count(total.heavy_slices, "slice")
        lines.append(f"{slices} with more bytes in logs than in the base file: compaction is due.")
    if total.slices_without_base:
        slices = text.count(total.slices_without_base, "slice")
        lines.append(f"{slices} with logs only: a read-optimized query does not see their rows.")
    if total.small_base_files:
        files = text.count(total.small_base_files, "base file")
        small = byte_size_text(SMALL_FILE_BYTES)
        lines.append(f"{files} below {small} with neighbours: clustering would join them.")
    return lines


def run(call: Call) -> bool:
    """Show the sums of the partitions and of the table."""
    state = open_state(call.table, call.options)
    found = chosen_slices(call, state)
    counts = count_rows(state, found, quick=call.args.quick)
    parts, total = gather(found, counts.rows)
    if call.out.as_json:
        call.out.document(as_json(parts, total, counts))
    else:
        call.out.lines(render(parts, total, counts))
    return True
