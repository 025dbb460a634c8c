"""A log that was cut off is passed over, a log that was damaged is named, however it is read."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable
from pathlib import Path

import pyarrow as pa
import pytest

from tests.conftest import Unpack
from tests.golden.local_table import masked_slice
from tidelake.errors import CorruptFileError
from tidelake.files import ReadSpec, SliceTask, read_slice
from tidelake.formats.log_block import BlockKind, decode_blocks
from tidelake.operations.open_table import open_state
from tidelake.read.incremental import plan_incremental
from tidelake.read.snapshot import plan_snapshot

TABLES = ["v6_mor_avro", "v9_mor_bucket_event_time"]
Read = Callable[[SliceTask, ReadSpec], Iterable[pa.RecordBatch]]


@pytest.fixture
def table(request: pytest.FixtureRequest, golden_table: Unpack, tmp_path: Path) -> Path:
    return Path(shutil.copytree(golden_table(request.param), tmp_path / "table"))


@pytest.fixture(params=["true", "false"], ids=["metadata table", "storage"])
def listed_by(request: pytest.FixtureRequest) -> dict[str, str]:
    return {"hoodie.metadata.enable": request.param}


def newest_log(table: Path) -> Path:
    return max(
        (p for p in table.rglob(".*.log.*") if ".hoodie" not in p.parts),
        key=lambda p: (p.name.split("_")[1], p.name.split(".log.")[1]),
    )


def flip(log: Path) -> None:
    data = bytearray(log.read_bytes())
    data[len(b"#HUDI#") + 2] ^= 0xFF
    log.write_bytes(data)


@pytest.mark.parametrize("table", TABLES, indirect=True)
@pytest.mark.parametrize("read", [read_slice, masked_slice])
def test_a_length_that_lies_in_a_finished_log_is_damage(
    table: Path, read: Read, listed_by: dict[str, str]
) -> None:
    log = newest_log(table)
    flip(log)
    plan = plan_snapshot(open_state(str(table), listed_by))
    with pytest.raises(CorruptFileError, match="no block stands at offset 0") as refused:
        [batch for task in plan.tasks for batch in read(task, plan.spec)]
    assert refused.value.path == str(log.relative_to(table))


@pytest.mark.parametrize("table", TABLES, indirect=True)
def test_an_incremental_query_names_a_damaged_log_too(table: Path) -> None:
    flip(newest_log(table))
    plan = plan_incremental(open_state(str(table)))
    with pytest.raises(CorruptFileError, match="no block stands at offset 0"):
        [batch for task in plan.tasks for batch in read_slice(task, plan.spec)]


@pytest.mark.parametrize("table", TABLES, indirect=True)
@pytest.mark.parametrize("read", [read_slice, masked_slice])
@pytest.mark.parametrize("tail", [b"", b"#HUDI#\0\0\0", b"litter"])
def test_a_short_log_and_litter_behind_a_whole_one_are_passed_over(
    table: Path, read: Read, tail: bytes, listed_by: dict[str, str]
) -> None:
    log = newest_log(table)
    data = log.read_bytes()
    log.write_bytes(data + tail if tail else data[:-20])
    assert BlockKind.CORRUPT in [block.kind for block in decode_blocks(log.read_bytes())]
    plan = plan_snapshot(open_state(str(table), listed_by))
    assert [batch for task in plan.tasks for batch in read(task, plan.spec)]
