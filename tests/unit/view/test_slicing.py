"""Which files belong to which slice, and in which order they merge."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tidelake.config import TimeBasis
from tidelake.model import FileGroupId, FileSlice
from tidelake.storage import FileInfo
from tidelake.view import (
    FileGroup,
    group_files,
    join_onto_base,
    slice_by_completion_time,
    slice_by_name,
)

ID = "f-0"


def group(*names: str) -> FileGroup:
    (only,) = group_files("p", [FileInfo(name, 1, 0) for name in names])
    return only


def base(instant: str) -> str:
    return f"{ID}_1-0-1_{instant}.parquet"


def log(instant: str, version: int = 1, token: str = "1-0-1") -> str:
    return f".{ID}_{instant}.log.{version}_{token}"


def times(**completed: str) -> Callable[[str], str | None]:
    return {name.removeprefix("t"): at for name, at in completed.items()}.get


def shape(slices: list[FileSlice]) -> list[tuple[str, bool, list[str]]]:
    return [
        (s.base_instant_time, s.base_file is not None, [f.instant_time for f in s.log_files])
        for s in slices
    ]


#: The worked example of RFC-66: base [10,20], logs [21,40], [30,50], [35,90], compaction [60,80].
RFC = group(base("10"), base("60"), log("21"), log("30"), log("35"))
COMPLETED = {"t10": "20", "t21": "40", "t30": "50", "t35": "90", "t60": "80"}


@pytest.mark.parametrize(
    ("now", "slices"),
    [
        ("70", [("10", True, ["21", "30"])]),
        ("85", [("10", True, ["21", "30"]), ("60", True, [])]),
        ("99", [("10", True, ["21", "30"]), ("60", True, ["35"])]),
    ],
)
def test_a_log_belongs_to_the_newest_base_requested_before_it_completed(
    now: str, slices: list[tuple[str, bool, list[str]]]
) -> None:
    seen = times(**{name: at for name, at in COMPLETED.items() if at <= now})
    assert shape(slice_by_completion_time(RFC, seen)) == slices


def test_a_log_that_completes_when_a_compaction_is_requested_lands_behind_it() -> None:
    found = slice_by_completion_time(
        group(base("10"), base("60"), log("21")), times(t10="20", t60="80", t21="60")
    )
    assert shape(found) == [("10", True, []), ("60", True, ["21"])]


def test_uncommitted_files_neither_cut_nor_are_read() -> None:
    found = slice_by_completion_time(
        group(base("10"), base("60"), log("21"), log("30")), times(t10="20", t21="70")
    )
    assert shape(found) == [("10", True, ["21"])]


def test_overlapping_logs_follow_each_other_by_completion_time_unless_asked_otherwise() -> None:
    overlapping = group(base("10"), log("21"), log("22"), log("23"))
    seen = times(t10="20", t21="50", t22="30", t23="40")
    assert shape(slice_by_completion_time(overlapping, seen)) == [("10", True, ["22", "23", "21"])]
    by_request = slice_by_completion_time(overlapping, seen, order=TimeBasis.REQUESTED)
    assert shape(by_request) == [("10", True, ["21", "22", "23"])]


def test_a_group_of_logs_only_is_one_slice_named_by_its_first_log() -> None:
    found = slice_by_completion_time(group(log("21"), log("22")), times(t21="50", t22="30"))
    assert shape(found) == [("22", False, ["22", "21"])]


def test_a_log_older_than_every_remaining_base_is_never_in_the_newest_slice() -> None:
    found = slice_by_completion_time(
        group(base("60"), log("21"), log("70")), times(t60="80", t21="40", t70="90")
    )
    assert shape(found) == [("21", False, ["21"]), ("60", True, ["70"])]


def test_the_output_of_a_log_compaction_stands_where_its_newest_input_stood() -> None:
    found = slice_by_completion_time(
        group(base("10"), log("21"), log("30"), log("35")),
        times(t10="20", t21="25", t30="33", t35="40"),
        compacted_at={"35": "25"},
    )
    assert shape(found) == [("10", True, ["21", "35", "30"])]


def test_up_to_version_7_the_name_of_a_log_says_its_slice() -> None:
    found = slice_by_name(
        group(base("10"), base("60"), log("10", 2), log("10", 1), log("60")),
        times(t10="20", t60="80"),
    )
    assert shape(found) == [("10", True, ["10", "10"]), ("60", True, ["60"])]
    assert [f.version for f in found[0].log_files] == [1, 2]


def test_logs_behind_a_pending_compaction_join_the_slice_before_it() -> None:
    files = group(base("10"), base("60"), log("10"), log("60"))
    slices = slice_by_name(files, times(t10="20"), opened_by={"60"})
    assert shape(slices) == [("10", True, ["10"]), ("60", False, ["60"])]
    joined = join_onto_base(slices, {"60"})
    assert joined is not None
    assert shape([joined]) == [("10", True, ["10", "60"])]


def test_a_slice_whose_first_deltacommit_failed_is_not_seen() -> None:
    assert slice_by_name(group(log("30")), times(t10="20")) == []


def test_log_versions_sort_as_numbers_and_tokens_as_text() -> None:
    files = group(base("10"), log("10", 10), log("10", 9), log("10", 9, "10-0-1"))
    (only,) = slice_by_name(files, times(t10="20"))
    assert [(f.version, f.write_token) for f in only.log_files] == [
        (9, "1-0-1"),
        (9, "10-0-1"),
        (10, "1-0-1"),
    ]


def test_change_logs_and_foreign_files_belong_to_no_group() -> None:
    files = [
        FileInfo(base("10"), 5, 0),
        FileInfo(f"{log('10')}.cdc", 5, 0),
        FileInfo(".hoodie_partition_metadata", 5, 0),
        FileInfo("notes.txt", 5, 0),
    ]
    (only,) = group_files("p", files)
    assert only.id == FileGroupId("p", ID)
    assert (len(only.base_files), only.log_files) == (1, ())
