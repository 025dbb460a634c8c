"""The verbs that tend a table, run as a person or a program runs them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.golden import harness
from tests.golden.local_table import LocalTable
from tidelake.cli import main

VERSIONS = ("--option", "hoodie.clean.fileversions.retained=1")


@pytest.fixture
def root(tmp_path: Path) -> str:
    return str(harness.unpack(harness.load("v9_cow_bucket_event_time"), tmp_path))


def said(capsys: pytest.CaptureFixture[str], *argv: str, code: int = 0) -> str:
    assert main(argv) == code
    streams = capsys.readouterr()
    return streams.err if code else streams.out


def told(capsys: pytest.CaptureFixture[str], *argv: str) -> Any:
    return json.loads(said(capsys, *argv, "--json"))


def rows(root: str) -> list[str]:
    return sorted(LocalTable(root, {"hoodie.metadata.enable": "false"}).read().collect())


def files(root: str) -> set[str]:
    return {str(p.relative_to(root)) for p in Path(root).rglob("*") if p.is_file()}


def test_a_clean_does_what_its_dry_run_says(capsys: pytest.CaptureFixture[str], root: str) -> None:
    before, answer = files(root), rows(root)
    plan = told(capsys, "clean", root, *VERSIONS, "--dry-run")
    assert files(root) == before
    assert plan["files_deleted"]["files"] > 0
    page = said(capsys, "clean", root, *VERSIONS, "--dry-run")
    assert f"files deleted        {plan['files_deleted']['files']}, " in page
    done = told(capsys, "clean", root, *VERSIONS)
    assert [c["files_deleted"] for c in done["cleans"]] == [plan["files_deleted"]["files"]]
    assert before - files(root) >= set(plan["files_deleted"]["paths"])
    assert rows(root) == answer
    assert said(capsys, "clean", root, *VERSIONS) == "there is nothing to clean\n"


def test_a_clean_in_two_steps(capsys: pytest.CaptureFixture[str], root: str) -> None:
    instant = told(capsys, "clean", root, *VERSIONS, "--schedule")["scheduled"]
    assert f"{instant}  clean" in said(capsys, "timeline", root)
    assert f"clean {instant}: " in said(capsys, "clean", root, "--run", instant)
    assert "completed at" in said(capsys, "clean", root, "--run", instant, code=1)
    assert told(capsys, "clean", root, *VERSIONS, "--schedule")["scheduled"] is None
    with pytest.raises(SystemExit) as left:
        main(["clean", root, "--schedule", "--dry-run"])
    assert left.value.code == 2


def test_an_archival_does_what_its_dry_run_says(
    capsys: pytest.CaptureFixture[str], root: str
) -> None:
    given = ("hoodie.clean.commits.retained=1", "hoodie.keep.min.commits=2")
    options = [f"--option={o}" for o in (*given, "hoodie.keep.max.commits=3")]
    before, answer = files(root), rows(root)
    # The metadata table holds instants back; a write of ours that does not keep it lets them go.
    Path(root, ".hoodie/hoodie.properties").write_text(
        Path(root, ".hoodie/hoodie.properties")
        .read_text()
        .replace("partitions=files", "partitions=")
    )
    plan = told(capsys, "archive", root, *options, "--dry-run")
    assert plan["facts"]["instants archived"] > 0
    done = told(capsys, "archive", root, *options)
    assert len(done["instants"]) == plan["facts"]["instants archived"]
    assert before - files(root) == set(plan["files_deleted"]["paths"])
    history = said(capsys, "timeline", root, "--history")
    assert history.count("completed, archived") == len(done["instants"])
    assert rows(root) == answer
    assert said(capsys, "archive", root, *options) == "there is nothing to archive\n"


def test_a_savepoint_and_the_way_back(capsys: pytest.CaptureFixture[str], root: str) -> None:
    instants = [json.loads(x) for x in said(capsys, "timeline", root, "--json").splitlines()]
    writes = [i["requested_time"] for i in instants if i["action"] == "commit"]
    answer = sorted(
        LocalTable(root, {"hoodie.metadata.enable": "false"}).read(as_of=writes[-2]).collect()
    )
    assert f"{writes[-2]} is kept, with" in said(capsys, "savepoint", root, writes[-2])
    plan = told(capsys, "restore", root, writes[-2], "--dry-run")
    assert plan["facts"]["instants taken back"] == writes[-1]
    done = told(capsys, "restore", root, writes[-2])
    assert done["instants"] == [writes[-1]]
    assert done["files_deleted"] == plan["files_deleted"]["files"] > 0
    assert rows(root) == answer
    assert "next: delete the savepoint" in said(capsys, "rollback", root, writes[-2], code=1)
    assert "is not kept any more" in said(capsys, "savepoint", root, writes[-2], "--delete")
    assert "has no savepoint" in said(capsys, "restore", root, writes[-2], code=1)


def test_a_rollback_does_what_its_dry_run_says(
    capsys: pytest.CaptureFixture[str], root: str
) -> None:
    instants = [json.loads(x) for x in said(capsys, "timeline", root, "--json").splitlines()]
    writes = [i["requested_time"] for i in instants if i["action"] == "commit"]
    before = files(root)
    plan = told(capsys, "rollback", root, writes[-1], "--dry-run")
    assert files(root) == before
    done = told(capsys, "rollback", root, writes[-1])
    assert done["files_deleted"] == plan["files_deleted"]["files"] > 0
    assert "is not on the timeline" in said(capsys, "rollback", root, writes[-1], code=1)
    assert said(capsys, "rollback", root, "--failed") == "no write has failed\n"
    assert "either an instant or --failed" in said(capsys, "rollback", root, code=1)


def test_failed_writes_go_on_request(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    root = str(harness.unpack(harness.load("v9_mor_failed_write_left"), tmp_path))
    answer = rows(root)
    done = told(capsys, "rollback", root, "--failed")
    assert len(done["instants"]) == 1
    assert rows(root) == answer


def test_contradicting_options_are_refused(capsys: pytest.CaptureFixture[str], root: str) -> None:
    before = files(root)
    error = said(capsys, "archive", root, "--option", "hoodie.keep.min.commits=5", code=1)
    assert "hoodie.keep.min.commits=5 would archive commits" in error
    assert "next: set hoodie.keep.min.commits above 10" in error
    assert files(root) == before
