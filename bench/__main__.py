"""Time tidelake beside Apache Hudi and plain Parquet, in one Spark 3.5 session."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from bench import contention, growth, services, upkeep, write
from bench.cases import Bench
from bench.measure import Case, Verdict, judge, measure, show_times, show_verdicts
from bench.runs import CORES, RESULTS, setting
from bench.tables import specs
from bench.timeline_open import LIMIT_S, measure_openings
from tests.interop import apache_hudi

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def main() -> None:
    """Build the tables if need be, measure, print each ratio beside its target, keep results."""
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("--rows", type=int, default=500_000, help="rows of each table")
    parser.add_argument("--runs", type=int, default=7, help="measured rounds of each case")
    parser.add_argument("--warm-ups", type=int, default=2, help="rounds before them")
    parser.add_argument("--only", default="", help="cases whose name contains this text")
    parser.add_argument("--name", default="read", help="name of the results file")
    args = parser.parse_args()

    opened = [] if args.only else _show_openings(args.runs)
    circumstances = setting(rows=args.rows, runs=args.runs)
    spark = apache_hudi.session(cores=CORES, memory="6g")
    verdicts: list[Verdict] = []
    measured: dict[str, object] = {}
    tables: dict[str, object] = {}
    for case in _cases(spark, args.rows, tables):
        if args.only not in case.name:
            continue
        times = measure(case, runs=args.runs, warm_ups=args.warm_ups)
        show_times(case, times)
        verdicts += judge(case, times)
        measured[case.name] = {name: each.as_json() for name, each in times.items()}
    show_verdicts(verdicts)
    _write(
        RESULTS / f"{args.name}.json",
        {
            "setting": circumstances,
            "tables": tables,
            "cases": measured,
            "openings": opened,
            "goals": [verdict.as_json() for verdict in verdicts],
        },
    )


def _cases(spark: SparkSession, rows: int, tables: dict[str, object]) -> Iterator[Case]:
    for spec in specs(rows):
        bench = Bench.over(spark, spec.name, spec.build(spark))
        tables[spec.name] = _facts(bench)
        if spec.table_type == "COPY_ON_WRITE":
            yield from bench.scans(rows, "snapshot")
        else:
            yield from bench.scans(rows, "read_optimized")
            yield bench.snapshot_with_logs()
        yield bench.last_two_commits()


def _facts(bench: Bench) -> dict[str, object]:
    logs = [p for p in bench.path.rglob(".*.log.*") if ".hoodie" not in p.parts]
    # Spark spells a local file with one slash or three, and escapes what a URI may not hold.
    sizes = [Path(unquote(urlsplit(name).path)).stat().st_size for name in bench.base_files]
    return {
        "base_files": len(bench.base_files),
        "base_bytes": sum(sizes),
        "log_files": len([p for p in logs if not p.name.endswith(".crc")]),
        "log_bytes": sum(p.stat().st_size for p in logs if not p.name.endswith(".crc")),
    }


def _show_openings(runs: int) -> list[dict[str, object]]:
    shown: list[dict[str, object]] = []
    print("\nopen + timeline, a fresh process each time, no Spark")
    for each in measure_openings(runs=runs):
        met = each.process_s <= LIMIT_S
        print(
            f"  {each.name:<32} {each.process_s:6.3f} s  (import {each.import_s:.3f}, "
            f"open {each.open_s:.3f}, {each.instants:,} instants)  at most {LIMIT_S:.1f} s  "
            f"{'met' if met else 'NOT MET'}"
        )
        shown.append(
            {
                "name": each.name,
                "instants": each.instants,
                "process_s": round(each.process_s, 4),
                "import_s": round(each.import_s, 4),
                "open_s": round(each.open_s, 4),
                "at_most_s": LIMIT_S,
                "met": met,
            }
        )
    return shown


def _write(path: Path, results: dict[str, object]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(results, indent=2) + "\n")
    print(f"\nresults in {path}")


if __name__ == "__main__":
    if sys.argv[1:2] == ["write"]:
        write.main(sys.argv[2:])
    elif sys.argv[1:2] == ["services"]:
        services.main(sys.argv[2:])
    elif sys.argv[1:2] == ["upkeep"]:
        upkeep.main(sys.argv[2:])
    elif sys.argv[1:2] == ["growth"]:
        growth.main(sys.argv[2:])
    elif sys.argv[1:2] == ["contention"]:
        contention.main(sys.argv[2:])
    else:
        main()
