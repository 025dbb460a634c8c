"""Time the table services of tidelake beside those of Apache Hudi, in one Spark 3.5 session."""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from bench.measure import AnswersDifferError, Goal, show_verdicts
from bench.runs import CORES, Runs, judge, save, setting, show, timed
from bench.tables import specs
from tests.interop import apache_hudi
from tidelake import Table
from tidelake.config.keys import read_keys as keys
from tidelake.env import Env
from tidelake.storage import open_storage
from tidelake.timeline import update_table_config

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_OURS, _BEST, _FLOOR = "tidelake", "hudi best", "plain rewrite"
_PARQUET = "plain parquet"


def main(arguments: Sequence[str]) -> None:
    """Run each service on copies of the same table, print each ratio beside its target."""
    parser = argparse.ArgumentParser(prog="python -m bench services", description=__doc__)
    parser.add_argument("--rows", type=int, default=500_000, help="rows of the table")
    parser.add_argument("--runs", type=int, default=5, help="measured runs of each engine")
    parser.add_argument("--warm-ups", type=int, default=1, help="runs before them")
    parser.add_argument("--engines", default="", help="only these, separated by commas")
    parser.add_argument("--name", default="", help="name of a results file; none by default")
    args = parser.parse_args(arguments)
    wanted = [name.strip() for name in args.engines.split(",") if name.strip()]

    circumstances = setting(rows=args.rows, runs=args.runs)
    spark = apache_hudi.session(cores=CORES, memory="4g")
    (source,) = [s.build(spark) for s in specs(args.rows) if s.name == "mor-bucket"]
    with tempfile.TemporaryDirectory(prefix="tidelake-bench-") as made:
        compactions = _compactions(spark, source, Path(made), args.warm_ups, args.runs, wanted)
        reads = _reads(spark, Path(made) / "compacted", args.warm_ups, args.runs)
    verdicts = [
        *judge("compaction", compactions, [Goal(ours=_OURS, than=_BEST, at_most=1 / 3)]),
        *judge("snapshot after it", reads, [Goal(ours=_OURS, than=_PARQUET, at_most=1.1)]),
    ]
    show_verdicts(verdicts)
    spark.stop()
    if args.name:
        save(
            args.name,
            circumstances,
            {"compaction": compactions, "snapshot after it": reads},
            verdicts,
        )


def _compactions(
    spark: SparkSession,
    source: Path,
    folder: Path,
    warm_ups: int,
    runs: int,
    wanted: Sequence[str],
) -> dict[str, Runs]:
    """Let each engine compact a copy of the table; raise `AnswersDifferError` if rows differ."""
    plain = folder / "without metadata table"
    shutil.copytree(source, plain)
    # Keeping a metadata table is another cost, and not every engine here keeps the same.
    names = (keys.METADATA_PARTITIONS, keys.METADATA_PARTITIONS_INFLIGHT)
    update_table_config(Env(open_storage(str(plain))), {key.name: "" for key in names})
    shutil.rmtree(plain / ".hoodie" / "metadata", ignore_errors=True)
    expected = _answer(Table.open(spark, str(plain)).read())
    engines: dict[str, Callable[[Path], None]] = {
        _OURS: lambda path: _compact(spark, path),
        _BEST: lambda path: _compact_by_apache(spark, path),
        _FLOOR: lambda path: _rewrite(spark, path, folder / "rewritten"),
    }
    chosen = [name for name in engines if not wanted or name in wanted]
    found = {name: Runs() for name in chosen}
    for number in range(warm_ups + runs):
        shift = number % len(chosen)
        for name in chosen[shift:] + chosen[:shift]:
            copy = folder / "copy"
            shutil.copytree(plain, copy)
            seconds, cpu = timed(partial(engines[name], copy))
            sys.stderr.write(f"  {name}: {seconds:.3f} s, cpu {cpu:.3f} s\n")
            if number >= warm_ups:
                found[name].seconds.append(seconds)
                found[name].cpu.append(cpu)
            if name != _FLOOR and _answer(Table.open(spark, str(copy)).read()) != expected:
                raise AnswersDifferError(f"{name} changed the rows of the table it compacted")
            if name == _OURS and number == warm_ups + runs - 1:
                shutil.copytree(copy, folder / "compacted")
            shutil.rmtree(copy)
    show("compaction", found)
    return found


def _compact(spark: SparkSession, path: Path) -> None:
    table = Table.open(spark, str(path))
    if table.compact(options={"hoodie.clean.automatic": "false"}) is None:
        raise AnswersDifferError("tidelake found nothing to compact")


def _compact_by_apache(spark: SparkSession, path: Path) -> None:
    options = ",".join(
        (
            "hoodie.metadata.enable=false",
            "hoodie.clean.automatic=false",
            "hoodie.parquet.compression.codec=snappy",
        )
    )
    for operation in ("schedule", "run"):
        spark.sql(
            f"call run_compaction(op => '{operation}', path => '{path}', options => '{options}')"
        ).collect()


def _rewrite(spark: SparkSession, path: Path, target: Path) -> None:
    """Write the base files anew with Spark alone: what no compaction can undercut by much."""
    files = spark.read.parquet(str(path / "region=*"))
    files.write.mode("overwrite").parquet(str(target))


def _reads(spark: SparkSession, path: Path, warm_ups: int, runs: int) -> dict[str, Runs]:
    """Aggregate the compacted table, and the same files as plain Parquet."""
    slices = Table.open(spark, str(path)).slices()
    files = [str(path / s.base_file.path) for s in slices if s.base_file]
    engines: dict[str, Callable[[], DataFrame]] = {
        _OURS: lambda: Table.open(spark, str(path)).read(),
        _PARQUET: lambda: spark.read.option("basePath", str(path)).parquet(*files),
    }
    found = {name: Runs() for name in engines}
    answers: set[str] = set()
    for number in range(2 * (warm_ups + runs)):
        shift = number % 2
        names = list(engines)
        for name in names[shift:] + names[:shift]:
            seconds, cpu = timed(partial(_note, answers, engines[name]))
            if number >= 2 * warm_ups:
                found[name].seconds.append(seconds)
                found[name].cpu.append(cpu)
    if len(answers) != 1:
        raise AnswersDifferError("the compacted table and its files do not hold the same rows")
    show("snapshot after it", found)
    return found


def _note(answers: set[str], ask: Callable[[], DataFrame]) -> None:
    answers.add(_answer(ask()))


def _answer(frame: DataFrame) -> str:
    found = frame.groupBy("region").agg(
        {"*": "count", "amount": "sum", "quantity": "sum", "ts": "max"}
    )
    return str(sorted(map(tuple, found.collect())))
