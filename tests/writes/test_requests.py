"""How many requests to an object store a write, a plan and a compaction make."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partialmethod
from typing import TypeVar

import pytest

from tests.faulty_proxy import FaultyProxy
from tests.s3_server import s3_options, s3_server
from tests.writes.cases import Case
from tests.writes.model import Do, Row, Step
from tests.writes.quick_writer import QuickWriter
from tidelake.operations.open_table import load_state
from tidelake.read.scan import Selection
from tidelake.read.snapshot import plan_snapshot
from tidelake.storage import open_storage
from tidelake.storage.objects import ObjectStorage

A = TypeVar("A")
B = TypeVar("B")

SHARED = (
    ("hoodie.write.concurrency.mode", "OPTIMISTIC_CONCURRENCY_CONTROL"),
    (
        "hoodie.write.lock.provider",
        "org.apache.hudi.client.transaction.lock.StorageBasedLockProvider",
    ),
)
CITIES = tuple(f"city{number}" for number in range(6))


@pytest.fixture(scope="module")
def proxy() -> Iterator[FaultyProxy]:
    """Return a proxy that counts what reaches a server of this process."""
    with s3_server() as endpoint, FaultyProxy(endpoint) as proxy:
        yield proxy


def options(proxy: FaultyProxy) -> Mapping[str, str]:
    return s3_options(proxy.endpoint)


def kind(*, mor: bool, metadata: bool, shared: bool = False) -> Case:
    settings = (
        ("hoodie.metadata.enable", str(metadata).lower()),
        ("hoodie.keep.min.commits", "4"),
        ("hoodie.keep.max.commits", "6"),
        ("hoodie.clean.commits.retained", "2"),
    )
    index = "BUCKET" if mor else "SIMPLE"
    return Case(version=9, mor=mor, index=index, extra=settings + (SHARED if shared else ()))


def row(key: str, ts: int, city: str = CITIES[0]) -> Row:
    return {
        "id": key,
        "region": "n",
        "city": city,
        "day": 1_794_700_800_000,
        "ts": ts,
        "fare": 1.0,
        "note": None,
    }


def upsert(*rows: Row) -> Step:
    return Step(do=Do.UPSERT, rows=rows)


#: Kinds of tables that requests are counted for.
KINDS = [
    # merge on read, metadata table, shared, all requests, those that wait for one before
    (False, False, False, 25, 22),
    (True, False, False, 23, 20),
    (True, True, False, 30, 25),
    (False, False, True, 31, 28),
    (False, True, True, 38, 33),
    (True, True, True, 36, 31),
]
LATENCY_MS = 30


class Counted:
    """How many requests were made, and how many of them waited for one before."""

    def __init__(self, proxy: FaultyProxy) -> None:
        self._proxy = proxy
        self._beside = 0

    def begin(self) -> None:
        """Count from here on."""
        self._proxy.requests.clear()
        self._beside = 0

    @property
    def all(self) -> int:
        """Return how many requests there were."""
        return len(self._proxy.requests)

    @property
    def in_turn(self) -> int:
        """Return how often the latency of a request is waited for."""
        return self.all - self._beside

    def both(
        self, _: ObjectStorage, first: Callable[[], A], second: Callable[[], B]
    ) -> tuple[A, B]:
        """Do one after the other what a storage does at once, and note what that saves."""
        began = self.in_turn
        one = first()
        between = self.in_turn
        two = second()
        self._beside += min(between - began, self.in_turn - between)
        return one, two

    def read_many(self, storage: ObjectStorage, paths: Sequence[str]) -> Sequence[bytes]:
        """Read files one by one, and note that all but one are read beside that."""
        began = self.in_turn
        contents = [storage.read(path) for path in paths]
        self._beside += max(0, self.in_turn - began - 1)
        return contents


@pytest.fixture
def counted(proxy: FaultyProxy, monkeypatch: pytest.MonkeyPatch) -> Counted:
    """Return what counts requests; those that a storage makes at once come one by one."""
    counted = Counted(proxy)
    monkeypatch.setattr(ObjectStorage, "both", partialmethod(_both, counted))
    monkeypatch.setattr(ObjectStorage, "read_many", partialmethod(_read_many, counted))
    return counted


def _both(
    storage: ObjectStorage, counted: Counted, first: Callable[[], A], second: Callable[[], B]
) -> tuple[A, B]:
    return counted.both(storage, first, second)


def _read_many(storage: ObjectStorage, counted: Counted, paths: Sequence[str]) -> Sequence[bytes]:
    return counted.read_many(storage, paths)


@pytest.mark.sampled(2)
@pytest.mark.parametrize(("mor", "metadata", "shared", "most", "most_in_turn"), KINDS)
def test_an_upsert_of_one_row(
    proxy: FaultyProxy,
    counted: Counted,
    *,
    mor: bool,
    metadata: bool,
    shared: bool,
    most: int,
    most_in_turn: int,
) -> None:
    """The data source's way: a task passes the row on, and another process brings it in.

    Where a request takes 30 ms longer, the write takes at most a second longer.
    """
    case = kind(mor=mor, metadata=metadata, shared=shared)
    root = f"s3a://lake/upsert-{mor}-{metadata}-{shared}"
    writer = QuickWriter(options(proxy))
    writer.create(root, case)
    for ts in range(3):
        writer.write(root, case, upsert(*(row("a", ts, city) for city in CITIES[:2])))
    counted.begin()
    writer.write(root, case, upsert(row("a", 9)))
    assert counted.all <= most <= 40
    assert counted.in_turn <= most_in_turn
    assert most_in_turn * LATENCY_MS <= 1_000


@pytest.mark.deep
@pytest.mark.parametrize("metadata", [False, True])
def test_a_plan_does_not_grow_with_the_history(
    proxy: FaultyProxy, counted: Counted, *, metadata: bool
) -> None:
    """What is not archived yet is read at once, commits of the metadata table and logs as well."""
    case = kind(mor=False, metadata=metadata)
    root = f"s3a://lake/plan-{metadata}"
    given = options(proxy)
    writer = QuickWriter(given)
    writer.create(root, case)
    made = []
    for ts in range(16):
        writer.write(root, case, upsert(row(f"k{ts % 3}", ts)))
        counted.begin()
        plan_snapshot(load_state(open_storage(root, given), {}), Selection(where="fare > 0"))
        history = [r for r in proxy.requests if re.search(r"history/.*parquet", r.path)]
        made.append((counted.all, counted.in_turn, len(history)))
    archived = open_storage(root, given).list(".hoodie/timeline/history").files
    assert len([file for file in archived if file.name.endswith(".parquet")]) > 1
    assert {history for *_, history in made} == {0}
    assert max(in_turn for _, in_turn, _ in made) <= 10
    if not metadata:
        assert max(number for number, *_ in made) <= 11


@pytest.mark.parametrize(("shared", "fixed"), [(False, 38), (True, 52)])
def test_a_compaction_reads_each_file_once(
    proxy: FaultyProxy, counted: Counted, *, shared: bool, fixed: int
) -> None:
    case = kind(mor=True, metadata=True, shared=shared)
    root = f"s3a://lake/compact-{shared}"
    writer = QuickWriter(options(proxy))
    writer.create(root, case)
    for ts in range(2):
        writer.write(root, case, upsert(*(row("a", ts, city) for city in CITIES)))
    counted.begin()
    writer.write(root, case, Step(do=Do.COMPACT))
    assert counted.all <= fixed + 6 * len(CITIES)
    read = [r.path for r in proxy.requests if r.method == "GET" and "/city=" in r.path]
    data = [path for path in read if path.endswith(".parquet") or ".log." in path]
    assert len(data) == len(set(data)) == 2 * len(CITIES)
