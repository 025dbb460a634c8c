from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tidelake import Commit, ConfigError, PlanRemovedError, Table
from tidelake.cli.main import main
from tidelake.model import Action, State

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SCHEMA = "id bigint, ts bigint, part string, note string"


def logged(spark: SparkSession, path: Path, *, parts: int = 3, version: int = 9) -> Table:
    """Return a table with a base file and a log in each partition."""
    table = Table.create(
        spark,
        str(path),
        SCHEMA,
        key="id",
        partition_by="part",
        ordering="ts",
        table_type="MERGE_ON_READ",
        table_version=version,
        options={"hoodie.index.type": "BUCKET", "hoodie.bucket.index.num.buckets": "1"},
    )
    rows = spark.range(60).selectExpr("id", "1 ts", f"concat('p', id % {parts}) part", "'x' note")
    table.upsert(rows)
    table.upsert(rows.where("id % 4 = 0").selectExpr("id", "2 ts", "part", "'y' note"))
    table.delete(rows.where("id % 10 = 3"))
    return table


def rows_of(table: Table) -> list[tuple[object, ...]]:
    return sorted(tuple(row) for row in table.read().collect())


@pytest.mark.sampled(1)
@pytest.mark.parametrize("version", [6, 9])
def test_plan_and_run(spark: SparkSession, tmp_path: Path, version: int) -> None:
    table = logged(spark, tmp_path / "t", version=version)
    before = rows_of(table)
    shown = table.plan("compact")
    assert len(shown.files_out) == 3
    assert len(shown.files_in) == 9
    planned = table.compact.schedule()
    assert planned is not None
    table.upsert(spark.createDataFrame([(0, 9, "p0", "later")], SCHEMA))
    commit = table.compact.run(planned)
    assert (commit.action, commit.operation) == (Action.COMMIT, "COMPACT")
    assert (commit.updates, commit.deletes, commit.files_written) == (15, 6, 3)
    assert rows_of(table) == [(0, 9, "p0", "later"), *before[1:]]
    assert isinstance(table.compact(), Commit)
    assert table.compact() is None
    assert sorted(tuple(r) for r in table.read_optimized().collect()) == rows_of(table)


@pytest.mark.deep
def test_more_groups_than_cores_are_compacted_in_several_jobs(
    spark: SparkSession, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    table = logged(spark, tmp_path / "t", parts=12)
    before = rows_of(table)
    logged_groups = sum(bool(piece.log_files) for piece in table.slices())
    assert logged_groups > 8
    capfd.readouterr()
    commit = table.compact(options={"tidelake.progress": "bar"})
    assert commit is not None
    assert commit.files_written == logged_groups
    assert f"{logged_groups} of {logged_groups} files" in capfd.readouterr().err
    assert rows_of(table) == before


def test_a_write_compacts_when_it_is_due(spark: SparkSession, tmp_path: Path) -> None:
    table = logged(spark, tmp_path / "t")
    options = {"hoodie.compact.inline": "true", "hoodie.compact.inline.max.delta.commits": "4"}
    one = spark.createDataFrame([(0, 9, "p0", "later")], SCHEMA)
    table.upsert(one, options=options)
    assert table.timeline()[-1].planned_as is Action.COMPACTION
    assert table.timeline()[-1].state is State.COMPLETED
    assert all(not piece.log_files for piece in table.slices())
    plan_only = {"hoodie.compact.schedule.inline": "true"}
    table.upsert(one, options={**plan_only, "hoodie.compact.inline.max.delta.commits": "1"})
    assert table.timeline()[-1].state is State.REQUESTED


def test_bad_requests_are_refused(spark: SparkSession, tmp_path: Path) -> None:
    table = logged(spark, tmp_path / "t")
    with pytest.raises(PlanRemovedError) as caught:
        table.compact.run("20260101000000000")
    assert caught.value.next_step
    with pytest.raises(ConfigError, match="set one of the two"):
        table.compact(
            options={"hoodie.compact.inline": "true", "hoodie.compact.schedule.inline": "true"}
        )


@pytest.mark.deep
def test_the_command_line(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table = logged(spark, tmp_path / "t")
    path = str(tmp_path / "t")
    assert main(["compact", path, "--dry-run", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["files_out"]["files"] == 3
    assert main(["compact", path, "--schedule", "--json"]) == 0
    planned = json.loads(capsys.readouterr().out)["instant"]
    assert main(["compact", path, "--run", "20260101000000000"]) == 1
    assert planned in capsys.readouterr().err
    assert main(["compact", path, "--run", planned, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["files_written"] == 3
    assert main(["compact", path]) == 0
    assert "Nothing to compact" in capsys.readouterr().out
    assert all(not piece.log_files for piece in table.slices())
