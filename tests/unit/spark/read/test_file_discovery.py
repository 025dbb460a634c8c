"""The setting by which Spark looks up files: changed for a read, and as it was afterwards."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import cast

import pytest
from pyspark.sql import SparkSession

from tidelake.spark.read.file_discovery import PATHS_WITHOUT_JOB, quick_discovery

_THRESHOLD = "spark.sql.sources.parallelPartitionDiscovery.threshold"
_KEY = "spark.sql.sources.parallelPartitionDiscovery.parallelism"
MANY = PATHS_WITHOUT_JOB + 1


class _Session:
    """As much of a session as is asked for here, with two cores."""

    defaultParallelism = 2  # noqa: N815 - Spark's name

    def __init__(self, parallelism: str | None = None) -> None:
        self.settings = {} if parallelism is None else {_KEY: parallelism}
        self.conf = self
        self.sparkContext = self

    def get(self, key: str, default: str) -> str:
        if int(default) < 0:  # as Spark, which refuses a default that could not be set
            raise ValueError(default)
        return self.settings.get(key, default)

    def set(self, key: str, value: str) -> None:
        self.settings[key] = value

    def unset(self, key: str) -> None:
        self.settings.pop(key, None)


def discovery(
    session: _Session, paths: int = MANY, *, is_local: bool = False
) -> AbstractContextManager[None]:
    return quick_discovery(cast(SparkSession, session), paths, is_local=is_local)


def test_local_files_are_looked_up_in_the_driver() -> None:
    session = _Session("7")
    with discovery(session, is_local=True), discovery(session):
        assert session.settings == {_KEY: "4", _THRESHOLD: str(2**31 - 1)}
    assert session.settings == {_KEY: "7"}


@pytest.mark.parametrize(("before", "during"), [(None, "4"), ("10000", "4"), ("3", "3")])
def test_a_read_of_many_files_takes_few_tasks(before: str | None, during: str) -> None:
    session = _Session(before)
    left = dict(session.settings)
    with discovery(session):
        assert session.settings == {_KEY: during}
        with discovery(session):
            assert session.settings == {_KEY: during}
        assert session.settings == {_KEY: during}
    assert session.settings == left


def test_an_error_leaves_the_setting_as_it_was() -> None:
    session = _Session()
    with pytest.raises(ValueError, match="no"), discovery(session):
        raise ValueError("no")
    assert session.settings == {}


def test_a_few_paths_change_nothing() -> None:
    session = _Session()
    with discovery(session, PATHS_WITHOUT_JOB):
        assert session.settings == {}
