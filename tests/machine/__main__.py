"""Play shares of the machine: `python -m tests.machine 0-500`."""

from __future__ import annotations

import argparse
import shutil
import sys
import time
from collections import Counter
from pathlib import Path

from tests.machine.play import play, shrink
from tests.machine.readers import hudi_rs
from tests.machine.session import quick_session


def main() -> int:
    """Play the seeds that the command line names, and tell what differs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("seeds", help="first-last, the last one left out")
    parser.add_argument("--share", type=float, default=0.2, help="writes that go through Spark")
    parser.add_argument("--no-spark", action="store_true", help="play what needs no Spark")
    parser.add_argument("--shrink", action="store_true", help="look for a shorter sequence")
    parser.add_argument("--at", type=Path, default=Path("/dev/shm/machine/play"))
    given = parser.parse_args()
    first, _, last = given.seeds.partition("-")
    seeds = range(int(first), int(last or int(first) + 1))
    spark = None if given.no_spark else quick_session()
    counts: Counter[str] = Counter()
    begun, wrong = time.monotonic(), 0
    for seed in seeds:
        root = given.at / str(seed)
        shutil.rmtree(root, ignore_errors=True)
        found = play(seed, root, spark, share=given.share, others=[hudi_rs])
        counts += found.counts
        counts["steps"] += len(found.steps)
        if found.wrong:
            wrong += 1
            shown = shrink(found, given.at, spark) if given.shrink else found
            print(shown.told(), flush=True)
            if spark is not None:
                spark.catalog.clearCache()
        shutil.rmtree(root, ignore_errors=True)
        if (seed - seeds.start + 1) % 100 == 0:
            took = time.monotonic() - begun
            print(f"{seed - seeds.start + 1} sequences, {wrong} wrong, {took:.0f} s", flush=True)
    took = time.monotonic() - begun
    print(f"{len(seeds)} sequences, {wrong} wrong, {took:.1f} s; {dict(counts)}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
