"""Check a table: every fact that must hold, and every violation found."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence, Set
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from tidelake.errors import Malformed, TidelakeError, reading
from tidelake.files import read_slice
from tidelake.files.footers import read_footer
from tidelake.files.own_place import other_file
from tidelake.formats import log_block
from tidelake.formats.file_name import parse_base, parse_log
from tidelake.formats.log_block import BlockKind, HeaderKey, LogBlock
from tidelake.formats.parquet_footer import ParquetFooter
from tidelake.model import Action, BaseFile, FileGroupId, FileSlice, Instant, LogFile
from tidelake.read.check_archived import check_history
from tidelake.read.check_chain import lost_bases, passed_over_bases
from tidelake.read.check_order import tied_keys
from tidelake.read.check_pending import being_cleaned, being_undone
from tidelake.read.check_places import groups_written, problem_of_log, stranger, writers_of_logs
from tidelake.read.check_report import READABLE_INSTANTS, CheckReport, Violation, noting
from tidelake.read.scan import read_spec, slice_tasks
from tidelake.read.split_buckets import split_buckets
from tidelake.records.schema import RECORD_KEY
from tidelake.state.table_state import TableState
from tidelake.storage import FileInfo
from tidelake.txn.concurrency import WRITER
from tidelake.txn.conflicts.candidates import of_commit
from tidelake.txn.conflicts.judge import Footprint, slot_name
from tidelake.txn.conflicts.unlocked_writers import unexplained
from tidelake.view import Listing, StorageListing, TableView

_READERS = 16

PRESENT_FILES = "files of live slices that exist, in the size their commit says"
READABLE_BASES = "base files of live slices with a readable footer"
ROW_COUNTS = "base files with as many rows as their commit says"
READABLE_LOGS = "log files of live slices that consist of whole blocks"
EXPLAINED = "writes that overlap in time and touch different file groups, or never give way"
KNOWN_BASES = "writes that build on completed ones"
SAME_LISTING = "committed files that metadata table and storage list alike"


def check_table(
    state: TableState,
    metadata: Listing | None,
    left_out: Sequence[Instant] = (),
    *,
    quick: bool = False,
) -> CheckReport:
    """Look at all that a reader of the newest snapshot depends on, and go on after each violation.

    `metadata` is the listing of the table's metadata table, None when it has none to go by, and
    `left_out` are writes that it does not know. A `quick` look reads the timeline and lists files,
    and opens no data file.
    """
    report = CheckReport()
    _check_instants(state, report)
    is_damaged = not report.is_sound
    for instant in left_out:
        report.violations.append(
            Violation(
                path=".hoodie/metadata",
                problem=f"the metadata table does not know {instant.action} "
                f"{instant.requested_time}, so readers that list files by it miss its rows",
                next_step="write to the table with tidelake, which makes it good; until then give "
                "other readers hoodie.metadata.enable=false",
            )
        )
    if is_damaged:
        # Slices follow from the timeline, so what would be found beyond here may not be true.
        report.notes.append("files were not checked, because the timeline itself is damaged")
        return report
    _check_overlaps(state, report)
    _check_passed_over(state, report)
    _note_late_files(state, report)
    listing = StorageListing(state.storage)
    on_storage = _by_path(listing, listing.partitions())
    named = _named_files(state)
    undone = being_undone(state)
    view = TableView(
        table_version=state.config.table_version,
        timeline=state.timeline,
        contents=state.contents,
        listing=_WithNamedFiles(listing, named),
        history_times=state.history.completion_times,
    )
    _check_chain(state, view, report)
    files: list[BaseFile | LogFile] = []
    slices = view.latest_slices()
    _check_buckets(slices, report)
    for found in slices:
        files += [found.base_file] if found.base_file else []
        files += found.log_files
    may_grow = not state.by_completion_time
    present = [
        file
        for file in files
        if _is_present(file, on_storage.get(file.path), named, report, may_grow=may_grow)
    ]
    # Up to version 7 a log is named by the slice it belongs to, so its name does not say whether
    # the write has completed: the slice may be one that a pending compaction opened, and the log
    # may be what a failed write left. There the blocks tell.
    live = set()
    bases = [file for file in present if isinstance(file, BaseFile)]
    writers = writers_of_logs(state)
    if not quick:
        check_history(state, on_storage, report)
        _check_bases(state, bases, named, report)
        _check_older(state, on_storage, {file.path for file in files}, named, report)
    written = groups_written(state)
    for file in present:
        blocks: Sequence[LogBlock] = ()
        if isinstance(file, LogFile) and not quick:
            blocks = _check_log(state, file, writers, report)
        _check_stranger(state, file, blocks, written, report)
        if isinstance(file, BaseFile) or quick or _is_of_completed_write(undone, view, blocks):
            live.add(file.path)
    listed = {} if metadata is None else _by_path(metadata, metadata.partitions())
    settled = {file.path for file in files} - live  # missing, which was said, or of a failed write
    cleaned = being_cleaned(state) - on_storage.keys()
    settled |= cleaned
    counted = {
        path
        for path in {*on_storage, *listed} - settled
        if path in live
        or (_is_committed(undone, view, path) and not _is_unsaid(state, undone, view, path, named))
    }
    if metadata is not None:
        _check_metadata(on_storage, listed, counted, report)
    _note_leftovers(on_storage, counted, report)
    if cleaned & listed.keys():
        report.notes.append(
            f"{len(cleaned & listed.keys())} files that the metadata table lists were deleted by a "
            f"clean that has not completed, such as {min(cleaned & listed.keys())}; the next clean "
            "finishes it"
        )
    _note_strangers(state, on_storage.keys() - live, named, report)
    if quick:
        report.notes.append(
            "this was a quick look: data files were listed and not opened; without --quick the "
            "footers, the logs and the keys of all rows are read as well"
        )
    elif not report.violations:
        _note_duplicates(state, view, report)
        _note_ties(state, view, report)
    return report


@dataclass(frozen=True, slots=True, kw_only=True)
class _Named:
    """What the last commit that wrote a file says of it."""

    partition: str
    size_bytes: int | None
    row_count: int | None


class _WithNamedFiles:
    """A listing that also shows files that commits name, whether they are there or not."""

    def __init__(self, listing: Listing, named: Mapping[str, _Named]) -> None:
        self._listing = listing
        self._named: dict[str, list[FileInfo]] = {}
        for path, facts in named.items():
            info = FileInfo(path.rpartition("/")[2], facts.size_bytes or 0, 0)
            self._named.setdefault(facts.partition, []).append(info)

    def partitions(self) -> Sequence[str]:
        return sorted({*self._listing.partitions(), *self._named})

    def files_of(self, partitions: Sequence[str]) -> Mapping[str, Sequence[FileInfo]]:
        merged = {}
        for partition, found in self._listing.files_of(partitions).items():
            there = {info.name for info in found}
            gone = [i for i in self._named.get(partition, ()) if i.name not in there]
            merged[partition] = [*found, *gone]
        return merged


def _check_instants(state: TableState, report: CheckReport) -> None:
    contents = state.contents
    readers: dict[Action, Callable[[Instant], object]] = {
        Action.COMMIT: contents.commit_metadata,
        Action.DELTACOMMIT: contents.commit_metadata,
        Action.REPLACECOMMIT: contents.commit_metadata,
        Action.CLEAN: contents.clean_metadata,
        Action.ROLLBACK: contents.rollback_metadata,
        Action.RESTORE: contents.restore_metadata,
        Action.SAVEPOINT: contents.savepoint_metadata,
    }
    plans: dict[Action, Callable[[Instant], object]] = {
        Action.COMPACTION: contents.compaction_plan,
        Action.LOGCOMPACTION: contents.compaction_plan,
        Action.CLUSTERING: contents.clustering_plan,
    }
    for instant in state.timeline.instants:
        read = (readers if instant.is_completed else plans).get(instant.action)
        if read is not None:
            with noting(report, READABLE_INSTANTS):
                read(instant)


def _check_overlaps(state: TableState, report: CheckReport) -> None:
    """Look for writes of which one would have given way, had both honoured the table's lock."""
    if not state.by_completion_time:
        return  # modification times, which a copy of the table changes, prove nothing
    writes = state.writes_by_time()
    found = [of_commit(i, state.contents.commit_metadata(i), slot_name) for i in writes]
    report.checked[EXPLAINED] += len(found)
    names = {i.requested_time: i.file_name for i in writes}
    for pair in unexplained(found, table_version=state.config.table_version):
        first, second = pair.first, pair.second
        report.violations.append(
            Violation(
                path=f"{state.config.timeline_folder}/{names[second.requested_time]}",
                problem=f"{_told(state, second)} and {_told(state, first)} overlap in time and "
                f"both touched {min(map(str, pair.shared))}: {pair.rule}. No lock explains that, "
                "and what one of them wrote may be lost",
                next_step="let all writers of the table use the same lock and a mode that is not "
                "SINGLE_WRITER (docs/concurrency.md); write the rows of both again",
            )
        )


