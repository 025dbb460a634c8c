from __future__ import annotations

import io
import sys

import pytest

from tidelake.cli import main as entry
from tidelake.cli import verbs
from tidelake.cli.main import INTERRUPTED
from tidelake.cli.verbs import Call


def test_ctrl_c_ends_with_a_word_and_no_traceback(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(_: Call) -> bool:
        raise KeyboardInterrupt

    monkeypatch.setattr(type(verbs.VERBS[0]), "run", property(lambda _: interrupted), raising=False)
    assert entry([verbs.VERBS[0].name, "/nowhere"]) == INTERRUPTED
    assert capsys.readouterr().err.startswith("interrupted")


def test_what_the_terminal_cannot_show_is_shown_by_number(monkeypatch: pytest.MonkeyPatch) -> None:
    raw = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(raw, encoding="ascii"))

    def shown(call: Call) -> bool:
        call.out.lines(["\u00fc"])
        return True

    monkeypatch.setattr(type(verbs.VERBS[0]), "run", property(lambda _: shown), raising=False)
    assert entry([verbs.VERBS[0].name, "/nowhere"]) == 0
    assert raw.getvalue() == b"\\xfc\n"
