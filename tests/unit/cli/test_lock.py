from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from tidelake.cli.main import main
from tidelake.env import Env
from tidelake.storage import LocalStorage
from tidelake.txn import TableSpec, create_table
from tidelake.txn.locks import FileSystemLock


@pytest.fixture
def table(tmp_path: Path) -> Path:
    spec = TableSpec(name="t", schema='{"type":"record","name":"r","fields":[]}')
    create_table(Env(LocalStorage(str(tmp_path))), spec)
    return tmp_path


def held(table: Path) -> FileSystemLock:
    env = Env(LocalStorage(str(table)))
    lock = FileSystemLock(env, str(table / ".hoodie"), expire_ms=600_000)
    assert lock.try_acquire()
    return lock


def test_a_free_lock(table: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["lock", "who", str(table)]) == 0
    assert "nobody" in capsys.readouterr().out


def test_the_holder_is_named_with_its_times(
    table: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    held(table)
    assert main(["lock", "who", str(table)]) == 0
    out = capsys.readouterr().out
    assert str(os.getpid()) in out
    assert "since" in out
    assert "unless it is renewed, in " in out
    assert main(["lock", "who", str(table), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["held"] is True
    assert told["until_ms"] - told["since_ms"] > 500_000


def test_a_released_lock_is_lost_to_its_holder(
    table: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lock = held(table)
    assert main(["lock", "release", str(table)]) == 0
    assert "was taken away" in capsys.readouterr().out
    assert not lock.still_held(0)
    assert main(["lock", "who", str(table)]) == 0
    assert "nobody" in capsys.readouterr().out


def test_there_is_no_lock_without_a_table(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["lock", "who", str(tmp_path / "nowhere")]) == 1
    assert "next:" in capsys.readouterr().err


def test_what_to_do_with_the_lock_must_be_said(table: Path) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["lock", str(table)])
    assert ended.value.code == 2
