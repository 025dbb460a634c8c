"""Time what keeping a table costs: the metadata table in a small commit, clean and archival."""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from bench.critical_section import small_row
from bench.measure import AnswersDifferError, Goal, show_verdicts
from bench.peers import COW, MOR, ApacheHudi, Engine, Tidelake
from bench.runs import CORES, Runs, judge, save, setting, show, timed
from bench.tables import base_rows, round_rows
from tests.interop import apache_hudi
from tests.writes.cases import Case
from tests.writes.model import Do, Step
from tests.writes.staged_writer import StagedWriter
from tidelake import Table
from tidelake.env import SystemClock

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_OURS, _APACHE = "tidelake", "hudi"
_WITH = " with metadata table"
_ROWS = 100_000
_CHANGE = 100
_BUCKET = {"hoodie.index.type": "BUCKET", "hoodie.bucket.index.num.buckets": "1"}
#: What a commit may take that keeps the metadata table: the upkeep is at most 30 % of it.
_AT_MOST = 1 / 0.7
_KEPT = "10"
_LATER = 20
_UNATTENDED = (("hoodie.clean.automatic", "false"), ("hoodie.archive.automatic", "false"))
_KEEP = {
    "hoodie.clean.commits.retained": _KEPT,
    "hoodie.keep.min.commits": "20",
    "hoodie.keep.max.commits": "30",
    "hoodie.metadata.enable": "false",
}


def main(arguments: Sequence[str]) -> None:
    """Time both, print each ratio beside its target."""
    parser = argparse.ArgumentParser(prog="python -m bench upkeep", description=__doc__)
    parser.add_argument("--runs", type=int, default=8, help="measured commits of each engine")
    parser.add_argument("--commits", type=int, default=1_000, help="commits of the long table")
    parser.add_argument("--name", default="", help="name of a results file; none by default")
    args = parser.parse_args(arguments)

    circumstances = setting(runs=args.runs, commits=args.commits)
    spark = apache_hudi.session(cores=CORES, memory="4g")
    measured: dict[str, dict[str, Runs]] = {}
    verdicts = []
    with tempfile.TemporaryDirectory(prefix="tidelake-bench-") as made:
        folder = Path(made)
        for short, table_type in (("cow", COW), ("mor", MOR)):
            case = f"small commit, {short}"
            measured[case] = _small_commits(spark, folder / short, table_type, args.runs)
            show(case, measured[case])
            verdicts += judge(
                case,
                measured[case],
                [Goal(ours=f"{_OURS}{_WITH}", than=_OURS, at_most=_AT_MOST)],
            )
        for case, found in _services(spark, folder, args.commits).items():
            measured[case] = found
            show(case, found)
            verdicts += judge(case, found, [Goal(ours=_OURS, than=_APACHE, at_most=1 / 5)])
    show_verdicts(verdicts)
    spark.stop()
    if args.name:
        save(args.name, circumstances, measured, verdicts)


def _small_commits(
    spark: SparkSession, folder: Path, table_type: str, runs: int
) -> dict[str, Runs]:
    """Upsert a few rows, with and without a metadata table, turn about."""
    kept = {"hoodie.metadata.enable": "true"}
    bare = {"hoodie.metadata.enable": "false"}
    engines: list[Engine] = [
        Tidelake(spark=spark, name=_OURS, options={**_BUCKET, **bare}),
        Tidelake(spark=spark, name=f"{_OURS}{_WITH}", options={**_BUCKET, **kept}),
        ApacheHudi(spark=spark, name=_APACHE, options={**_BUCKET, **bare}),
        ApacheHudi(spark=spark, name=f"{_APACHE}{_WITH}", options={**_BUCKET, **kept}),
    ]
    first = base_rows(spark, _ROWS).cache()
    for engine in engines:
        engine.load(first, folder / engine.name, table_type)
    found = {engine.name: Runs() for engine in engines}
    warm_ups = 2
    for number in range(1, warm_ups + runs + 1):
        change = round_rows(spark, _ROWS, number).orderBy("ts", "id").limit(_CHANGE).cache()
        change.count()
        shift = number % len(engines)
        for engine in engines[shift:] + engines[:shift]:
            seconds, cpu = timed(partial(engine.change, change, folder / engine.name, table_type))
            if number > warm_ups:
                found[engine.name].seconds.append(seconds)
                found[engine.name].cpu.append(cpu)
        change.unpersist()
    first.unpersist()
    for engine in engines:
        lists = (folder / engine.name / ".hoodie" / "metadata" / "files").exists()
        if lists != engine.name.endswith(_WITH):
            raise AnswersDifferError(f"{engine.name} has {'a' if lists else 'no'} metadata table")
    return found


