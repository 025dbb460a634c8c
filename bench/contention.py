"""Let processes write one table at the same time, with tidelake and beside it with others.

Every writer is a process with a Spark of its own. It makes a number of upserts; one that is aborted
is made again after a pause, as a job scheduler would, until it lands or has been tried too often.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import random  # noqa: TID251 - seeded below
import re
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.held_times import HeldTimes
from bench.measure import AnswersDifferError, Verdict, show_verdicts
from bench.peers import MOR, Bench, Engine, many_writers, start
from bench.runs import RESULTS, setting
from bench.tables import REGIONS, base_rows, updated_rows
from tidelake import Table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_UPSERTS = 5
_WARM_UPSERTS = 3
_ROWS = 1_000
_ATTEMPTS = 10
_PAUSE_S = 1.0
_SCANS = 7
_SHARED = 100
_OURS, _PEER = "tidelake", "hudi nbcc"
_OCC, _NBCC = f"{_OURS} occ", f"{_OURS} nbcc"
_APART = "own buckets"


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """What one writer tells of its upserts."""

    landed: int = 0
    aborts: int = 0
    errors: list[str] = field(default_factory=list)
    lock_held_ms: list[int] = field(default_factory=list)


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """One engine, one number of writers, one pattern of keys."""

    engine: str
    writers: int
    pattern: str
    seconds: float
    landed: int
    aborts: int
    rows_thrown_away: int
    lock_held_ms: float | None
    errors: Sequence[str]

    @property
    def per_second(self) -> float:
        """Return how many commits landed in a second."""
        return self.landed / self.seconds


def _own_buckets(spark: SparkSession, writer: int, writers: int, number: int) -> DataFrame:
    regions = len(REGIONS) // writers
    first = number * _ROWS
    return spark.range(first, first + _ROWS).selectExpr(
        f"id * {len(REGIONS)} + {writer * regions} + id % {regions} as n"
    )


def _own_keys(spark: SparkSession, writer: int, writers: int, number: int) -> DataFrame:
    first = (number * writers + writer) * _ROWS
    return spark.range(first, first + _ROWS).selectExpr("id as n")


def _tenth_shared(spark: SparkSession, writer: int, writers: int, number: int) -> DataFrame:
    own = _own_keys(spark, writer, writers, number + 1).limit(_ROWS - _SHARED)
    return own.unionByName(spark.range(_SHARED).selectExpr("id as n"))


def _same_keys(spark: SparkSession, _writer: int, _writers: int, _number: int) -> DataFrame:
    return spark.range(_ROWS).selectExpr("id as n")


_PATTERNS: Mapping[str, Callable[[SparkSession, int, int, int], DataFrame]] = {
    _APART: _own_buckets,
    "own keys": _own_keys,
    "a tenth shared": _tenth_shared,
    "same keys": _same_keys,
}


def main(arguments: Sequence[str]) -> None:
    """Measure every cell, print it, and hold the rows to what was written."""
    parser = argparse.ArgumentParser(prog="python -m bench contention", description=__doc__)
    parser.add_argument("--rows", type=int, default=500_000, help="rows of the table")
    parser.add_argument("--writers", default="1,2,4", help="numbers of processes")
    parser.add_argument("--patterns", default=",".join(_PATTERNS), help="which keys they write")
    parser.add_argument("--engines", default="", help="only these, separated by commas")
    parser.add_argument("--name", default="", help="name of a results file; none by default")
    args = parser.parse_args(arguments)
    numbers = [int(number) for number in args.writers.split(",")]
    wanted = [name.strip() for name in args.engines.split(",") if name.strip()]
    circumstances = setting(rows=args.rows)
    cells: list[Cell] = []
    scans: dict[str, float] = {}
    with tempfile.TemporaryDirectory(prefix="tidelake-bench-") as made:
        folder = Path(made)
        for writers in numbers:
            with _crew(folder, writers) as crew:
                names = [name for name in crew[0].ask("engines") if not wanted or name in wanted]
                for pattern in args.patterns.split(","):
                    for name in names:
                        home = folder / f"{writers}-{pattern}-{name}".replace(" ", "-")
                        cells.append(_cell(crew, name, home, args.rows, pattern))
                        _show(cells[-1])
                        if args.name:
                            # Some engines take so long that a run is cut short.
                            _save(args.name, circumstances, cells, scans)
                        if name == _NBCC and writers == max(numbers):
                            scans[pattern] = crew[0].ask("scan", home)
                            print(f"  a scan takes {scans[pattern]:.2f}x of what it does compacted")
    show_verdicts(_judge(cells, scans))
    if args.name:
        path = _save(args.name, circumstances, cells, scans)
        sys.stdout.write(f"\nresults in {path}\n")


def _save(
    name: str,
    circumstances: Mapping[str, object],
    cells: Sequence[Cell],
    scans: Mapping[str, float],
) -> Path:
    """Put the cells into a results file; those that were not measured stay as they are there."""
    path = RESULTS / f"{name}.json"
    before = json.loads(path.read_text()) if path.exists() else {"cells": [], "scans": {}}
    every = {_place(cell): cell for cell in (*map(_known, before["cells"]), *cells)}
    scans = {**before["scans"], **scans}
    shown = {
        "setting": circumstances,
        "cells": [asdict(cell) for cell in every.values()],
        "scans": scans,
        "goals": [verdict.as_json() for verdict in _judge([*every.values()], scans)],
    }
    path.write_text(json.dumps(shown, indent=2) + "\n")
    return path


def _known(cell: Mapping[str, Any]) -> Cell:
    return Cell(**cell)


def _place(cell: Cell) -> tuple[str, int, str]:
    return cell.engine, cell.writers, cell.pattern


def _cell(crew: Sequence[_Writer], engine: str, home: Path, rows: int, pattern: str) -> Cell:
    crew[0].ask("load", engine, home, rows)
    for writer in crew:
        writer.ask("prepare", engine, pattern)
    began = time.monotonic()
    for writer in crew:
        writer.tell("write", engine, home)
    told: list[Told] = [writer.answer() for writer in crew]
    seconds = time.monotonic() - began
    errors = {error for each in told for error in each.errors}
    found = crew[0].ask("count", engine, home)
    if found != (rows, rows):
        errors.add(f"{found[0]:,} rows of {found[1]:,} keys are there instead of {rows:,}")
        if engine.startswith(_OURS):
            raise AnswersDifferError(f"{engine}, {pattern}: {errors}")
    held = [ms for each in told for ms in each.lock_held_ms]
    aborts = sum(each.aborts for each in told)
    return Cell(
        engine=engine,
        writers=len(crew),
        pattern=pattern,
        seconds=round(seconds, 3),
        landed=sum(each.landed for each in told),
        aborts=aborts,
        rows_thrown_away=aborts * _ROWS,
        lock_held_ms=statistics.median(held) if held else None,
        errors=sorted(errors),
    )


def _judge(cells: Sequence[Cell], scans: Mapping[str, float]) -> list[Verdict]:
    """Hold the cells to what we promise; ratios to the best alone say nothing about aborts."""
    found = {_place(cell): cell for cell in cells}
    verdicts = []
    for cell in cells:
        case = f"{cell.writers} writers, {cell.pattern}"
        if cell.engine == _NBCC or (cell.engine == _OCC and cell.pattern == _APART):
            verdicts.append(
                Verdict(case=case, ours=cell.engine, than="aborts", at_most=0.0, ratio=cell.aborts)
            )
        peer = found.get((_PEER, cell.writers, cell.pattern))
        if cell.engine == _NBCC and peer is not None:
            ratio = peer.per_second / cell.per_second
            verdicts.append(
                Verdict(case=case, ours=cell.engine, than=_PEER, at_most=1 / 3, ratio=ratio)
            )
    return [
        *verdicts,
        *(
            Verdict(case=pattern, ours="scan", than="compacted", at_most=2.0, ratio=ratio)
            for pattern, ratio in scans.items()
        ),
    ]


def _show(cell: Cell) -> None:
    held = "" if cell.lock_held_ms is None else f", lock held {cell.lock_held_ms:.0f} ms a commit"
    print(
        f"{cell.writers} writers, {cell.pattern:<15} {cell.engine:<14} {cell.landed:3d} commits in "
        f"{cell.seconds:7.2f} s = {cell.per_second:5.2f}/s, {cell.aborts:3d} aborts, "
        f"{cell.rows_thrown_away:6,d} rows thrown away{held}",
        flush=True,
    )
    for error in cell.errors:
        print(f"    {error}")


class _Writer:
    """A writer process, as the one that measures sees it."""

    def __init__(self, folder: Path, number: int, writers: int) -> None:
        context = multiprocessing.get_context("spawn")
        self._pipe, theirs = context.Pipe()
        self._process = context.Process(
            target=_serve, args=(theirs, folder, number, writers), daemon=True
        )
        self._process.start()
        theirs.close()

    def tell(self, *words: object) -> None:
        self._pipe.send(words)

    def answer(self) -> Any:
        answer = self._pipe.recv()
        if isinstance(answer, Exception):
            raise answer
        return answer

    def ask(self, *words: object) -> Any:
        self.tell(*words)
        return self.answer()

    def end(self) -> None:
        self._pipe.close()
        self._process.join(timeout=30)
        self._process.kill()


@contextmanager
def _crew(folder: Path, writers: int) -> Iterator[Sequence[_Writer]]:
    crew = [_Writer(folder, number, writers) for number in range(writers)]
    try:
        yield crew
    finally:
        for writer in crew:
            writer.end()


def _serve(pipe: Connection, folder: Path, number: int, writers: int) -> None:
    """Do what the pipe asks for until it ends."""
    bench = start(folder, cores=1, memory="2g")
    service = _Service(bench, folder, number, writers)
    while True:
        try:
            name, *words = pipe.recv()
        except EOFError:
            break
        try:
            pipe.send(getattr(service, name)(*words))
        except Exception as error:  # noqa: BLE001 - the one that measures is told
            pipe.send(RuntimeError(f"{type(error).__name__}: {error}"))
    bench.spark.stop()


def _told(error: Exception) -> str:
    """Return what went wrong, without the numbers that make every case its own."""
    lines = str(error).splitlines()
    # What comes from Java has its cause behind the first line.
    line = next((line for line in lines if line.startswith(": ")), lines[0])
    return re.sub(r"\d{6,}", "…", f"{type(error).__name__}: {line[:100]}")


class _Service:
    """What a writer process can be asked for."""

    def __init__(self, bench: Bench, folder: Path, number: int, writers: int) -> None:
        self._spark = bench.spark
        self._folder = folder
        self._number = number
        self._writers = writers
        self._engines: Mapping[str, Engine] = {e.name: e for e in many_writers(bench)}
        self._staged: list[DataFrame] = []
        self._warm: set[str] = set()
        self._chance = random.Random(number)
        self._held = HeldTimes()

    def engines(self) -> list[str]:
        return list(self._engines)

    def load(self, engine: str, home: Path, rows: int) -> None:
        self._engines[engine].load(base_rows(self._spark, rows), home, MOR)

    def prepare(self, engine: str, pattern: str) -> None:
        """Lay the rows ready, and write elsewhere at first: neither is part of what is timed."""
        self._staged = [self._laid_ready(pattern, number) for number in range(_UPSERTS)]
        if engine not in self._warm:
            self._warm.add(engine)
            home = self._folder / f"warm-{self._writers}-{self._number}-{engine}".replace(" ", "-")
            self._engines[engine].load(base_rows(self._spark, _ROWS), home, MOR)
            for rows in self._staged[:_WARM_UPSERTS]:
                self._engines[engine].change(rows, home, MOR)

    def _laid_ready(self, pattern: str, number: int) -> DataFrame:
        """Return the rows of one upsert, read from a file as a job would."""
        name = f"rows-{self._writers}-{self._number}-{pattern}-{number}".replace(" ", "-")
        path = str(self._folder / name)
        keys = _PATTERNS[pattern](self._spark, self._number, self._writers, number)
        rows = updated_rows(keys, number * self._writers + self._number + 1)
        rows.coalesce(1).write.mode("ignore").parquet(path)
        return self._spark.read.parquet(path)

    def write(self, engine: str, home: Path) -> Told:
        landed = aborts = 0
        errors = set()
        self._held.seen.clear()
        for rows in self._staged:
            for _ in range(_ATTEMPTS):
                try:
                    self._engines[engine].change(rows, home, MOR)
                except Exception as error:  # noqa: BLE001 - each engine has errors of its own
                    aborts += 1
                    errors.add(_told(error))
                    time.sleep(_PAUSE_S * self._chance.random())  # noqa: TID251 - a scheduler's
                else:
                    landed += 1
                    break
        return Told(
            landed=landed,
            aborts=aborts,
            errors=sorted(errors),
            lock_held_ms=list(self._held.seen),
        )

    def count(self, engine: str, home: Path) -> tuple[int, int]:
        rows = self._engines[engine].read(home)
        return rows.count(), rows.select("id").distinct().count()

    def scan(self, home: Path) -> float:
        """Return how much longer a scan takes than one of a compacted copy.

        Both take turns, so that neither has the warmer JVM; the first half is not counted.
        """
        compacted = home.with_name(f"{home.name}-compacted")
        shutil.copytree(home, compacted)
        Table.open(self._spark, str(compacted)).compact()
        taken = [(self._scan_s(home), self._scan_s(compacted)) for _ in range(2 * _SCANS)]
        before, after = zip(*taken[_SCANS:], strict=True)
        return statistics.median(before) / statistics.median(after)

    def _scan_s(self, home: Path) -> float:
        began = time.monotonic()
        self._engines[_NBCC].read(home).selectExpr(
            "sum(amount)", "sum(price)", "max(note)", "max(city)"
        ).collect()
        return time.monotonic() - began
