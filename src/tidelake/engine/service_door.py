"""The doors to services that plan first and run later."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

from tidelake.model import Commit, Instant


class Service(Protocol):
    """A service of one table, with its options."""

    def schedule(self) -> str | None:
        """Put a plan on the timeline and return its instant; None: there is nothing to do."""

    def run(self, requested_time: str) -> Commit:
        """Carry out a plan."""

    def both(self) -> Commit | None:
        """Carry out every plan that waits, then plan and carry out the rest."""


class ServiceDoor:
    """A service of a table: call it to plan and run, or take the two steps one by one."""

    def __init__(self, service: Callable[[Mapping[str, str]], Service]) -> None:
        self._service = service

    def __call__(self, options: Mapping[str, str] | None = None) -> Commit | None:
        """Run every plan that waits, oldest first, then plan the rest and run that.

        Return the last commit made, None when there was nothing to do.
        """
        return self._service(options or {}).both()

    def schedule(self, options: Mapping[str, str] | None = None) -> str | None:
        """Put a plan on the timeline and return its instant, None when there is nothing to do."""
        return self._service(options or {}).schedule()

    def run(self, instant: str | Instant, options: Mapping[str, str] | None = None) -> Commit:
        """Carry out a plan, whoever made it.

        Raises `PlanRemovedError` when it is gone, `PlanCompletedError` when it is done, and
        `ConfigError` when the instant is something else.
        """
        time = instant.requested_time if isinstance(instant, Instant) else str(instant)
        return self._service(options or {}).run(time)
