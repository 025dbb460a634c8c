"""How many requests to an object store a write, a plan and a compaction make."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

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


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("mor", "metadata", "shared", "most"),
    [
        (False, False, False, 50),
        (True, False, False, 47),
        (True, True, False, 56),
        (False, True, True, 76),
        (True, True, True, 71),
    ],
)
def test_an_upsert_of_one_row(
    proxy: FaultyProxy, *, mor: bool, metadata: bool, shared: bool, most: int
) -> None:
    """The data source's way: rows laid aside in one process, and brought in by another."""
    case = kind(mor=mor, metadata=metadata, shared=shared)
    root = f"s3a://lake/upsert-{mor}-{metadata}-{shared}"
    writer = QuickWriter(options(proxy))
    writer.create(root, case)
    for ts in range(3):
        writer.write(root, case, upsert(*(row("a", ts, city) for city in CITIES[:2])))
    proxy.requests.clear()
    writer.write(root, case, upsert(row("a", 9)))
    assert len(proxy.requests) <= most


@pytest.mark.deep
@pytest.mark.parametrize("metadata", [False, True])
def test_a_plan_does_not_grow_with_the_history(proxy: FaultyProxy, *, metadata: bool) -> None:
    case = kind(mor=False, metadata=metadata)
    root = f"s3a://lake/plan-{metadata}"
    given = options(proxy)
    writer = QuickWriter(given)
    writer.create(root, case)
    made = []
    for ts in range(16):
        writer.write(root, case, upsert(row(f"k{ts % 3}", ts)))
        proxy.requests.clear()
        plan_snapshot(load_state(open_storage(root, given), {}), Selection(where="fare > 0"))
        history = [r for r in proxy.requests if re.search(r"history/.*parquet", r.path)]
        made.append((len(proxy.requests), len(history)))
    archived = open_storage(root, given).list(".hoodie/timeline/history").files
    assert len([file for file in archived if file.name.endswith(".parquet")]) > 1
    assert {history for _, history in made} == {0}
    if not metadata:
        assert max(number for number, _ in made) <= 12


def test_a_compaction_reads_each_file_once(proxy: FaultyProxy) -> None:
    case = kind(mor=True, metadata=True)
    root = "s3a://lake/compact"
    writer = QuickWriter(options(proxy))
    writer.create(root, case)
    for ts in range(2):
        writer.write(root, case, upsert(*(row("a", ts, city) for city in CITIES)))
    proxy.requests.clear()
    writer.write(root, case, Step(do=Do.COMPACT))
    read = [r.path for r in proxy.requests if r.method == "GET" and "/city=" in r.path]
    data = [path for path in read if path.endswith(".parquet") or ".log." in path]
    assert len(data) == len(set(data)) == 2 * len(CITIES)
