"""What the history of a table tells that is not there any more, and what it leaves out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from tidelake.errors import reading
from tidelake.formats import lsm_history
from tidelake.formats.file_name import parse_base, parse_log
from tidelake.formats.instant_name import LAYOUT_1
from tidelake.formats.lsm_history import HistoryFileName
from tidelake.model import WRITE_ACTIONS, FileGroupId
from tidelake.read.check_report import READABLE_INSTANTS, CheckReport, Violation, noting
from tidelake.state.table_state import TableState
from tidelake.storage import FileInfo
from tidelake.timeline.archive import current_manifest


@dataclass(frozen=True, slots=True, kw_only=True)
class Vanished:
    """A file that an archived commit wrote, and that should be there and is gone."""

    group: FileGroupId
    path: str
    requested_time: str


def vanished_files(
    state: TableState, on_storage: Mapping[str, FileInfo], there: Mapping[FileGroupId, str]
) -> Iterator[Vanished]:
    """Yield files that are gone, of file groups that nobody replaced.

    That is the last file of a group, its newest base file, or a log since then: a clean leaves the
    newest slice. `there` has the groups of which files are left on storage, each with the time of
    its newest base file, "" without one.
    """
    written: dict[FileGroupId, Vanished] = {}
    newest: list[tuple[str, Vanished]] = []
    replaced = set(state.view.replacements)
    for instant in state.history.instants():
        if instant.action not in WRITE_ACTIONS:
            continue
        metadata = state.history.commit_metadata(instant)
        for partition, file_ids in metadata.partition_to_replace_file_ids.items():
            replaced |= {FileGroupId(partition, file_id) for file_id in file_ids}
        for partition, stats in metadata.partition_to_write_stats.items():
            for stat in stats:
                if stat.path and stat.file_id:
                    group = FileGroupId(partition, stat.file_id)
                    found = Vanished(
                        group=group, path=stat.path, requested_time=instant.requested_time
                    )
                    written[group] = found
                    log = parse_log(partition, stat.path.rpartition("/")[2], 0)
                    at = instant.requested_time
                    if log is not None:
                        by_completion = state.by_completion_time
                        at = (instant.completion_time or "") if by_completion else log.instant_time
                    if stat.path not in on_storage and there.get(group, "~") < at:
                        newest.append((at, found))
    for group in sorted(written.keys() - replaced - there.keys(), key=str):
        yield written[group]
    for _, found in sorted(newest, key=lambda one: one[0]):
        if found.group not in replaced:
            yield found


def forgotten_files(state: TableState) -> tuple[str, list[str]]:
    """Return the manifest that counts, and files beside it of whose instants nothing else tells.

    A file that was merged into a larger one lies inside of its range, and what a crash left before
    its manifest appeared holds instants that are still on the timeline.
    """
    storage, folder = state.storage, state.config.history_folder
    number = current_manifest(storage, folder)
    if number is None:
        return "", []
    path = f"{folder}/{lsm_history.manifest_name(number)}"
    with reading(path):
        manifest = lsm_history.decode_manifest(storage.read(path))
    told = [HistoryFileName.parse(file.file_name) for file in manifest.files]
    active = {instant.requested_time for instant in state.timeline.instants}
    found = []
    for file in storage.list(folder).files:
        name = HistoryFileName.parse(file.name)
        if name is None or name.last in active:
            continue
        if not any(t and t.first <= name.first and name.last <= t.last for t in told):
            found.append(f"{folder}/{file.name}")
    return path, sorted(found)


def check_history(
    state: TableState, on_storage: Mapping[str, FileInfo], report: CheckReport
) -> None:
    """Hold the history of a table to its folder, and to the data files that are there."""
    there: dict[FileGroupId, str] = {}
    for path in on_storage:
        partition, _, name = path.rpartition("/")
        base = parse_base(partition, name, 0)
        file = base or parse_log(partition, name, 0)
        if file is not None:
            group = FileGroupId(partition, file.file_id)
            there[group] = max(there.get(group, ""), "" if base is None else base.instant_time)
    with noting(report, READABLE_INSTANTS):
        if state.config.layout_version != LAYOUT_1:
            manifest, forgotten = forgotten_files(state)
            for path in forgotten:
                report.violations.append(
                    Violation(
                        path=manifest,
                        problem=f"does not name {path}, of whose instants nothing else tells: rows "
                        "that they wrote may be missing",
                        next_step="restore the manifest from a backup or the storage's versions",
                    )
                )
        for lost in vanished_files(state, on_storage, there):
            what = "no later base file" if lost.group in there else "no file"
            report.violations.append(
                Violation(
                    path=lost.path,
                    problem=f"was written by {lost.requested_time}, which is archived, and "
                    f"{what} of file group {lost.group.file_id} is left: its rows are missing",
                    next_step="restore the file group from a backup or the storage's versions",
                )
            )
