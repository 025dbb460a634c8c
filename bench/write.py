"""Time commits of tidelake beside those of other table formats, in one Spark 3.5 session."""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from bench.cpu import tree_cpu_s
from bench.measure import AnswersDifferError, Goal, Verdict, show_verdicts
from bench.peers import COW, DELTA_VERSION, ICEBERG_VERSION, MOR, Bench, Engine, lone_writers, start
from bench.runs import CORES, RESULTS, Runs, setting
from bench.tables import base_rows, round_rows

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_SMALL_TABLE = 100_000
_SMALL_CHANGE = 100
_OURS = "tidelake"
_OURS_NO_BUCKET = "tidelake (no bucket)"
_BEST = "hudi best"
_FLOOR = "plain parquet"
#: Folders of the engines' own bookkeeping: what is in them are not bytes of rows.
_BOOKKEEPING = frozenset({".hoodie", "_delta_log", "metadata"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Commits(Runs):
    """What the commits of one engine took and wrote, one entry each."""

    jobs: list[int] = field(default_factory=list)
    tasks: list[int] = field(default_factory=list)
    bytes_written: list[int] = field(default_factory=list)

    def as_json(self) -> dict[str, object]:
        """Return medians and every single run."""
        return {
            **Runs.as_json(self),
            "jobs": statistics.median(self.jobs),
            "tasks": statistics.median(self.tasks),
            "bytes_median": statistics.median(self.bytes_written),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """A series of commits: rows to begin with, and what each commit brings."""

    name: str
    table_type: str
    loads: bool
    """Whether every commit loads a table of its own; otherwise they change one table in turn."""
    first: Path | None
    inputs: Sequence[Path]
    goals: Sequence[Goal]


def main(arguments: Sequence[str]) -> None:
    """Write the same rows with every engine, print each ratio beside its target."""
    parser = argparse.ArgumentParser(prog="python -m bench write", description=__doc__)
    parser.add_argument("--rows", type=int, default=500_000, help="rows of the large tables")
    parser.add_argument("--runs", type=int, default=8, help="measured commits of each engine")
    parser.add_argument("--warm-ups", type=int, default=1, help="commits before them")
    parser.add_argument("--only", default="", help="workloads whose name contains this text")
    parser.add_argument("--engines", default="", help="only these, separated by commas")
    parser.add_argument("--name", default="", help="name of a results file; none by default")
    args = parser.parse_args(arguments)

    with tempfile.TemporaryDirectory(prefix="tidelake-bench-") as made:
        folder = Path(made)
        bench = start(folder, cores=CORES, memory="4g")
        wanted = [name.strip() for name in args.engines.split(",") if name.strip()]
        engines = [e for e in lone_writers(bench) if not wanted or e.name in wanted]
        for name in bench.left_out:
            sys.stdout.write(f"{name} is left out: its jars could not be downloaded\n")
        measured: dict[str, object] = {}
        verdicts: list[Verdict] = []
        count = args.warm_ups + args.runs
        for make in _workloads():
            load = make(bench.spark, folder, args.rows, count, args.only)
            if load is None:
                continue
            commits = _run(bench, engines, load, folder, args.warm_ups)
            _show(commits)
            judged = _judge(load, commits)
            verdicts += judged
            measured[load.name] = {
                "setting": {
                    **setting(rows=args.rows, runs=args.runs),
                    "delta": DELTA_VERSION,
                    "iceberg": ICEBERG_VERSION,
                },
                "left_out": list(bench.left_out),
                "engines": {name: each.as_json() for name, each in commits.items()},
                "goals": [verdict.as_json() for verdict in judged],
            }
        show_verdicts(verdicts)
        bench.spark.stop()
    if args.name:
        path = _save(args.name, measured)
        sys.stdout.write(f"\nresults in {path}\n")


def _save(name: str, measured: Mapping[str, object]) -> Path:
    """Put the workloads into a results file; those that were not run stay as they are there."""
    RESULTS.mkdir(exist_ok=True)
    path = RESULTS / f"{name}.json"
    before = json.loads(path.read_text()) if path.exists() else {}
    path.write_text(json.dumps({**before, **measured}, indent=2) + "\n")
    return path


_Make = Callable[["SparkSession", Path, int, int, str], "Workload | None"]


def _workloads() -> Sequence[_Make]:
    """Return the makers of the workloads; each stages its rows when it is its turn."""
    return (_bulk, _rounds(COW), _rounds(MOR), _small(COW), _small(MOR))


def _bulk(spark: SparkSession, folder: Path, rows: int, count: int, only: str) -> Workload | None:
    name = "W1 bulk_insert"
    if only not in name:
        return None
    source = _staged(base_rows(spark, rows), folder / "input" / f"base-{rows}", CORES)
    goals = tuple(
        Goal(ours=ours, than=than, at_most=at_most)
        for ours in (_OURS_NO_BUCKET, _OURS)
        for than, at_most in ((_FLOOR, 1.5), (_BEST, 1 / 1.4))
    )
    return Workload(
        name=name, table_type=COW, loads=True, first=None, inputs=[source] * count, goals=goals
    )


def _rounds(table_type: str) -> _Make:
    def make(
        spark: SparkSession, folder: Path, rows: int, count: int, only: str
    ) -> Workload | None:
        name = f"W2 {_short(table_type)} round"
        if only not in name:
            return None
        inputs = [
            _staged(round_rows(spark, rows, at), folder / "input" / f"round-{rows}-{at}", CORES)
            for at in range(1, count + 1)
        ]
        goals = [Goal(ours=_OURS, than=_BEST, at_most=1 / (2 if table_type == COW else 1.3))]
        if table_type == COW:
            goals += [Goal(ours=_OURS, than=than, at_most=1.0) for than in ("delta", "iceberg")]
        return Workload(
            name=name,
            table_type=table_type,
            loads=False,
            first=_staged(base_rows(spark, rows), folder / "input" / f"base-{rows}", CORES),
            inputs=inputs,
            goals=goals,
        )

    return make


def _small(table_type: str) -> _Make:
    def make(
        spark: SparkSession, folder: Path, rows: int, count: int, only: str
    ) -> Workload | None:
        name = f"W2-small {_short(table_type)} commit"
        if only not in name:
            return None
        table_rows = min(rows, _SMALL_TABLE)
        inputs = [
            _staged(
                round_rows(spark, table_rows, at).orderBy("ts", "id").limit(_SMALL_CHANGE),
                folder / "input" / f"small-{table_rows}-{at}",
                1,
            )
            for at in range(1, count + 1)
        ]
        base = base_rows(spark, table_rows)
        return Workload(
            name=name,
            table_type=table_type,
            loads=False,
            first=_staged(base, folder / "input" / f"base-{table_rows}", CORES),
            inputs=inputs,
            goals=[Goal(ours=_OURS, than=_BEST, at_most=1 / (2 if table_type == COW else 1.4))],
        )

    return make


def _short(table_type: str) -> str:
    return "COW" if table_type == COW else "MOR"


def _staged(rows: DataFrame, path: Path, files: int) -> Path:
    """Write rows to files, once, so that no engine pays for making them up."""
    if not path.exists():
        rows.repartition(files, "id").write.parquet(str(path))
    return path


def _run(
    bench: Bench, engines: Sequence[Engine], load: Workload, folder: Path, warm_ups: int
) -> dict[str, Commits]:
    """Let the engines commit turn about, the order rotating, and compare the rows at the end.

    Raises `AnswersDifferError` when two engines do not end with the same rows.
    """
    commits = {engine.name: Commits() for engine in engines}
    root = folder / _slug(load.name)
    homes = {engine.name: root / _slug(engine.name) for engine in engines}
    if load.first is not None:
        for engine in engines:
            engine.load(
                bench.spark.read.parquet(str(load.first)), homes[engine.name], load.table_type
            )
    for number, source in enumerate(load.inputs):
        shift = number % len(engines)
        for engine in [*engines[shift:], *engines[:shift]]:
            rows = bench.spark.read.parquet(str(source))
            home = homes[engine.name]
            if load.loads:
                home = homes[engine.name] = root / f"{_slug(engine.name)}-{number}"
            act = engine.load if load.loads else engine.change
            took = commits[engine.name] if number >= warm_ups else Commits()
            before = 0 if load.loads else _data_bytes(home)
            _timed(bench.spark, took, partial(act, rows, home, load.table_type))
            took.bytes_written.append(_data_bytes(home) - before)
            if load.loads and number + 1 < len(load.inputs):
                shutil.rmtree(home)
    _compare(load, {e.name: _checksum(e.read(homes[e.name])) for e in engines})
    shutil.rmtree(root)
    return commits


def _timed(spark: SparkSession, took: Commits, act: Callable[[], None]) -> None:
    context = spark.sparkContext
    group = f"bench-{time.monotonic_ns()}"
    context.setJobGroup(group, group)
    cpu_before = tree_cpu_s()
    started = time.perf_counter()
    act()
    took.seconds.append(time.perf_counter() - started)
    cpu_after = tree_cpu_s()
    if cpu_before is not None and cpu_after is not None:
        took.cpu.append(cpu_after - cpu_before)
    tracker = context.statusTracker()
    jobs = [job for at in tracker.getJobIdsForGroup(group) if (job := tracker.getJobInfo(at))]
    stages = [it for job in jobs for at in job.stageIds if (it := tracker.getStageInfo(at))]
    took.jobs.append(len(jobs))
    took.tasks.append(sum(stage.numCompletedTasks for stage in stages))


def _data_bytes(folder: Path) -> int:
    """Return the bytes of the files that hold rows, old versions included."""
    total = 0
    for at, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if name not in _BOOKKEEPING]
        total += sum((Path(at) / n).stat().st_size for n in names if not n.endswith(".crc"))
    return total


def _checksum(rows: DataFrame) -> tuple[int, int]:
    columns = "id, region, ts, amount, price, quantity, day, created, city, note"
    found = rows.selectExpr(f"cast(xxhash64({columns}) as decimal(38, 0)) as hashed").selectExpr(
        "count(*) as rows", "sum(hashed) as hashed"
    )
    row = found.collect()[0]
    return row["rows"], int(row["hashed"])


def _compare(load: Workload, answers: Mapping[str, tuple[int, int]]) -> None:
    first = next(iter(answers))
    for name, answer in answers.items():
        if answer != answers[first]:
            raise AnswersDifferError(
                f"{load.name}: {name} ended with {answer[0]} rows, {first} with "
                f"{answers[first][0]}; hashes {answer[1]} and {answers[first][1]}"
            )
    sys.stdout.write(
        f"\n{load.name}: {len(answers)} engines end with the same {answers[first][0]:,} rows\n"
    )


def _show(commits: Mapping[str, Commits]) -> None:
    first = next(iter(commits))
    for name, each in commits.items():
        cpu = f"{statistics.median(each.cpu):6.2f}" if each.cpu else "     ?"
        spread = f"{min(each.seconds):.2f}-{max(each.seconds):.2f}"
        megabytes = statistics.median(each.bytes_written) / 1e6
        sys.stdout.write(
            f"  {name:<22} {each.median:7.3f} s  (cpu {cpu}, {spread:>12})  "
            f"{statistics.median(each.jobs):4.0f} jobs {statistics.median(each.tasks):5.0f} tasks  "
            f"{megabytes:8.3f} MB  {each.median / commits[first].median:6.2f}x\n"
        )
    sys.stdout.flush()


def _judge(load: Workload, commits: Mapping[str, Commits]) -> list[Verdict]:
    found = [
        Verdict(
            case=load.name,
            ours=goal.ours,
            than=goal.than,
            at_most=goal.at_most,
            ratio=commits[goal.ours].median / commits[goal.than].median,
        )
        for goal in load.goals
        if goal.ours in commits and goal.than in commits
    ]
    if not load.loads and _OURS in commits and _BEST in commits:
        ours, theirs = (statistics.median(commits[n].bytes_written) for n in (_OURS, _BEST))
        name = f"{load.name}, bytes"
        found.append(
            Verdict(case=name, ours=_OURS, than=_BEST, at_most=1.0, ratio=ours / max(theirs, 1))
        )
    return found


def _slug(name: str) -> str:
    return "".join(c if c.isalnum() else "-" for c in name.lower()).strip("-")
