from __future__ import annotations

import pytest

from tidelake.formats.file_name import format_base, format_log, log_order, parse_base, parse_log

BASE = "97de74b1-2a8e-4bb7-874c-0a74e1f42a77-0_0-119-166_20240418172804498.parquet"
LOG = ".cee9af05-1111-4bb7-874c-0a74e1f42a77-0_20261115081029636.log.1_0-242-241"


def test_base_file_name_comes_apart_and_together() -> None:
    base = parse_base("city=oslo", BASE, 7)
    assert base is not None
    assert base.path == f"city=oslo/{BASE}"
    assert (base.file_id, base.write_token, base.instant_time, base.extension) == (
        "97de74b1-2a8e-4bb7-874c-0a74e1f42a77-0",
        "0-119-166",
        "20240418172804498",
        "parquet",
    )
    assert base.size_bytes == 7
    name = format_base(
        file_id=base.file_id,
        write_token=base.write_token,
        instant_time=base.instant_time,
        extension=base.extension,
    )
    assert name == BASE


@pytest.mark.parametrize("suffix", ["", ".cdc"])
def test_log_file_name_comes_apart_and_together(suffix: str) -> None:
    log = parse_log("", LOG + suffix, 9)
    assert log is not None
    assert log.path == LOG + suffix
    assert (log.file_id, log.instant_time, log.version, log.write_token) == (
        "cee9af05-1111-4bb7-874c-0a74e1f42a77-0",
        "20261115081029636",
        1,
        "0-242-241",
    )
    assert log.is_cdc == bool(suffix)
    name = format_log(
        file_id=log.file_id,
        instant_time=log.instant_time,
        version=log.version,
        write_token=log.write_token,
        suffix=log.suffix,
    )
    assert name == LOG + suffix


@pytest.mark.parametrize(
    "name", ["files-0000-0_0-5-4_20261115074309704010.hfile", "00000003-0_0-1-2_20240101000000.orc"]
)
def test_files_of_the_metadata_table_and_old_instants_are_base_files(name: str) -> None:
    assert parse_base("files", name, 1) is not None


@pytest.mark.parametrize(
    "name",
    [
        ".hoodie_partition_metadata",
        f".{BASE}.crc",
        f"{BASE}.tmp",
        LOG,
        "a_b_c.parquet",
        "x.parquet",
    ],
)
def test_foreign_files_are_no_base_files(name: str) -> None:
    assert parse_base("", name, 1) is None


@pytest.mark.parametrize(
    "name",
    [BASE, f"{LOG}.crc", f".{LOG}.crc", LOG[1:], ".commits_.archive.1_1-0-1", ".a_1.log.x_1-0-1"],
)
def test_foreign_files_are_no_log_files(name: str) -> None:
    assert parse_log("", name, 1) is None


def test_log_of_an_unnamed_writer_has_an_empty_token() -> None:
    log = parse_log("", ".f-0_20240101000000.log.3", 1)
    assert log is not None
    assert (log.write_token, log.version) == ("", 3)


def test_logs_sort_by_instant_then_version_as_a_number_then_token() -> None:
    names = [
        ".f_20240101000000.log.2_0-1-2",
        ".f_20240101000000.log.10_0-1-1",
        ".f_20240101000000.log.10_0-1-2",
        ".f_20240101000000.log.10_0-1-2.cdc",
        ".f_20240102000000.log.1_0-0-0",
    ]
    logs = [log for name in names if (log := parse_log("", name, 1)) is not None]
    logs.reverse()
    assert [log.name for log in sorted(logs, key=log_order)] == names
