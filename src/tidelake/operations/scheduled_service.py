"""Services that plan first and run later, in the one form in which people call them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Generic, Protocol, TypeVar

from typing_extensions import override

from tidelake.model import Instant

Ran_co = TypeVar("Ran_co", covariant=True)
Both_co = TypeVar("Both_co", covariant=True)


class ServiceSteps(Protocol[Ran_co, Both_co]):
    """The steps of a service of one table, with its options."""

    def schedule(self) -> str | None:
        """Put a plan on the timeline and return its instant; None: there is nothing to do."""

    def run(self, requested_time: str, /) -> Ran_co:
        """Carry out a plan."""

    def both(self) -> Both_co:
        """Carry out every plan that waits, then plan and carry out the rest."""


class ScheduledService(Generic[Ran_co, Both_co]):
    """A service of a table: call it to plan and run, or take the two steps one by one.

    table.compact()                     # plans that wait, then whatever else is due
    instant = table.compact.schedule()  # only a plan; another process may run it
    table.compact.run(instant)
    """

    def __init__(
        self, name: str, steps: Callable[[Mapping[str, str]], ServiceSteps[Ran_co, Both_co]]
    ) -> None:
        self._name = name
        self._steps = steps

    def __call__(self, *, options: Mapping[str, str] | None = None) -> Both_co:
        """Run every plan that waits, oldest first, then plan the rest and run that.

        Return what was done: of a compaction the last commit made, or None; of a clean a list.
        """
        return self._steps(options or {}).both()

    def schedule(self, *, options: Mapping[str, str] | None = None) -> str | None:
        """Put a plan on the timeline and return its instant, None when there is nothing to do."""
        return self._steps(options or {}).schedule()

    def run(self, instant: str | Instant, *, options: Mapping[str, str] | None = None) -> Ran_co:
        """Carry out a plan, whoever made it.

        Raises `PlanRemovedError` when it is gone, `PlanCompletedError` when it is done, and
        `ConfigError` when the instant is something else.
        """
        time = instant.requested_time if isinstance(instant, Instant) else str(instant)
        return self._steps(options or {}).run(time)

    @override
    def __repr__(self) -> str:
        name = self._name
        return f"<{name}: call {name}(), or {name}.schedule() and {name}.run(instant)>"
