from __future__ import annotations

import logging
from io import StringIO

import pytest
from typing_extensions import override

from tidelake.config import ProgressStyle
from tidelake.operations.progress import Progress
from tidelake.testing import ManualClock

MIB = 1 << 20


class Terminal(StringIO):
    @override
    def isatty(self) -> bool:
        return True


def progress(stream: StringIO, clock: ManualClock, style: ProgressStyle) -> Progress:
    return Progress(
        "compaction 1", files=4, size_bytes=100 * MIB, clock=clock, style=style, stream=stream
    )


def test_a_terminal_shows_files_bytes_and_the_time_left() -> None:
    terminal, clock = Terminal(), ManualClock()
    with progress(terminal, clock, ProgressStyle.AUTO) as shown:
        clock.sleep_ms(30_000)
        shown.add(files=1, size_bytes=25 * MIB)
        assert shown.left_ms() == 90_000
        assert terminal.getvalue().endswith(
            "[######------------------] 1 of 4 files, 25.0 MiB of 100.0 MiB, about 2 min left"
        )
        clock.sleep_ms(90_000)
        shown.add(files=3, size_bytes=75 * MIB)
        assert terminal.getvalue().endswith("4 of 4 files, 100.0 MiB of 100.0 MiB")
    assert terminal.getvalue().endswith("\r\033[K")  # nothing of the bar is left


def test_elsewhere_it_is_a_line_in_the_log_now_and_then(caplog: pytest.LogCaptureFixture) -> None:
    stream, clock = StringIO(), ManualClock()
    with caplog.at_level(logging.INFO), progress(stream, clock, ProgressStyle.AUTO) as shown:
        clock.sleep_ms(9_000)
        shown.add(files=1, size_bytes=10 * MIB)
        assert caplog.messages == []
        clock.sleep_ms(1_000)
        shown.add(files=1, size_bytes=40 * MIB)
    assert caplog.messages == ["compaction 1: 2 of 4 files, 50.0 MiB of 100.0 MiB, about 10 s left"]
    assert stream.getvalue() == ""


def test_it_can_be_silent(caplog: pytest.LogCaptureFixture) -> None:
    terminal, clock = Terminal(), ManualClock()
    with caplog.at_level(logging.INFO), progress(terminal, clock, ProgressStyle.OFF) as shown:
        clock.sleep_ms(60_000)
        shown.add(files=4, size_bytes=100 * MIB)
    assert (terminal.getvalue(), caplog.messages) == ("", [])
