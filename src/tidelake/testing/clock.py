"""A clock that moves when it is told to."""

from __future__ import annotations


class ManualClock:
    """Stand still but for `sleep_ms`, which takes no time of anybody else's."""

    def __init__(self, now_ms: int = 1_794_700_800_000) -> None:
        self._now_ms = now_ms

    def now_ms(self) -> int:
        """Return milliseconds since the epoch."""
        return self._now_ms

    def sleep_ms(self, delay_ms: int) -> None:
        """Move on by `delay_ms`; a negative delay is a clock that was set back."""
        self._now_ms += delay_ms
