"""Time the same question on several engines, turn about, and hold their answers to each other."""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from bench.cpu import tree_cpu_s

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class AnswersDifferError(Exception):
    """Two engines answered the same question differently, so their times mean nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Goal:
    """A promise: the time of `ours` is at most `at_most` times the time of `than`."""

    ours: str
    than: str
    at_most: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One question, how each engine asks it, and what we promise.

    An engine in `incomparable` answers another question (a floor without merge) and is only timed.
    """

    name: str
    engines: Mapping[str, Callable[[], DataFrame]]
    goals: Sequence[Goal] = ()
    incomparable: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class Times:
    """Seconds of one engine in one case: until the DataFrame exists, until its rows do, of cpu."""

    plan: list[float] = field(default_factory=list)
    total: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)

    @property
    def median(self) -> float:
        """Return the median of the whole: plan and run."""
        return statistics.median(self.total)

    def as_json(self) -> dict[str, object]:
        """Return medians and every single run."""
        return {
            "median_s": round(self.median, 4),
            "plan_median_s": round(statistics.median(self.plan), 4),
            "cpu_median_s": round(statistics.median(self.cpu), 4) if self.cpu else None,
            "runs_s": [round(t, 4) for t in self.total],
        }


def measure(case: Case, *, runs: int, warm_ups: int) -> dict[str, Times]:
    """Run every engine `runs` times, interleaved, after `warm_ups` rounds that are not counted.

    The order rotates from round to round, so that no engine always follows the same one.
    Raises `AnswersDifferError` when comparable engines do not return the same rows.
    """
    names = list(case.engines)
    times = {name: Times() for name in names}
    answers: dict[str, list[str]] = {}
    for number in range(warm_ups + runs):
        shift = number % len(names)
        for name in names[shift:] + names[:shift]:
            cpu_before = tree_cpu_s()
            started = time.perf_counter()
            df = case.engines[name]()
            planned = time.perf_counter()
            rows = df.collect()
            ended = time.perf_counter()
            cpu_after = tree_cpu_s()
            if number >= warm_ups:
                times[name].plan.append(planned - started)
                times[name].total.append(ended - started)
                if cpu_before is not None and cpu_after is not None:
                    times[name].cpu.append(cpu_after - cpu_before)
            answers.setdefault(name, sorted(repr(tuple(row)) for row in rows))
    _compare(case, answers)
    return times


def _compare(case: Case, answers: Mapping[str, list[str]]) -> None:
    comparable = [name for name in answers if name not in case.incomparable]
    first = comparable[0]
    for name in comparable[1:]:
        if answers[name] != answers[first]:
            ours, theirs = answers[name], answers[first]
            sample = next((r for r in ours if r not in theirs), "no extra row")
            raise AnswersDifferError(
                f"{case.name}: {name} gave {len(ours)} rows, {first} {len(theirs)}; "
                f"first row of {name} that {first} lacks: {sample}"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """A goal beside what was measured."""

    case: str
    ours: str
    than: str
    at_most: float
    ratio: float

    @property
    def met(self) -> bool:
        """Whether the promise held."""
        return self.ratio <= self.at_most

    def as_json(self) -> dict[str, object]:
        """Return the verdict as it stands in the results file."""
        return {
            "case": self.case,
            "ours": self.ours,
            "than": self.than,
            "ratio": round(self.ratio, 3),
            "at_most": self.at_most,
            "met": self.met,
        }


def judge(case: Case, times: Mapping[str, Times]) -> list[Verdict]:
    """Hold the medians of a case to its goals."""
    return [
        Verdict(
            case=case.name,
            ours=goal.ours,
            than=goal.than,
            at_most=goal.at_most,
            ratio=times[goal.ours].median / times[goal.than].median,
        )
        for goal in case.goals
        if goal.ours in times and goal.than in times
    ]


def show_times(case: Case, times: Mapping[str, Times]) -> None:
    """Print one case: an aligned line for each engine, ratios to the first."""
    first = next(iter(times))
    sys.stdout.write(f"\n{case.name}\n")
    for name, each in times.items():
        ratio = each.median / times[first].median
        plan = statistics.median(each.plan)
        cpu = f", cpu {statistics.median(each.cpu):.2f}" if each.cpu else ""
        spread = f"{min(each.total):.3f}-{max(each.total):.3f}"
        sys.stdout.write(
            f"  {name:<24} {each.median:8.3f} s  (plan {plan:6.3f}{cpu}, {spread})  {ratio:6.2f}x\n"
        )
    sys.stdout.flush()


def show_verdicts(verdicts: Sequence[Verdict]) -> None:
    """Print every goal with its ratio, target and outcome."""
    sys.stdout.write("\ngoals (ratio of medians, smaller is faster)\n")
    for v in verdicts:
        pair = f"{v.ours} / {v.than}"
        outcome = "met" if v.met else "NOT MET"
        sys.stdout.write(
            f"  {v.case:<44} {pair:<26} {v.ratio:6.2f}  at most {v.at_most:.2f}  {outcome}\n"
        )
    sys.stdout.flush()
