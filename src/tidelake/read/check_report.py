"""What `check` found, as whoever looked at something adds to it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from tidelake.errors import TidelakeError

READABLE_INSTANTS = "instants whose content decodes"


@dataclass(frozen=True, slots=True, kw_only=True)
class Violation:
    """A fact that does not hold."""

    path: str
    problem: str
    next_step: str


@dataclass(slots=True)
class CheckReport:
    """What was looked at and what was found; notes are oddities that harm no reader."""

    checked: Counter[str] = field(default_factory=Counter)
    violations: list[Violation] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    @property
    def is_sound(self) -> bool:
        """Return whether every fact holds."""
        return not self.violations


@contextmanager
def noting(report: CheckReport, fact: str) -> Iterator[None]:
    """Count one look at `fact`, and turn an error into a violation."""
    report.checked[fact] += 1
    try:
        yield
    except TidelakeError as error:
        path = getattr(error, "path", None) or "the table"
        problem = getattr(error, "cause", None) or error.problem
        report.violations.append(Violation(path=path, problem=problem, next_step=error.next_step))
