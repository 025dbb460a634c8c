"""What the log says of services, one line for each that did something."""

from __future__ import annotations

import logging
import re

import pytest

from tests.unit.services.busy_table import busy
from tests.unit.txn.toy_table import environment
from tidelake.config import WriteOptions
from tidelake.model import Action, Commit, TableType
from tidelake.services import archive, clean, restore, roll_back, savepoint
from tidelake.services.done_log import log_commit

COMMIT = Commit(
    requested_time="20260301101500123",
    completion_time="20260301101501456",
    action=Action.COMMIT,
    operation="UPSERT",
    inserts=5,
    updates=3,
    files_written=2,
    bytes_written=2048,
)


def test_every_service_writes_one_line_at_level_info(caplog: pytest.LogCaptureFixture) -> None:
    table = busy(9, TableType.COPY_ON_WRITE)
    times = [table.write({"a": str(number)}) for number in range(12)]
    env = environment(table.storage)
    chosen = WriteOptions.from_options(
        {
            "hoodie.clean.commits.retained": "2",
            "hoodie.keep.min.commits": "3",
            "hoodie.keep.max.commits": "4",
        }
    ).services
    with caplog.at_level(logging.INFO, logger="tidelake.services.done_log"):
        assert clean(env, chosen.clean)
        assert archive(env, chosen)
        saved = savepoint(env)
        newest = table.write({"a": "new"})
        roll_back(env, newest)
        table.write({"a": "newer"})
        restore(env, saved.requested_time)
    uri = re.escape(env.storage.spec.uri)
    wanted = [
        rf"clean \d+ of {uri}: \d+ files deleted, \d+\.\d s",
        rf"archival up to \d+ of {uri}: \d+ instants, \d+\.\d s",
        rf"savepoint {times[-1]} of {uri}: \d+ files kept, \d+\.\d s",
        rf"rollback of {newest} of {uri}: \d+ files deleted, \d+\.\d s",
        rf"restore to {times[-1]} of {uri}: 1 instants taken back, \d+ files deleted, \d+\.\d s",
    ]
    lines = [r.getMessage() for r in caplog.records if r.name == "tidelake.services.done_log"]
    assert len(lines) == len(wanted)
    for line, pattern in zip(lines, wanted, strict=True):
        assert re.fullmatch(pattern, line), line


def test_a_commit_says_what_it_brought_and_how_long_it_took(
    caplog: pytest.LogCaptureFixture,
) -> None:
    env = environment(busy(9, TableType.COPY_ON_WRITE).storage)
    with caplog.at_level(logging.INFO):
        log_commit(env, env.clock.now_ms() - 1_230, COMMIT)
    [line] = [record.getMessage() for record in caplog.records]
    assert line == (
        f"upsert 20260301101500123 of {env.storage.spec.uri}: 5 inserted, 3 updated, 0 deleted, "
        "2 files, 2.0 KiB, 1 attempts, 1.2 s"
    )
