from __future__ import annotations

from pathlib import Path

import pytest

from tests.golden import harness
from tidelake.config import ReadOptions
from tidelake.metadata import MetadataTable, unknown_writes
from tidelake.read import check
from tidelake.read.check import check_table
from tidelake.read.check_report import READABLE_INSTANTS, CheckReport
from tidelake.state.table_state import TableState
from tidelake.storage import open_storage


def checked(root: Path, *, quick: bool = False) -> CheckReport:
    state = TableState.load(open_storage(str(root)), ReadOptions())
    at = (state.storage, state.config, state.timeline)
    return check_table(state, MetadataTable.open(*at), unknown_writes(*at), quick=quick)


def unpacked(name: str, into: Path) -> Path:
    return harness.unpack(harness.load(name), into)


def live_file(root: Path, *, log: bool) -> Path:
    state = TableState.load(open_storage(str(root)), ReadOptions())
    for found in state.view.latest_slices():
        if log and found.log_files:
            return root / found.log_files[-1].path
        if not log and found.base_file:
            return root / found.base_file.path
    raise AssertionError("no such file in the table")


@pytest.mark.parametrize(
    "name",
    [
        "v6_cow_clean",  # files of old commits are gone, as they should be
        "v6_mor_compaction_pending",
        "v6_mor_savepoint_restore",
        "v9_cow_insert_overwrite",
        "v9_mor_archived_lsm_mdt",
        "v9_mor_record_index_full_mdt",
    ],
)
def test_a_table_as_hudi_left_it_is_sound(name: str, tmp_path: Path) -> None:
    report = checked(unpacked(name, tmp_path))
    assert report.violations == []
    assert report.checked[READABLE_INSTANTS] > 0
    assert report.checked[check.PRESENT_FILES] > 0


def test_a_quick_look_opens_no_data_file(tmp_path: Path) -> None:
    root = unpacked("v6_mor_mdt_full", tmp_path)
    torn = live_file(root, log=False)
    torn.write_bytes(b"x" * torn.stat().st_size)
    report = checked(root, quick=True)
    assert report.is_sound
    assert not {check.READABLE_BASES, check.READABLE_LOGS, check.ROW_COUNTS} & set(report.checked)
    assert "quick" in report.notes[-1]
    assert not checked(root).is_sound
    torn.unlink()
    assert not checked(root, quick=True).is_sound


def test_every_fact_is_looked_at(tmp_path: Path) -> None:
    report = checked(unpacked("v6_mor_mdt_full", tmp_path))
    assert set(report.checked) == {
        READABLE_INSTANTS,
        check.PRESENT_FILES,
        check.READABLE_BASES,
        check.ROW_COUNTS,
        check.READABLE_LOGS,
        check.KNOWN_BASES,
        check.SAME_LISTING,
    }


def test_files_of_failed_writes_are_a_note_and_no_violation(tmp_path: Path) -> None:
    report = checked(unpacked("v6_mor_failed_served", tmp_path))
    assert report.is_sound
    assert ["3 files" in note for note in report.notes] == [True]


def test_a_missing_base_file_is_named(tmp_path: Path) -> None:
    root = unpacked("v6_mor_avro", tmp_path)
    gone = live_file(root, log=False)
    gone.unlink()
    report = checked(root)
    assert [v.path for v in report.violations] == [str(gone.relative_to(root))]
    assert "not on storage" in report.violations[0].problem


def test_a_missing_log_file_is_named(tmp_path: Path) -> None:
    root = unpacked("v9_mor_bucket_event_time", tmp_path)
    gone = live_file(root, log=True)
    gone.unlink()
    paths = {v.path for v in checked(root).violations}
    assert paths == {str(gone.relative_to(root))}


def test_a_base_file_cut_short_has_the_wrong_size_and_no_footer(tmp_path: Path) -> None:
    root = unpacked("v6_cow_014", tmp_path)
    cut = live_file(root, log=False)
    cut.write_bytes(cut.read_bytes()[:-10])
    problems = [v.problem for v in checked(root).violations]
    assert any("its commit says" in problem for problem in problems)
    assert any("PAR1" in problem for problem in problems)


def test_a_base_file_in_the_place_of_another_is_named(tmp_path: Path) -> None:
    root = unpacked("v6_cow_014", tmp_path)
    there = live_file(root, log=False)
    other = next(p for p in there.parent.glob("*.parquet") if p.name != there.name)
    there.write_bytes(other.read_bytes())
    problems = [v.problem for v in checked(root).violations]
    assert any(f"rows of the file {other.name}" in problem for problem in problems)


