"""How far long work has come: a bar on a terminal, lines in the log elsewhere."""

from __future__ import annotations

import logging
import sys
from typing import TextIO

from tidelake.config import ProgressStyle
from tidelake.env import Clock
from tidelake.model.byte_size import byte_size_text

_log = logging.getLogger(__name__)

_BAR_WIDTH = 24
#: A line of the log is written when this much time has passed since the last.
_LOG_EVERY_MS = 10_000
_DRAW_EVERY_MS = 100


class Progress:
    """Counts finished files and bytes of one piece of work, and shows them.

    As a context it clears the bar at the end, whatever the end is.
    """

    def __init__(
        self,
        what: str,
        *,
        files: int,
        size_bytes: int,
        clock: Clock,
        style: ProgressStyle = ProgressStyle.AUTO,
        stream: TextIO | None = None,
    ) -> None:
        self._what = what
        self._files, self._bytes = files, size_bytes
        self._files_done = self._bytes_done = 0
        self._clock = clock
        self._began_ms = clock.now_ms()
        self._shown_ms = self._began_ms
        self._stream = stream or sys.stderr
        if style is ProgressStyle.AUTO:
            style = ProgressStyle.BAR if self._stream.isatty() else ProgressStyle.LOG
        self._style = style

    def __enter__(self) -> Progress:
        if self._style is ProgressStyle.BAR:
            self._draw()
        return self

    def __exit__(self, *_: object) -> None:
        if self._style is ProgressStyle.BAR:
            self._stream.write("\r\033[K")
            self._stream.flush()

    def add(self, *, files: int, size_bytes: int) -> None:
        """Count files that are done, and the bytes that went into them."""
        self._files_done += files
        self._bytes_done += size_bytes
        now_ms = self._clock.now_ms()
        is_last = self._files_done >= self._files
        if self._style is ProgressStyle.BAR:
            if is_last or now_ms - self._shown_ms >= _DRAW_EVERY_MS:
                self._shown_ms = now_ms
                self._draw()
        elif self._style is ProgressStyle.LOG and now_ms - self._shown_ms >= _LOG_EVERY_MS:
            self._shown_ms = now_ms
            _log.info("%s: %s", self._what, self.text())

    def text(self) -> str:
        """Return how many files and bytes are done, and about how long the rest will take."""
        done = (
            f"{self._files_done} of {self._files} files, "
            f"{byte_size_text(self._bytes_done)} of {byte_size_text(self._bytes)}"
        )
        left_ms = self.left_ms()
        return done if left_ms is None else f"{done}, about {_span(left_ms)} left"

    def left_ms(self) -> int | None:
        """Return how long the rest will take at the pace so far; None before anything is done."""
        if not self._bytes_done or self._files_done >= self._files:
            return None
        elapsed_ms = self._clock.now_ms() - self._began_ms
        return elapsed_ms * max(0, self._bytes - self._bytes_done) // self._bytes_done

    def _draw(self) -> None:
        share = self._bytes_done / self._bytes if self._bytes else 0.0
        filled = min(_BAR_WIDTH, int(share * _BAR_WIDTH))
        bar = "#" * filled + "-" * (_BAR_WIDTH - filled)
        self._stream.write(f"\r\033[K{self._what} [{bar}] {self.text()}")
        self._stream.flush()


def _span(milliseconds: int) -> str:
    seconds = -(-milliseconds // 1000)
    if seconds < 60:
        return f"{seconds} s"
    minutes = -(-seconds // 60)
    return f"{minutes} min" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"
