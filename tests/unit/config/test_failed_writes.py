"""Who rolls back failed writes, as the options of a write say it."""

from __future__ import annotations

import pytest

from tidelake.config import FailedWritesPolicy, WriteOptions
from tidelake.errors import ConfigError

POLICY = "hoodie.clean.failed.writes.policy"
SHARED = {"hoodie.write.concurrency.mode": "NON_BLOCKING_CONCURRENCY_CONTROL"}


@pytest.mark.parametrize(
    ("options", "policy"),
    [
        ({}, FailedWritesPolicy.EAGER),
        ({POLICY: "lazy"}, FailedWritesPolicy.LAZY),
        ({"hoodie.cleaner.policy.failed.writes": "NEVER"}, FailedWritesPolicy.NEVER),
        (SHARED, FailedWritesPolicy.LAZY),
        ({**SHARED, POLICY: "LAZY"}, FailedWritesPolicy.LAZY),
    ],
)
def test_only_a_single_writer_is_eager(options: dict[str, str], policy: FailedWritesPolicy) -> None:
    assert WriteOptions.from_options(options).failed_writes is policy


def test_a_writer_among_others_must_not_be_eager() -> None:
    with pytest.raises(ConfigError, match="would roll back what others are writing"):
        WriteOptions.from_options({**SHARED, POLICY: "EAGER"})


def test_markers_may_be_left_aside() -> None:
    assert WriteOptions.from_options({}).rollback_using_markers
    given = {"hoodie.rollback.using.markers": "false"}
    assert not WriteOptions.from_options(given).rollback_using_markers