def test_a_log_in_the_place_of_another_and_one_that_grew_are_named(tmp_path: Path) -> None:
    root = unpacked("v9_mor_bucket_event_time", tmp_path)
    state = TableState.load(open_storage(str(root)), ReadOptions())
    logs = [log for found in state.view.latest_slices() for log in found.log_files]
    first = logs[0]
    second = next(log for log in logs if log.instant_time != first.instant_time)
    sound = (root / first.path).read_bytes()
    (root / first.path).write_bytes((root / second.path).read_bytes())
    problems = [v.problem for v in checked(root).violations]
    assert any(f"blocks of instant {second.instant_time}" in problem for problem in problems)
    (root / first.path).write_bytes(sound * 2)
    problems = [v.problem for v in checked(root).violations]
    assert any(f"has {2 * len(sound)} bytes" in problem for problem in problems)


def test_a_write_that_builds_on_one_whose_completed_file_is_gone_is_named(tmp_path: Path) -> None:
    root = unpacked("v6_cow_014", tmp_path)
    state = TableState.load(open_storage(str(root)), ReadOptions())
    writes = state.timeline.writes()
    bases = {
        stat.prev_commit
        for write in writes
        for stat in state.contents.commit_metadata(write).write_stats
    }
    lost = next(w for w in writes[1:] if w.requested_time in bases)
    (root / ".hoodie" / str(lost.file_name)).unlink()
    problems = [v.problem for v in checked(root).violations]
    assert any(f"builds on {lost.requested_time}" in problem for problem in problems)


def test_a_damaged_log_block_is_found(tmp_path: Path) -> None:
    problems = [v.problem for v in checked(unpacked("v9_mor_log_truncated", tmp_path)).violations]
    assert any("block at offset 0 is damaged" in problem for problem in problems)


def test_a_damaged_instant_is_named_and_files_are_left_alone(tmp_path: Path) -> None:
    root = unpacked("v6_cow_014", tmp_path)
    commit = next((root / ".hoodie").glob("*.commit"))
    commit.write_bytes(b'{"partitionToWriteStats": [}')
    report = checked(root)
    assert [v.path for v in report.violations] == [f".hoodie/{commit.name}"]
    assert report.checked.keys() == {READABLE_INSTANTS}
    assert "files were not checked" in report.notes[0]


def test_a_file_that_only_the_metadata_table_knows_is_a_violation(tmp_path: Path) -> None:
    root = unpacked("v6_cow_mdt_full", tmp_path)
    live = live_file(root, log=False)
    older = next(p for p in live.parent.glob("*.parquet") if p.name != live.name)
    older.unlink()
    report = checked(root)
    assert [(v.path, "metadata table" in v.problem) for v in report.violations] == [
        (str(older.relative_to(root)), True)
    ]


def test_a_write_that_the_metadata_table_does_not_know_is_named(tmp_path: Path) -> None:
    root = unpacked("v9_mor_types_full_mdt", tmp_path)
    timeline = root / ".hoodie" / "metadata" / ".hoodie" / "timeline"
    last = max(name.name.split(".")[0] for name in timeline.glob("*.deltacommit.requested"))
    for file in timeline.glob(f"{last}*"):
        file.unlink()
    report = checked(root)
    (violation,) = report.violations
    assert violation.path == ".hoodie/metadata"
    assert f"does not know deltacommit {last}" in violation.problem
    assert "which makes it good" in violation.next_step
    assert report.checked[check.PRESENT_FILES] > 0


OVERLAPS = {
    "v9_mor_nbcc_commit_time_overlap": True,
    "v9_mor_nbcc_commit_time_compacted": True,
    "v9_mor_nbcc_equal_order": True,
    "v9_mor_nbcc_equal_order_compacted": True,
    "v8_mor_nbcc_commit_time_overlap": True,
    # Every row has an ordering value of its own.
    "v9_mor_nbcc_overlap": False,
    "v9_mor_nbcc_overlap_compacted": False,
    "v8_mor_nbcc_overlap": False,
}


@pytest.mark.parametrize(("name", "is_tied"), OVERLAPS.items(), ids=list(OVERLAPS))
def test_slices_are_named_whose_rows_depend_on_the_order_of_logs(
    name: str, is_tied: bool, tmp_path: Path
) -> None:
    """Apache Hudi gives other rows of such a slice after a compaction."""
    report = checked(unpacked(name, tmp_path))
    named = [note for note in report.notes if "from writes that overlapped" in note]
    assert bool(named) == is_tied
    assert report.violations == []
