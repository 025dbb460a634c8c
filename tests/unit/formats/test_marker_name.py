from __future__ import annotations

import pytest

from tests.golden.timelines import meta_files
from tidelake.formats.marker_name import (
    Marker,
    MarkerKind,
    heartbeat_path,
    is_served_list,
    marker_folder,
    marker_path,
    parse_marker,
)

FAILED = "20261115081400326"


def test_markers_that_hudi_left_are_spelt_the_same_by_us() -> None:
    folder = marker_folder(FAILED)
    found = [p for p in meta_files("v9_mor_failed_write_left") if p.startswith(f"{folder}/")]
    assert len(found) == 4
    for path in found:
        marker = parse_marker(path[len(folder) + 1 :])
        assert marker is not None
        assert marker.kind is MarkerKind.CREATE
        assert FAILED in marker.path
        assert marker_path(folder, marker.path, marker.kind) == path


@pytest.mark.parametrize(("table_version", "kind"), [(6, "APPEND"), (8, "CREATE"), (9, "CREATE")])
def test_log_files_have_the_kind_that_apache_expects(table_version: int, kind: str) -> None:
    assert MarkerKind.of_log(table_version) == kind


def test_a_partition_may_look_like_a_marker() -> None:
    path = "p.marker.CREATE/f-0_1-2-3_20260101000000000.parquet"
    name = marker_path("", path, MarkerKind.MERGE)[1:]
    assert parse_marker(name) == Marker(path=path, kind=MarkerKind.MERGE)


@pytest.mark.parametrize("name", ["MARKERS.type", "MARKERS0", "f.parquet", "f.marker.", ".marker."])
def test_other_files_are_no_markers(name: str) -> None:
    assert parse_marker(name) is None


def test_lists_of_the_timeline_server_are_known_by_name() -> None:
    assert is_served_list("MARKERS17")
    assert not is_served_list("MARKERS.type")


def test_the_heartbeat_lies_where_apache_looks() -> None:
    assert heartbeat_path(FAILED) == f".hoodie/.heartbeat/{FAILED}"
