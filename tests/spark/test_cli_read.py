from __future__ import annotations

import json
import shutil
import signal
import threading
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pyspark.errors import PySparkException

from tests.conftest import Unpack
from tests.golden import harness
from tidelake.cli import main
from tidelake.cli.session import start_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.usefixtures("spark")

NAME = "mor_avro_v8_trips_8i3u1d"


def json_rows(capsys: pytest.CaptureFixture[str], *argv: str) -> list[str]:
    assert main(["read", *argv, "--json"]) == 0
    return harness.canonical(json.loads(line) for line in capsys.readouterr().out.splitlines())


def owed(label: str) -> list[str]:
    question = next(q for q in harness.load(NAME).questions if q.label == label)
    assert isinstance(question.apache, list)
    return harness.canonical(question.apache)


def test_json_lines_are_the_rows_of_each_query(
    capsys: pytest.CaptureFixture[str], golden_table: Unpack
) -> None:
    root = str(golden_table(NAME))
    first, last = "20251220210109593", "20251220210129883"
    assert json_rows(capsys, root) == owed("snapshot")
    assert json_rows(capsys, root, "--query", "read_optimized") == owed("read_optimized")
    assert len(json_rows(capsys, root, "--as-of", first)) == 8
    window = ["--query", "incremental", "--start", last]
    assert json_rows(capsys, root, *window) == owed(f"incremental ({last}, now]")


def test_json_is_what_spark_prints_for_every_type(
    capsys: pytest.CaptureFixture[str], golden_table: Unpack, spark: SparkSession
) -> None:
    from tidelake import Table

    root = str(golden_table("v9_cow_types_ntz"))
    assert main(["read", root, "--json"]) == 0
    assert sorted(capsys.readouterr().out.splitlines()) == sorted(
        Table.open(spark, root).read().toJSON().collect()
    )


def test_columns_where_and_limit_shape_the_answer(
    capsys: pytest.CaptureFixture[str], golden_table: Unpack
) -> None:
    root = str(golden_table(NAME))
    argv = [root, "--columns", "fare,rider", "--where", "city = 'san_francisco'", "--limit", "2"]
    assert main(["read", *argv]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["fare", "rider"]
    assert lines[-1].startswith("2 rows shown, there are more")
    assert len(lines) == 5


def test_meta_columns_come_first(capsys: pytest.CaptureFixture[str], golden_table: Unpack) -> None:
    assert main(["read", str(golden_table(NAME)), "--meta"]) == 0
    header = capsys.readouterr().out.splitlines()[0].split()
    assert header[0] == "_hoodie_commit_time"
    assert header[5:] == ["ts", "uuid", "rider", "driver", "fare", "city"]


@pytest.mark.parametrize(
    ("argv", "named"),
    [
        (["--columns", "nothing"], "nothing"),
        (["--where", "nothing = 1"], "nothing"),
        (["--where", "city ="], "city ="),
        (["--as-of", "20000101000000000"], "20000101000000000"),
        (["--as-of", "yesterday"], "yesterday"),
        (["--option", "hoodie.datasource.query.typ=snapshot"], "hoodie.datasource.query.typ"),
    ],
)
def test_a_request_that_makes_no_sense_is_answered_in_two_lines(
    argv: list[str], named: str, capsys: pytest.CaptureFixture[str], golden_table: Unpack
) -> None:
    assert main(["read", str(golden_table(NAME)), *argv]) == 1
    streams = capsys.readouterr()
    assert streams.out == ""
    first, second = streams.err.splitlines()
    assert named in first
    assert second.startswith("  next: ")


@pytest.mark.parametrize("merge_path", ["auto", "mask", "rows"])
@pytest.mark.parametrize("shape", [[], ["--json"]])
def test_a_damaged_log_is_named_in_two_lines_however_it_is_merged(
    merge_path: str,
    shape: list[str],
    capsys: pytest.CaptureFixture[str],
    golden_table: Unpack,
    tmp_path: Path,
) -> None:
    root = Path(shutil.copytree(golden_table(NAME), tmp_path / "table"))
    for log in root.glob("*/.*.log.*"):
        data = bytearray(log.read_bytes())
        data[8] ^= 0xFF
        log.write_bytes(data)
    merge = f"hoodie.read.merge.path={merge_path}"
    assert main(["read", str(root), "--option", merge, *shape]) == 1
    first, second = capsys.readouterr().err.splitlines()[-2:]
    assert ".log.1_0-1139-3316 is damaged: no block stands at offset 0" in first
    assert second.startswith("  next: ")


def test_an_action_on_rows_of_a_damaged_log_says_so_without_frames_of_ours(
    golden_table: Unpack, spark: SparkSession, tmp_path: Path
) -> None:
    from tidelake import Table

    root = Path(shutil.copytree(golden_table(NAME), tmp_path / "table"))
    for log in root.glob("*/.*.log.*"):
        log.write_bytes(log.read_bytes()[:6] + b"\xff" + log.read_bytes()[7:])
    frame = Table.open(spark, str(root), {"hoodie.read.merge.path": "rows"}).read()
    with pytest.raises(PySparkException, match=r"CorruptFileError: .* is damaged: ") as failed:
        frame.collect()
    assert "read_slice.py" not in str(failed.value)


def test_ctrl_c_in_the_middle_of_a_query_ends_it_and_says_nothing(
    spark: SparkSession, capfd: pytest.CaptureFixture[str]
) -> None:
    before = signal.getsignal(signal.SIGINT)
    try:
        assert start_session("test") is spark
        capfd.readouterr()
        here = threading.main_thread().ident or 0
        threading.Timer(2, signal.pthread_kill, (here, signal.SIGINT)).start()
        with pytest.raises(KeyboardInterrupt):
            spark.range(2).selectExpr("java_method('java.lang.Thread', 'sleep', 15000L)").collect()
    finally:
        signal.signal(signal.SIGINT, before)
    assert spark.range(3).count() == 3
    assert "Traceback" not in capfd.readouterr().err
