"""Ask every golden table every question and count what differs from Apache Hudi's answers."""

from __future__ import annotations

import argparse
import sys
import tempfile
import warnings
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from fnmatch import fnmatch
from functools import partial
from itertools import repeat
from pathlib import Path

from pyspark.sql import SparkSession

from tests.golden import harness
from tests.golden.harness import Golden, Verdict
from tests.sessions import local_session
from tidelake import Table


def main() -> int:
    """Print each difference and each fault of Apache, the totals last."""
    parser = argparse.ArgumentParser(prog="python -m tests.golden.run", description=__doc__)
    parser.add_argument(
        "patterns", nargs="*", default=["*"], help="names of tables, with wildcards"
    )
    parser.add_argument("--cross", action="store_true", help="every combination of read options")
    parser.add_argument("--jobs", type=int, default=3, help="questions asked at a time")
    args = parser.parse_args()
    chosen = [n for n in harness.names() if any(fnmatch(n, p) for p in args.patterns)]
    warnings.filterwarnings("ignore", message="The return type of DataFrame.toJSON")
    spark = local_session()
    totals: Counter[Verdict] = Counter()
    asked = 0
    for name in chosen:
        golden = harness.load(name)
        verdicts, times = _ask_all(spark, golden, cross=args.cross, jobs=args.jobs)
        totals.update(verdicts)
        asked += times
    for table, known in harness.faults().items():
        for query, fault in known.items():
            if table in chosen:
                print(f"fault of Apache: {table} {query}: {fault.reason}")
    answers = sum(totals.values())
    print(f"asked {asked} times, with each way to list files and to merge")
    print(
        f"{len(chosen)} tables, {answers} answers, {totals[Verdict.DIFFERS]} differences, "
        f"{totals[Verdict.BETTER]} faults of Apache"
    )
    return 0 if chosen and not totals[Verdict.DIFFERS] else 1


def _ask_all(
    spark: SparkSession, golden: Golden, *, cross: bool, jobs: int
) -> tuple[list[Verdict], int]:
    """Return one verdict a question, the worst over all settings, and how often was asked."""
    worst: dict[str, Verdict] = {}
    times = 0
    with tempfile.TemporaryDirectory() as scratch, ThreadPoolExecutor(jobs) as pool:
        root = harness.unpack(golden, Path(scratch))
        for options in harness.settings(golden, root, cross=cross):
            open_table = partial(Table.open, spark, str(root), options=options)
            outcomes = pool.map(harness.judge, golden.questions, repeat(open_table))
            for question, outcome in zip(golden.questions, outcomes, strict=True):
                times += 1
                if outcome.verdict is Verdict.DIFFERS:
                    print(
                        f"differs: {golden.name} {question.label} {options}: {outcome.story}",
                        flush=True,
                    )
                if worst.get(question.label) is not Verdict.DIFFERS:
                    worst[question.label] = outcome.verdict
    return list(worst.values()), times


if __name__ == "__main__":
    sys.exit(main())
