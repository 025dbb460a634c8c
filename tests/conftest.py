from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import get_ident
from typing import TYPE_CHECKING, Protocol

import pytest
from hypothesis import settings

from tests.golden import harness
from tests.lanes import leave_samples
from tidelake.env import ThreadTicker

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


# How long an example takes says more about what else the machine does than about the code.
settings.register_profile("tidelake", deadline=None)
settings.load_profile("tidelake")


@pytest.hookimpl(tryfirst=True)  # marks are looked at by others
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    leave_samples(items)


Act = Callable[[], None]


class Unpack(Protocol):
    def __call__(self, name: str) -> Path: ...


@pytest.fixture
def caplog(caplog: pytest.LogCaptureFixture) -> Iterator[pytest.LogCaptureFixture]:
    """Return what this thread says: those of writers that earlier tests left may speak too."""
    here = get_ident()

    def is_ours(record: logging.LogRecord) -> bool:
        return record.thread == here

    caplog.handler.addFilter(is_ours)
    yield caplog
    caplog.handler.removeFilter(is_ours)


@pytest.fixture(autouse=True)
def _nothing_ticks_on(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """End the signs of life of writers that a test leaves behind, as its process would."""
    begin = ThreadTicker.every
    ends: list[Act] = []

    def every(ticker: ThreadTicker, interval_ms: int, act: Act) -> Act:
        ends.append(begin(ticker, interval_ms, act))
        return ends[-1]

    monkeypatch.setattr(ThreadTicker, "every", every)
    yield
    for end in ends:
        end()


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    from tests.sessions import local_session  # tests without Spark should not wait for its import

    session = local_session()
    yield session
    session.stop()


@pytest.fixture(scope="session")
def golden_table(tmp_path_factory: pytest.TempPathFactory) -> Unpack:
    """Return a function from a golden table's name to its root; tests must not change the files."""
    unpacked: dict[str, Path] = {}

    def unpack(name: str) -> Path:
        if name not in unpacked:
            unpacked[name] = harness.unpack(harness.load(name), tmp_path_factory.mktemp(name))
        return unpacked[name]

    return unpack
