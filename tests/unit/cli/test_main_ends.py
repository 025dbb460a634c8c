from __future__ import annotations

import io
import subprocess
import sys

import pytest

from tests.conftest import Unpack
from tidelake.cli import main as entry
from tidelake.cli import verbs
from tidelake.cli.call import Call
from tidelake.cli.main import INTERRUPTED


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


@pytest.mark.parametrize(
    ("redirected", "code", "said"),
    [
        (">/dev/full", 1, "standard output: No space left on device"),
        (">&-", 0, ""),
        ("2>&-", 0, ""),
        (">&- 2>&-", 0, ""),
        ("2>/dev/full", 0, ""),
    ],
)
def test_output_that_has_nowhere_to_go(
    redirected: str, code: int, said: str, golden_table: Unpack
) -> None:
    table = golden_table("v9_mor_compaction_pending")
    done = subprocess.run(
        f"{sys.executable} -m tidelake.cli describe {table} {redirected}",
        shell=True,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == code
    assert "Traceback" not in done.stderr
    assert "Exception ignored" not in done.stderr
    assert said in done.stderr


@pytest.mark.parametrize("redirected", ["2>&-", "2>/dev/full", ">&- 2>&-"])
def test_errors_that_have_nowhere_to_go(redirected: str) -> None:
    program = f"{sys.executable} -m tidelake.cli describe /nowhere {redirected}"
    done = subprocess.run(program, shell=True, check=False)
    assert done.returncode == 1