def _check_chain(state: TableState, view: TableView, report: CheckReport) -> None:
    report.checked[KNOWN_BASES] += len(state.timeline.writes())
    for lost in lost_bases(state, view):
        report.violations.append(
            Violation(
                path=f"{state.config.timeline_folder}/{lost.instant.file_name}",
                problem=f"builds on {lost.base_time} in file group {lost.file_id}, which is not "
                "completed on the timeline: the rows that only it wrote are missing",
                next_step=f"restore the completed file of {lost.base_time} from a backup or the "
                "storage's versions, before a writer rolls that instant back",
            )
        )


def _check_passed_over(state: TableState, report: CheckReport) -> None:
    by_completion = state.by_completion_time
    for pair in passed_over_bases(state, by_completion=by_completion):
        report.violations.append(
            Violation(
                path=f"{state.config.timeline_folder}/{pair.later.file_name}",
                problem=f"builds in file group {pair.file_id} on what was there before "
                f"{pair.earlier.requested_time}, which had completed: rows of "
                f"{pair.earlier.requested_time} are lost. One of the two writers went on without "
                "the table's lock, or when its lease had run out",
                next_step=f"write the rows of {pair.earlier.requested_time} again; "
                "Table.read(as_of=...) shows them until they are cleaned",
            )
        )


