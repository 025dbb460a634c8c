"""How long a writer waits for the clocks of others."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.scenarios.lake import COW, Lake
from tidelake.config import WriteOptions
from tidelake.operations import write_session
from tidelake.operations.open_table import load_state
from tidelake.operations.write_session import WriteSession

SHARED = {"hoodie.write.concurrency.mode": "OPTIMISTIC_CONCURRENCY_CONTROL"}
SKEW = {"hoodie.time.generator.max_expected_clock_skew_ms": "70"}
IN_PROCESS = {"hoodie.write.lock.provider": "in process"}


@pytest.mark.parametrize(
    ("given", "is_local", "waits_ms"),
    [
        (SHARED, True, 1),
        (SHARED, False, 200),
        ({**SHARED, **SKEW}, True, 70),
        ({**SHARED, **SKEW}, False, 70),
        ({**SHARED, **IN_PROCESS}, False, 1),
    ],
)
def test_writers_of_one_machine_have_one_clock(
    given: Mapping[str, str],
    is_local: bool,
    waits_ms: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(write_session, "is_of_this_machine", lambda _: is_local)
    lake = Lake(tmp_path, COW)
    session = WriteSession(
        lake.env(), load_state(lake.storage, given), WriteOptions.from_options(given)
    )
    assert session.concurrency.max_skew_ms == waits_ms
