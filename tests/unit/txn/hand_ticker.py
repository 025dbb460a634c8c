"""A ticker that a test moves on by hand."""

from __future__ import annotations

from collections.abc import Callable


class HandTicker:
    """Ticks when it is told to."""

    def __init__(self) -> None:
        self._acts: list[Callable[[], None]] = []

    def every(self, interval_ms: int, act: Callable[[], None]) -> Callable[[], None]:
        assert interval_ms > 0
        self._acts.append(act)
        return lambda: self._acts.remove(act)

    @property
    def is_idle(self) -> bool:
        """Return whether nothing is left that ticks."""
        return not self._acts

    def tick(self) -> None:
        for act in list(self._acts):
            act()
