"""Two records of one key: what holds afterwards."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest

from tidelake.errors import Malformed
from tidelake.formats.metadata_record import (
    ColumnRange,
    FileEntry,
    FileList,
    MetadataRecord,
    RecordLocation,
    SecondaryEntry,
)
from tidelake.metadata.merge import is_live, merge


def files(**sizes: int) -> FileList:
    """Return a listing; a size of 0 stands for a tombstone."""
    return FileList(entries={name: FileEntry(size, size == 0) for name, size in sizes.items()})


FILES = [
    # older           newer           merged
    (files(a=1),      files(b=2),      files(a=1, b=2)),
    (files(a=1),      files(a=5),      files(a=5)),
    (files(a=5),      files(a=1),      files(a=5)),
    (files(a=1, b=2), files(a=0),      files(b=2)),
    (files(b=2),      files(a=0),      files(b=2, a=0)),
    (files(a=0),      files(a=0),      files(a=0)),
    (files(a=0),      files(a=3),      files(a=3)),
]  # fmt: skip


@pytest.mark.parametrize(("older", "newer", "merged"), FILES)
def test_listings(older: FileList, newer: FileList, merged: FileList) -> None:
    assert merge(older, newer) == merged


def test_tombstone_in_the_logs_reaches_the_base_file_however_it_is_merged() -> None:
    base, log_1, log_2 = files(a=1, b=1), files(a=0), files(c=1)
    assert merge(merge(base, log_1), log_2) == merge(base, merge(log_1, log_2)) == files(b=1, c=1)


BASE = ColumnRange(
    file_name="f",
    column="c",
    minimum=3,
    maximum=5,
    is_known=True,
    value_count=10,
    null_count=1,
    is_deleted=False,
    is_tight=False,
)


def test_ranges_are_joined_and_counts_added() -> None:
    newer = replace(BASE, minimum=1, maximum=4, value_count=2, null_count=0)
    assert merge(BASE, newer) == replace(BASE, minimum=1, maximum=5, value_count=12, null_count=1)


def test_range_without_values_leaves_the_other_as_it_is() -> None:
    empty = replace(BASE, minimum=None, maximum=None, value_count=0, null_count=0)
    assert merge(BASE, empty) == BASE
    assert merge(empty, BASE) == BASE


@pytest.mark.parametrize(
    "newer",
    [replace(BASE, minimum=4, is_tight=True), replace(BASE, minimum=4, is_deleted=True)],
    ids=["tight", "deleted"],
)
def test_tight_or_deleted_range_replaces_the_older_one(newer: ColumnRange) -> None:
    assert merge(BASE, newer) == newer


def test_range_after_a_deleted_one_stands_alone() -> None:
    newer = replace(BASE, minimum=4)
    assert merge(replace(BASE, is_deleted=True), newer) == newer


@pytest.mark.parametrize(
    "newer",
    [
        replace(BASE, minimum=None, maximum=None, is_known=False),
        replace(BASE, minimum="a", maximum="b"),
    ],
    ids=["unknown", "of another type"],
)
def test_range_that_cannot_be_compared_makes_the_whole_unknown(newer: ColumnRange) -> None:
    merged = merge(BASE, newer)
    assert isinstance(merged, ColumnRange)
    assert not merged.is_known


def test_missing_count_makes_the_sum_unknown() -> None:
    merged = merge(BASE, replace(BASE, null_count=None))
    assert isinstance(merged, ColumnRange)
    assert (merged.null_count, merged.value_count) == (None, 20)


def test_newest_location_wins() -> None:
    here, there = (RecordLocation(partition=p, file_id="f") for p in ("here", "there"))
    assert merge(here, there) == there


def test_deleted_key_is_gone_until_written_again() -> None:
    here = RecordLocation(partition="p", file_id="f")
    assert merge(here, None) is None
    assert merge(None, here) == here


def test_key_that_changes_its_type_is_malformed() -> None:
    kinds: list[MetadataRecord] = [files(), BASE, SecondaryEntry(is_deleted=False), files()]
    for older, newer in pairwise(kinds):
        with pytest.raises(Malformed):
            merge(older, newer)


@pytest.mark.parametrize(
    ("record", "live"),
    [
        (None, False),
        (BASE, True),
        (replace(BASE, is_deleted=True), False),
        (SecondaryEntry(is_deleted=True), False),
        (files(a=0), True),
    ],
)
def test_what_is_left_after_the_last_merge(record: MetadataRecord | None, live: bool) -> None:
    assert is_live(record) is live