def _services(spark: SparkSession, folder: Path, commits: int) -> dict[str, dict[str, Runs]]:
    """Clean and archive a table of many commits, and once more after a few others."""
    writer = StagedWriter()
    case = Case(version=9, mor=False, index="BUCKET", extra=_UNATTENDED)
    source = folder / "long"
    writer.create(source, case)
    for number in range(commits):
        _write(writer, source, case, number)
    found: dict[str, dict[str, Runs]] = {}

    def note(what: str, engine: str, seconds: float) -> None:
        found.setdefault(what, {}).setdefault(engine, Runs()).seconds.append(seconds)

    left: dict[str, tuple[int, ...]] = {}
    # The first turn of each warms it up.
    for turn, (engine, act) in enumerate((*_engines(spark).items(),) * 2):
        copy = folder / "copy"
        shutil.copytree(source, copy)
        first = turn < len(_engines(spark))
        for when, more in (("", 0), (f", {_LATER} commits later", _LATER)):
            for number in range(commits, commits + more):
                _write(writer, copy, case, number)
            for service in ("clean", "archive"):
                whole, plan = act(copy, service)
                if not first:
                    note(f"{service}{when}", engine, whole)
                    if plan is not None:
                        note(f"plan of {service}{when}", engine, plan)
        files = len(list((copy / "city=oslo").glob("*.parquet")))
        left[engine] = (files, len(Table.open(spark, str(copy)).timeline()))
        shutil.rmtree(copy)
    if len(set(left.values())) != 1:
        sys.stdout.write(f"files and active instants that are left differ: {left}\n")
    return found


_Act = Callable[[Path, str], "tuple[float, float | None]"]


def _engines(spark: SparkSession) -> dict[str, _Act]:
    return {_OURS: partial(_ours, spark), _APACHE: partial(_apaches, spark)}


def _ours(spark: SparkSession, path: Path, service: str) -> tuple[float, float | None]:
    """Return how long the service took, and its plan."""
    plan = None
    if service == "clean":
        plan, _ = timed(lambda: Table.open(spark, str(path)).plan(service, options=_KEEP))

    def act() -> None:
        table = Table.open(spark, str(path))
        done = table.clean(options=_KEEP) if service == "clean" else table.archive(options=_KEEP)
        if not done:
            raise AnswersDifferError(f"tidelake had nothing to {service}")

    return timed(act)[0], plan


def _apaches(spark: SparkSession, path: Path, service: str) -> tuple[float, float | None]:
    """Return how long the procedure took, and when it had written its plan."""
    spark.conf.set("hoodie.metadata.enable", "false")
    spark.sql(f"CREATE TABLE upkeep USING hudi LOCATION '{path}'")
    arguments = {
        "clean": f"retain_commits => {_KEPT}",
        "archive": (
            f"min_commits => 20, max_commits => 30, retain_commits => {_KEPT}, "
            "enable_metadata => false"
        ),
    }[service]
    name = {"clean": "run_clean", "archive": "archive_commits"}[service]
    began = SystemClock().now_ms() / 1000
    try:
        seconds, _ = timed(
            lambda: spark.sql(f"call {name}(table => 'upkeep', {arguments})").collect()
        )
    finally:
        spark.sql("DROP TABLE upkeep")
    plans = [
        written
        for file in (path / ".hoodie" / "timeline").glob("*.clean.requested")
        if (written := file.stat().st_mtime) >= began
    ]
    if service == "clean" and not plans:
        raise AnswersDifferError("Apache Hudi had nothing to clean")
    return seconds, max(plans) - began if plans and service == "clean" else None


def _write(writer: StagedWriter, root: Path, case: Case, number: int) -> None:
    writer.write(root, case, Step(do=Do.UPSERT, rows=(small_row(number),)))