def _check_buckets(slices: Sequence[FileSlice], report: CheckReport) -> None:
    for found in split_buckets(slices):
        report.violations.append(
            Violation(
                path=found.partition,
                problem=f"bucket {found.number} has {len(found.file_ids)} live file groups, "
                f"{', '.join(found.file_ids)}: a key that is in several of them is read several "
                "times, and writers cannot tell which row is meant",
                next_step="read the partition, leave one row a key, and write them back with "
                "Table.insert_overwrite",
            )
        )


def _told(state: TableState, write: Footprint) -> str:
    by = next(
        (
            state.contents.commit_metadata(i).extra_metadata.get(WRITER)
            for i in state.timeline.writes()
            if i.requested_time == write.requested_time
        ),
        None,
    )
    return (
        f"{write.requested_time} (to {write.completion_time}, by "
        f"{by or 'a writer that left no name'})"
    )


def _named_files(state: TableState) -> dict[str, _Named]:
    named = {}
    for instant in state.writes_by_time():
        written = state.contents.commit_metadata(instant).partition_to_write_stats
        for partition, stats in written.items():
            for stat in stats:
                if stat.path:
                    named[stat.path] = _Named(
                        partition=partition,
                        size_bytes=stat.file_size_in_bytes or None,
                        row_count=stat.num_writes,
                    )
    return named


def _is_present(
    file: BaseFile | LogFile,
    found: FileInfo | None,
    named: Mapping[str, _Named],
    report: CheckReport,
    *,
    may_grow: bool,
) -> bool:
    report.checked[PRESENT_FILES] += 1
    if found is None:
        report.violations.append(
            Violation(
                path=file.path,
                problem="a completed commit names this file, but it is not on storage",
                next_step="restore the file, or restore the table to a savepoint before the loss",
            )
        )
        return False
    promised = named[file.path].size_bytes if file.path in named else None
    # Up to version 7 later commits and rollbacks may append to a log.
    grown = (
        may_grow
        and isinstance(file, LogFile)
        and promised is not None
        and found.size_bytes > promised
    )
    if promised is not None and found.size_bytes != promised and not grown:
        report.violations.append(
            Violation(
                path=file.path,
                problem=f"has {found.size_bytes} bytes, but its commit says {promised}",
                next_step="restore the file from a backup or the storage's versions",
            )
        )
    return True


def _check_bases(
    state: TableState,
    bases: Sequence[BaseFile],
    named: Mapping[str, _Named],
    report: CheckReport,
) -> None:
    parquet = [base for base in bases if base.extension == "parquet"]

    def footer_of(base: BaseFile) -> ParquetFooter | TidelakeError:
        try:
            return read_footer(state.storage, base.path, base.size_bytes)
        except TidelakeError as error:
            return error

    with ThreadPoolExecutor(_READERS) as pool:
        for base, footer in zip(parquet, pool.map(footer_of, parquet), strict=True):
            _check_base(base, footer, named.get(base.path), report)
            if isinstance(footer, ParquetFooter):
                _check_base_place(base, footer, report)


def _check_base_place(base: BaseFile, footer: ParquetFooter, report: CheckReport) -> None:
    """Hold the file that rows say they are in to the one in which they are."""
    other = other_file(base.path, footer.file_names)
    if other is not None:
        report.violations.append(
            Violation(
                path=base.path,
                problem=f"holds rows of the file {other}: one was put in the other's place",
                next_step="restore the file from a backup or the storage's versions",
            )
        )


