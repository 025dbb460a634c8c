"""A log that was cut off is passed over, a log that was damaged is named."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.conftest import Unpack
from tidelake.errors import CorruptFileError
from tidelake.files import TornBlock, decide_slice
from tidelake.read.snapshot import plan_snapshot
from tidelake.read.state import TableState
from tidelake.read.torn_logs import refuse_damaged_logs
from tidelake.table import open_state

TABLES = ["v6_mor_avro", "v9_mor_bucket_event_time"]


@pytest.fixture
def table(request: pytest.FixtureRequest, golden_table: Unpack, tmp_path: Path) -> Path:
    return Path(shutil.copytree(golden_table(request.param), tmp_path / "table"))


def torn(state: TableState) -> list[TornBlock]:
    plan = plan_snapshot(state)
    return [b for task in plan.tasks for b in decide_slice(task, plan.spec).torn]


def newest_log(table: Path) -> Path:
    return max(
        (p for p in table.rglob(".*.log.*") if ".hoodie" not in p.parts),
        key=lambda p: (p.name.split("_")[1], p.name.split(".log.")[1]),
    )


@pytest.mark.parametrize("table", TABLES, indirect=True)
def test_a_flipped_byte_in_a_finished_log_is_damage(table: Path) -> None:
    log = newest_log(table)
    data = bytearray(log.read_bytes())
    data[2] ^= 0xFF
    log.write_bytes(data)
    state = open_state(str(table))
    with pytest.raises(CorruptFileError) as refused:
        refuse_damaged_logs(state, torn(state))
    assert refused.value.path == str(log.relative_to(table))


@pytest.mark.parametrize("table", TABLES, indirect=True)
@pytest.mark.parametrize("tail", [b"", b"#HUDI#\0\0\0", b"litter"])
def test_a_short_log_and_litter_behind_a_whole_one_are_passed_over(
    table: Path, tail: bytes
) -> None:
    log = newest_log(table)
    data = log.read_bytes()
    log.write_bytes(data + tail if tail else data[:-20])
    state = open_state(str(table))
    found = torn(state)
    assert [block.path for block in found] == [str(log.relative_to(table))]
    refuse_damaged_logs(state, found)
