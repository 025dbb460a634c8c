"""The verbs that need no Spark, run as a person or a program runs them."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Unpack
from tests.golden import harness
from tidelake.cli import main
from tidelake.cli.verbs import VERBS

MOR = "v9_mor_compaction_pending"


class FixedClock:
    """Ten minutes after the last commit of the table that most tests look at."""

    def now_ms(self) -> int:
        return 1_794_728_733_185 + 600_000

    def sleep_ms(self, delay_ms: int) -> None:
        raise AssertionError(f"a report has no reason to sleep for {delay_ms} ms")


def said(capsys: pytest.CaptureFixture[str], *argv: str, code: int = 0) -> str:
    assert main(argv, clock=FixedClock()) == code
    streams = capsys.readouterr()
    assert streams.err == ""
    return streams.out


def documents(text: str) -> list[Any]:
    return [json.loads(line) for line in text.splitlines()]


def test_describe_names_what_matters_about_a_table(
    capsys: pytest.CaptureFixture[str], golden_table: Unpack
) -> None:
    out = said(capsys, "describe", str(golden_table(MOR)))
    assert "MERGE_ON_READ table, version 9" in out
    assert "record key      order_id" in out
    assert "partitioned by  region" in out
    assert "last write  deltacommit 20261115074531438, 10 min ago" in out
    assert "20261115074529063  compaction  requested for 10 min: planned, not started" in out


def test_describe_as_json_is_one_document(
    capsys: pytest.CaptureFixture[str], golden_table: Unpack
) -> None:
    found = json.loads(said(capsys, "describe", str(golden_table(MOR)), "--json"))
    assert found["table_version"] == 9
    assert found["timeline"]["by_state"] == {"requested": 1, "inflight": 0, "completed": 5}
    assert [i["action"] for i in found["timeline"]["pending"]] == ["compaction"]
    assert found["files"]["log_files"] > 0


def test_timeline_shows_every_instant_and_explains_its_state(
    capsys: pytest.CaptureFixture[str], golden_table: Unpack
) -> None:
    lines = said(capsys, "timeline", str(golden_table(MOR))).splitlines()
    assert lines[0].split() == ["REQUESTED", "ACTION", "STATE", "COMPLETED", "TOOK", "AGE"]
    assert lines[1].split()[:4] == [
        "20261115074523622",
        "deltacommit",
        "completed",
        "20261115074525708",
    ]
    assert any(line.startswith("requested ") and "nothing of it is read" in line for line in lines)
    assert not any(line.startswith("inflight ") for line in lines), "only words that occur"


def test_timeline_as_json_is_one_instant_a_line(
    capsys: pytest.CaptureFixture[str], golden_table: Unpack
) -> None:
    found = documents(said(capsys, "timeline", str(golden_table(MOR)), "--json"))
    assert [i["state"] for i in found].count("completed") == 5
    assert found[0]["took_ms"] == 2086


def test_history_adds_archived_instants_in_front(
    capsys: pytest.CaptureFixture[str], golden_table: Unpack
) -> None:
    root = str(golden_table("v9_cow_archived_lsm"))
    active = documents(said(capsys, "timeline", root, "--json"))
    everything = documents(said(capsys, "timeline", root, "--history", "--json"))
    assert everything[-len(active) :] == active
    assert [i["archived"] for i in everything].count(True) == len(everything) - len(active) > 0


def test_slices_show_base_and_logs_of_each_file_group(
    capsys: pytest.CaptureFixture[str], golden_table: Unpack
) -> None:
    root = golden_table(MOR)
    found = documents(said(capsys, "slices", str(root), "--json"))
    for piece in found:
        files = [*piece["log_files"], *([piece["base_file"]] if piece["base_file"] else [])]
        assert files
        assert all((root / f["path"]).stat().st_size == f["size_bytes"] for f in files)
    text = said(capsys, "slices", str(root))
    assert f"{len(found)} file slices" in text
    assert all(piece["file_id"] in text for piece in found)


def test_slices_of_one_partition_leave_out_the_others(
    capsys: pytest.CaptureFixture[str], golden_table: Unpack
) -> None:
    found = documents(
        said(capsys, "slices", str(golden_table(MOR)), "--partition", "emea", "--json")
    )
    assert {piece["partition"] for piece in found} == {"emea"}


def test_an_unknown_partition_is_an_error(
    capsys: pytest.CaptureFixture[str], golden_table: Unpack
) -> None:
    assert main(["slices", str(golden_table(MOR)), "--partition", "nowhere"]) == 1
    assert "no partition 'nowhere'\n  next: " in capsys.readouterr().err


def test_schema_shows_types_and_roles(
    capsys: pytest.CaptureFixture[str], golden_table: Unpack
) -> None:
    lines = said(capsys, "schema", str(golden_table(MOR))).splitlines()
    assert [line.split()[0] for line in lines[1:]] == ["order_id", "ts", "amount", "note", "region"]
    assert any("record key" in line for line in lines)
    document = json.loads(said(capsys, "schema", str(golden_table(MOR)), "--json"))
    assert document["type"] == "struct"
    assert document["fields"][0]["name"] == "order_id"


def test_log_file_shows_blocks_by_table_and_path_or_by_path_alone(
    capsys: pytest.CaptureFixture[str], golden_table: Unpack
) -> None:
    root = golden_table(MOR)
    log = next(p for p in sorted((root / "emea").iterdir()) if ".log." in p.name)
    blocks = documents(said(capsys, "log-file", str(root), f"emea/{log.name}", "--json"))
    assert blocks == documents(said(capsys, "log-file", str(log), "--json"))
    assert blocks[0]["kind"] == "AVRO_DATA"
    assert blocks[0]["records"] > 0
    assert "SCHEMA" in blocks[0]["headers"]
    assert "rows in Avro" in said(capsys, "log-file", str(log))


def test_log_file_shows_what_a_crash_left(
    capsys: pytest.CaptureFixture[str], golden_table: Unpack
) -> None:
    root = golden_table("v9_mor_log_half_block_tail")
    logs = [p for p in sorted(root.rglob("*.log.*")) if ".hoodie" not in p.parts]
    blocks = [b for log in logs for b in documents(said(capsys, "log-file", str(log), "--json"))]
    damage = {b["damage"] for b in blocks if b["kind"] == "CORRUPT"}
    assert damage
    assert None not in damage


def test_stats_count_the_rows_of_base_files(
    capsys: pytest.CaptureFixture[str], golden_table: Unpack
) -> None:
    root = golden_table("v9_cow_insert_overwrite")
    golden = harness.load("v9_cow_insert_overwrite")
    snapshot = next(q.apache for q in golden.questions if q.kind == "snapshot")
    assert isinstance(snapshot, list)
    found = json.loads(said(capsys, "stats", str(root), "--json"))
    assert found["table"]["base_rows"] == len(snapshot)
    assert sum(part["base_rows"] for part in found["partitions"]) == len(snapshot)
    assert "base rows are the rows of the table" in said(capsys, "stats", str(root))


def test_check_of_a_sound_table(capsys: pytest.CaptureFixture[str], golden_table: Unpack) -> None:
    assert said(capsys, "check", str(golden_table(MOR))).endswith("The table is sound.\n")


def test_check_of_a_damaged_table_lists_violations_and_exits_with_1(
    capsys: pytest.CaptureFixture[str], golden_table: Unpack
) -> None:
    root = str(golden_table("v9_mor_log_truncated"))
    report = json.loads(said(capsys, "check", root, "--json", code=1))
    assert report["sound"] is False
    assert all(v["next_step"] for v in report["violations"])
    assert f"{len(report['violations'])} violations found." in said(capsys, "check", root, code=1)


@pytest.mark.parametrize(
    "verb", [(v.name, *v.actions[:1]) for v in VERBS if v.name != "log-file"], ids=" ".join
)
def test_a_path_that_does_not_exist_is_said_in_two_lines(
    verb: tuple[str, ...], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert main([*verb, str(tmp_path / "gone"), "--json"]) == 1
    streams = capsys.readouterr()
    assert streams.out == ""
    first, second = streams.err.splitlines()
    assert "gone" in first
    assert second.startswith("  next: ")


@pytest.mark.parametrize(
    "argv",
    [
        [],
        ["explode", "table"],
        ["describe"],
        ["describe", "table", "--option", "no-value"],
        ["read", "table", "--query", "all"],
        ["read", "table", "--limit", "-1"],
    ],
)
def test_a_wrong_command_line_exits_with_2_and_points_to_help(
    argv: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(argv)
    assert stopped.value.code == 2
    assert "--help`\n" in capsys.readouterr().err


@pytest.mark.parametrize(
    "argv",
    [
        ["--start", "20260101000000000"],
        ["--query", "incremental", "--as-of", "20260101000000000"],
        ["--query", "cdc", "--columns", "a"],
    ],
)
def test_contradictions_of_a_read_are_refused_before_anything_is_opened(
    argv: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["read", "nowhere", *argv]) == 1
    assert "nowhere" not in capsys.readouterr().err


@pytest.mark.parametrize("verb", [v.name for v in VERBS])
def test_help_of_every_verb_has_an_example(verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        main([verb, "--help"])
    assert stopped.value.code == 0
    assert f"example:\n  tidelake {verb} " in capsys.readouterr().out


def test_a_reader_that_stops_early_is_no_error(golden_table: Unpack) -> None:
    program = f"{sys.executable} -m tidelake.cli timeline {golden_table(MOR)} | head -1"
    done = subprocess.run(
        ["bash", "-o", "pipefail", "-c", program], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