def _check_base(
    base: BaseFile,
    footer: ParquetFooter | TidelakeError,
    named: _Named | None,
    report: CheckReport,
) -> None:
    with noting(report, READABLE_BASES):
        if isinstance(footer, TidelakeError):
            raise footer
        rows = footer.row_count
        if named is not None and named.row_count is not None:
            report.checked[ROW_COUNTS] += 1
            if rows != named.row_count:
                report.violations.append(
                    Violation(
                        path=base.path,
                        problem=f"holds {rows} rows, but its commit says {named.row_count}",
                        next_step="restore the file from a backup or the storage's versions",
                    )
                )


def _check_log(
    state: TableState,
    log: LogFile,
    writers: Mapping[str, Collection[str]],
    report: CheckReport,
) -> Sequence[LogBlock]:
    blocks: Sequence[LogBlock] = ()
    with noting(report, READABLE_LOGS), reading(log.path):
        blocks = log_block.decode_blocks(state.storage.read(log.path))
        _check_place(state, log.path, blocks, writers, report)
        for block in blocks:
            if block.kind is BlockKind.CORRUPT:
                report.violations.append(
                    Violation(
                        path=log.path,
                        problem=f"block at offset {block.offset} is damaged: {block.damage}",
                        next_step="readers pass over the block; if its write had completed, "
                        "restore the file, otherwise let a writer roll that write back",
                    )
                )
    return blocks


def _check_place(
    state: TableState,
    path: str,
    blocks: Sequence[LogBlock],
    writers: Mapping[str, Collection[str]],
    report: CheckReport,
) -> None:
    problem = problem_of_log(state, path, blocks, writers.get(path, ()))
    if problem is not None:
        report.violations.append(
            Violation(
                path=path,
                problem=problem,
                next_step="restore the file from a backup or the storage's versions",
            )
        )


def _check_stranger(
    state: TableState,
    file: BaseFile | LogFile,
    blocks: Sequence[LogBlock],
    written: Set[tuple[str, FileGroupId]],
    report: CheckReport,
) -> None:
    time = stranger(state, file, blocks, written)
    if time is not None:
        report.violations.append(
            Violation(
                path=file.path,
                problem=f"is read as a file of {time}, which completed and names no file of this "
                "group: it was put here by something else, and its rows are read as well",
                next_step="move the file out of the table",
            )
        )


def _check_older(
    state: TableState,
    on_storage: Mapping[str, FileInfo],
    live: Set[str],
    named: Mapping[str, _Named],
    report: CheckReport,
) -> None:
    """Look at files outside of live slices, which time travel, windows and changes read."""
    writers = writers_of_logs(state)
    bases = []
    for path in sorted({*named, *writers} & on_storage.keys() - live):
        folder, _, name = path.rpartition("/")
        base = parse_base(folder, name, on_storage[path].size_bytes)
        if base is not None:
            _is_present(base, on_storage[path], named, report, may_grow=False)
            bases.append(base)
            continue
        with noting(report, READABLE_LOGS), reading(path):
            blocks = log_block.decode_blocks(state.storage.read(path))
            _check_place(state, path, blocks, writers, report)
    _check_bases(state, bases, named, report)


def _is_unsaid(
    state: TableState,
    undone: Set[str],
    view: TableView,
    path: str,
    named: Mapping[str, _Named],
) -> bool:
    """Return whether a log of an older or replaced slice holds nothing that took effect.

    Up to version 7 its name is that of the slice, whichever write appended it.
    """
    partition, _, name = path.rpartition("/")
    if state.by_completion_time or path in named:
        return False
    if parse_log(partition, name, 0) is None or state.storage.stat(path) is None:
        return False
    try:
        blocks = log_block.decode_blocks(state.storage.read(path))
    except Malformed:
        return False
    return not _is_of_completed_write(undone, view, blocks)


def _is_of_completed_write(undone: Set[str], view: TableView, blocks: Sequence[LogBlock]) -> bool:
    """Return whether any block took effect; one that cannot be told counts as if it had.

    What a rollback or restore takes back, and what it appends to that end, the metadata table
    learns just before the one or the other completes.
    """
    times = [block.headers.get(HeaderKey.INSTANT_TIME) for block in blocks]
    commands = any(
        block.kind is BlockKind.COMMAND
        and undone.isdisjoint(
            {block.headers.get(HeaderKey.INSTANT_TIME), block.target_instant_time}
        )
        for block in blocks
    )
    return (
        commands
        or not times
        or any(t is None or (t not in undone and view.times.is_committed(t)) for t in times)
    )


