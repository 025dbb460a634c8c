from __future__ import annotations

import subprocess
import sys

import pytest

from tidelake.txn.locks import process
from tidelake.txn.locks.process import is_gone, process_mark, shown_name


@pytest.fixture
def ended() -> str:
    """Return what a process left that has ended."""
    code = "from tidelake.txn.locks.process import process_mark; print(process_mark())"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return done.stdout.strip()


def test_a_process_is_known_again() -> None:
    mark = process_mark()
    assert not is_gone(f"{mark}:some-id")
    assert mark.startswith(shown_name(mark))


def test_a_process_that_ended_is_gone(ended: str) -> None:
    assert is_gone(ended)


def test_a_later_process_of_the_same_number_is_another_one() -> None:
    machine = process_mark().rpartition("-")[0]
    assert is_gone(f"{machine}-1")


def test_nobody_can_tell_of_another_machine(ended: str) -> None:
    name, _, start = ended.rpartition("-")
    assert not is_gone(f"{name.rpartition(':')[0]}:0123abcd-{start}")


def test_a_process_that_the_system_hides_may_be_alive(monkeypatch: pytest.MonkeyPatch) -> None:
    mark = process_mark()
    monkeypatch.setattr(process, "_facts", lambda _: None)
    assert not is_gone(mark)
