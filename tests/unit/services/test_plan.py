from __future__ import annotations

import json

from tidelake.services import PlannedFile, Service, ServicePlan


def test_a_plan_prints_as_a_page() -> None:
    plan = ServicePlan(
        service=Service.CLEAN,
        reason="3 commits since the last clean",
        files_deleted=(
            PlannedFile(path="p=1/a.parquet", size_bytes=3 << 20),
            PlannedFile(path="p=1/b.parquet", size_bytes=100),
        ),
        horizon="20261115000000000",
        facts={"partitions": 1},
    )
    assert str(plan).splitlines() == [
        "service              clean",
        "why                  3 commits since the last clean",
        "files deleted        2, 3.0 MiB",
        "time travel back to  20261115000000000",
        "partitions           1",
        "",
        "files deleted:",
        "  p=1/a.parquet  3.0 MiB",
        "  p=1/b.parquet  100 B",
    ]
    document = json.loads(json.dumps(plan.as_json()))
    assert document["files_deleted"] == {
        "files": 2,
        "bytes": (3 << 20) + 100,
        "paths": ["p=1/a.parquet", "p=1/b.parquet"],
    }
    assert document["horizon"] == "20261115000000000"
    assert not document["is_empty"]


def test_sizes_that_nobody_knows_are_not_made_up() -> None:
    files = (PlannedFile(path="x"), PlannedFile(path="y", size_bytes=1))
    plan = ServicePlan(service=Service.COMPACT, reason="asked for", files_out=files)
    assert "files out  2, 1 B at least" in str(plan)
    assert "  x  ?" in str(plan)


def test_a_long_list_is_cut_and_says_so() -> None:
    files = tuple(PlannedFile(path=f"f{n}", size_bytes=1) for n in range(23))
    plan = ServicePlan(service=Service.ARCHIVE, reason="asked for", files_deleted=files)
    assert plan.lines()[-1] == "  and 3 more"


def test_nothing_to_do_is_empty() -> None:
    plan = ServicePlan(service=Service.CLEAN, reason="nothing is old enough")
    assert plan.is_empty
    assert str(plan).endswith("nothing is old enough")