def _check_metadata(
    on_storage: Mapping[str, FileInfo],
    listed: Mapping[str, FileInfo],
    counted: Set[str],
    report: CheckReport,
) -> None:
    for path in sorted({*on_storage, *listed} & counted):
        report.checked[SAME_LISTING] += 1
        there, known = on_storage.get(path), listed.get(path)
        if there and known and there.size_bytes == known.size_bytes:
            continue
        if there is None:
            problem = "is listed by the metadata table, but is not on storage"
        elif known is None:
            problem = "is on storage, but the metadata table does not list it"
        else:
            problem = (
                f"has {there.size_bytes} bytes, but the metadata table says {known.size_bytes}"
            )
        report.violations.append(
            Violation(
                path=path,
                problem=problem,
                next_step="read with hoodie.metadata.enable=false, and have the metadata table "
                "built anew by its writer",
            )
        )


def _note_late_files(state: TableState, report: CheckReport) -> None:
    late = state.timeline.late_files
    if late:
        report.notes.append(
            f"{min(late)} arrived when its write had been rolled back already, and tidelake takes "
            "it for no commit, though other engines may; the next write or service deletes it"
        )


def _note_leftovers(
    on_storage: Mapping[str, FileInfo], counted: Set[str], report: CheckReport
) -> None:
    left = [path for path in on_storage if _instant_of(path) and path not in counted]
    if left:
        report.notes.append(
            f"{len(left)} files lie in the partitions whose writes failed or have not completed, "
            f"such as {min(left)}; no query reads them"
        )


def _note_strangers(
    state: TableState,
    idle: Set[str],
    named: Mapping[str, _Named],
    report: CheckReport,
) -> None:
    """Look among files of no slice for those of a completed write that does not name them."""
    done = {i.requested_time for i in state.timeline.writes()}
    strange = []
    for path in idle:
        folder, _, name = path.rpartition("/")
        base = parse_base(folder, name, 0)
        if base is not None and base.instant_time in done and path not in named:
            strange.append(path)
    if strange:
        report.notes.append(
            f"{len(strange)} base files have the time of a completed write that does not name "
            f"them, such as {min(strange)}: they are of a task that nobody waited for, or of "
            "another writer that took the same time; no query of tidelake reads them, and readers "
            "that go by names alone may"
        )


def _note_duplicates(state: TableState, view: TableView, report: CheckReport) -> None:
    """Look for keys that are in two file groups of a partition: an update changes one of them.

    Inserts that do not look for their keys make such rows, and so do two writers that insert the
    same new key at the same time.
    """
    if not state.config.populate_meta_fields or not state.timeline.writes():
        return
    spec = read_spec(state, state.schema(), (RECORD_KEY,))
    by_partition: dict[str, list[FileSlice]] = {}
    for found in view.latest_slices():
        by_partition.setdefault(found.group.partition, []).append(found)
    for partition, slices in by_partition.items():
        if len(slices) < 2:
            continue  # the rows of one file group are merged by key
        keys = pa.chunked_array(
            [
                batch.column(0)
                for task in slice_tasks(state, slices)
                for batch in read_slice(task, spec)
            ],
            pa.string(),
        )
        counts = pa.table({"key": keys}).group_by("key").aggregate([([], "count_all")])
        twice = counts.filter(pc.greater(counts.column("count_all"), 1)).column("key")
        if len(twice):
            report.notes.append(
                f"{len(twice)} keys of partition {partition!r} are there more than once, such as "
                f"{pc.min(twice).as_py()}: an update changes one of their rows"
            )


def _note_ties(state: TableState, view: TableView, report: CheckReport) -> None:
    for tied in tied_keys(state, view):
        report.notes.append(
            f"{tied.count} keys of file group {tied.group}, such as {tied.example}, got the same "
            "ordering value from writes that overlapped: the write that completed last counts, but "
            "to Apache Hudi the one that was requested last, unless a compaction came between"
        )


def _is_committed(undone: Set[str], view: TableView, path: str) -> bool:
    instant_time = _instant_of(path)
    return (
        instant_time is not None
        and instant_time not in undone
        and view.times.is_committed(instant_time)
    )


def _instant_of(path: str) -> str | None:
    partition, _, name = path.rpartition("/")
    file = parse_base(partition, name, 0) or parse_log(partition, name, 0)
    return file.instant_time if file else None


def _by_path(listing: Listing, partitions: Sequence[str]) -> dict[str, FileInfo]:
    return {
        f"{partition}/{info.name}" if partition else info.name: info
        for partition, infos in listing.files_of(partitions).items()
        for info in infos
    }
