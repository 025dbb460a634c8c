"""What the runs of each engine took, shown, judged and kept."""

from __future__ import annotations

import json
import os
import platform
import statistics
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path

from bench.cpu import tree_cpu_s
from bench.measure import Goal, Verdict
from tests.interop import apache_hudi

RESULTS = Path(__file__).parent / "results"
CORES = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Runs:
    """What the runs of one engine took."""

    seconds: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)

    @property
    def median(self) -> float:
        """Return the median of the wall clock."""
        return statistics.median(self.seconds)

    def as_json(self) -> dict[str, object]:
        """Return medians and every single run."""
        return {
            "median_s": round(self.median, 4),
            "cpu_median_s": round(statistics.median(self.cpu), 4) if self.cpu else None,
            "runs_s": [round(t, 4) for t in self.seconds],
        }


def timed(act: Callable[[], object]) -> tuple[float, float]:
    """Return the seconds that something took, of the clock and of all cores."""
    cpu_before = tree_cpu_s() or 0.0
    started = time.perf_counter()
    act()
    seconds = time.perf_counter() - started
    return seconds, (tree_cpu_s() or 0.0) - cpu_before


def show(what: str, found: Mapping[str, Runs]) -> None:
    """Print what each engine took."""
    sys.stdout.write(f"\n{what}\n")
    for name, runs in found.items():
        cpu = f"   cpu {statistics.median(runs.cpu):7.3f} s" if runs.cpu else ""
        sys.stdout.write(f"  {name:<28} {runs.median:7.3f} s{cpu}\n")
    sys.stdout.flush()


def judge(case: str, found: Mapping[str, Runs], goals: Sequence[Goal]) -> list[Verdict]:
    """Hold the medians to goals; those of engines that did not run are left out."""
    return [
        Verdict(
            case=case,
            ours=goal.ours,
            than=goal.than,
            at_most=goal.at_most,
            ratio=found[goal.ours].median / found[goal.than].median,
        )
        for goal in goals
        if goal.ours in found and goal.than in found
    ]


def setting(**sizes: int) -> dict[str, object]:
    """Return under what circumstances is measured; call it before the work begins."""
    packages = ("tidelake", "pyspark", "pyarrow", "polars", "pandas")
    return {
        **sizes,
        "cores_used": CORES,
        "cores_of_machine": os.cpu_count(),
        "load_average_1m": os.getloadavg()[0],  # neighbours make wall clocks lie
        "python": platform.python_version(),
        "platform": platform.platform(),
        "apache_hudi": apache_hudi.VERSION,
        **{name: version(name) for name in packages},
    }


def save(
    name: str,
    circumstances: Mapping[str, object],
    measured: Mapping[str, Mapping[str, Runs]],
    verdicts: Sequence[Verdict],
) -> None:
    """Keep the figures as a results file."""
    results = {
        "setting": circumstances,
        **{
            case: {name: runs.as_json() for name, runs in found.items()}
            for case, found in measured.items()
        },
        "goals": [verdict.as_json() for verdict in verdicts],
    }
    RESULTS.mkdir(exist_ok=True)
    path = RESULTS / f"{name}.json"
    path.write_text(json.dumps(results, indent=2) + "\n")
    sys.stdout.write(f"\nresults in {path}\n")
