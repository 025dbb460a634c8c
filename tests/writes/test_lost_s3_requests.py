"""Requests to an S3 server that a proxy loses, on tables of every kind and for every operation.

The proxy resets connections before and behind the server, answers 500 after success, and lets
requests arrive that the client had given up. A request is lost once, and the client's next attempt
goes through; or every attempt is lost, and the operation fails.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from itertools import count
from pathlib import Path

import pytest
from obstore.store import S3Store
from typing_extensions import override

from tests.faulty_proxy import FaultyProxy, HttpFault, Request
from tests.lanes import spread
from tests.s3_server import (
    BUCKET,
    KEY,
    SECRET,
    S3Object,
    forget,
    make_older,
    objects_below,
    put_object,
    s3_server,
)
from tests.writes.lost_requests import Arrives, Ended, Place, play
from tests.writes.operations import ACTS, KINDS, SILENT_MS, Made, Silence, can, made_for
from tidelake.storage import InProcessSpec, MemoryStorage, ObjectStorage, Storage, StorageSpec
from tidelake.txn.locks.storage_lock import LOCK_FILE

#: What is lost, whether each attempt is or the first alone, and when a late one arrives.
LOST = tuple(
    (fault, is_for_good, arrives)
    for is_for_good in (False, True)
    for fault, arrives in (
        (HttpFault.LOST_BEFORE, Arrives.NEVER),
        (HttpFault.LOST_AFTER, Arrives.NEVER),
        (HttpFault.ERROR_AFTER, Arrives.NEVER),
        (HttpFault.LATE, Arrives.BEFORE_NEXT),
        (HttpFault.LATE, Arrives.AFTER_NEXT),
    )
)
CASES = [(kind, name) for kind, case in KINDS.items() for name in ACTS if can(name, case)]
_PREFIXES = count()
#: What all attempts at a request share, made anew with another date and signature; the last is of
#: one call of the storage, so that whoever calls it again makes another request.
_SHARED = ("if-match", "if-none-match", "x-amz-meta-tidelakewrite")


class QuickS3(ObjectStorage):
    """A prefix of the server's bucket; the client gives up within a second."""

    def __init__(self, endpoint: str, prefix: str) -> None:
        store = S3Store(
            BUCKET,
            prefix=prefix,
            config={
                "endpoint": endpoint,
                "access_key_id": KEY,
                "secret_access_key": SECRET,
                "region": "us-east-1",
            },
            client_options={"allow_http": True},
            retry_config={
                "max_retries": 2,
                "retry_timeout": timedelta(seconds=5),
                "backoff": {
                    "init_backoff": timedelta(milliseconds=5),
                    "max_backoff": timedelta(milliseconds=20),
                    "base": 2,
                },
            },
        )
        super().__init__(store, StorageSpec(f"s3://{BUCKET}/{prefix}"), delays_ms=(5, 10))

    @property
    @override
    def spec(self) -> StorageSpec:
        """Return a value with which this process reaches it, by the same client."""
        return InProcessSpec(super().spec.uri, root=self)


@dataclass
class OnS3:
    """A table below a prefix of its own, behind a proxy."""

    proxy: FaultyProxy
    endpoint: str
    made: Made
    most_traces: int | None = None
    """How many signs of a write the operation may leave."""
    prefix: str = field(default_factory=lambda: f"t{next(_PREFIXES)}")
    silence: Silence = field(default_factory=Silence)

    def __post_init__(self) -> None:
        for path in self.made.storage.files_below(""):
            info = self.made.storage.stat(path)
            assert info is not None
            # Where time passed while the table was made, it has passed here as well.
            ms = info.modified_ms - self.made.silence.ms
            modified = datetime.fromtimestamp(ms / 1000, timezone.utc).replace(tzinfo=None)
            put_object(f"{self.prefix}/{path}", S3Object(self.made.storage.read(path), modified))
        self._faulty = QuickS3(self.proxy.endpoint, self.prefix)
        self._storage = QuickS3(self.endpoint, self.prefix)

    @property
    def faulty(self) -> Storage:
        return self._faulty

    @property
    def storage(self) -> Storage:
        return self._storage

    def look(self) -> MemoryStorage:
        if self.most_traces is not None:
            assert not self.is_locked()
            assert len(self.traces()) <= self.most_traces
        found = objects_below(self.prefix)
        times = iter([_stamped_ms(each) for each in found.values()])
        made = MemoryStorage(now_ms=lambda: next(times))
        for path, each in found.items():
            made.put(path, each.data)
        return made.copied(self.silence.now_ms)

    def wait(self) -> None:
        self.most_traces = None
        make_older(self.prefix, timedelta(milliseconds=SILENT_MS))

    def deliver(self) -> None:
        self.proxy.deliver()

    def settled(self) -> Place:
        return Settled(self.look(), self.silence)

    def is_locked(self) -> bool:
        """Return whether somebody holds the table's lock."""
        found = objects_below(self.prefix).get(LOCK_FILE)
        return found is not None and not json.loads(found.data)["expired"]

    def traces(self) -> list[str]:
        """Return the signs of a write that are there while it runs."""
        return [
            path
            for path in objects_below(self.prefix)
            if path.startswith((".hoodie/.heartbeat/", ".hoodie/.temp/"))
        ]


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    with s3_server() as endpoint:
        yield endpoint


@dataclass
class Settled:
    """What a server had, in memory."""

    storage: MemoryStorage
    silence: Silence

    @property
    def faulty(self) -> Storage:
        return self.storage

    def look(self) -> MemoryStorage:
        return self.storage

    def wait(self) -> None:
        self.silence.ms += SILENT_MS

    def deliver(self) -> None:
        pass

    def settled(self) -> Place:
        return self


def _stamped_ms(found: S3Object) -> int:
    """Return an object's time as the server tells it."""
    whole = found.modified.replace(tzinfo=timezone.utc, microsecond=0)
    return int(whole.timestamp() * 1000)


@contextmanager
def place(server: str, made: Made) -> Iterator[OnS3]:
    """Put a table on the server for as long as the block runs."""
    with FaultyProxy(server) as proxy:
        found = OnS3(proxy, server, made)
        try:
            yield found
        finally:
            forget(found.prefix)


def identity(request: Request) -> tuple[object, ...]:
    """Return what all attempts of one request share."""
    conditions = tuple(value for name, value in request.headers.items() if name.lower() in _SHARED)
    return request.method, request.path, request.body, conditions


def fault_at(proxy: FaultyProxy, number: int, fault: HttpFault, *, is_for_good: bool) -> None:
    """Lose the change that comes as the `number`th, once or whenever it comes."""
    numbers = count()
    chosen: list[tuple[object, ...]] = []

    def decide(request: Request) -> HttpFault | None:
        if not request.changes:
            return None
        if next(numbers) == number:
            chosen.append(identity(request))
            return fault
        return fault if is_for_good and chosen == [identity(request)] else None

    proxy.fault = decide


def lose(
    server: str,
    kind: str,
    name: str,
    folder: Path,
    *,
    requests: int | None = None,
    faults: Sequence[tuple[HttpFault, bool, Arrives]] = LOST,
) -> Counter[Ended]:
    """Lose every change of an operation, or some of them, in every way; return what it said."""
    made = made_for(name, KINDS[kind], folder)
    with place(server, made) as counted:
        ACTS[name](counted.faulty, made)
        changing = [r for r in counted.proxy.requests if r.changes]
        most_traces = len(counted.traces())
    assert changing
    chosen = range(len(changing)) if requests is None else sorted(spread(len(changing), requests))
    said: Counter[Ended] = Counter()
    for number in chosen:
        for fault, is_for_good, arrives in faults:
            lost = changing[number]
            attempts = "each attempt of" if is_for_good else "the first attempt of"
            where = f"{name}: {fault}, {arrives}, {attempts} {number}: {lost.method} {lost.path}"
            with place(server, made) as here:
                fault_at(here.proxy, number, fault, is_for_good=is_for_good)
                if not is_for_good and arrives is Arrives.NEVER:
                    here.most_traces = most_traces
                ended = play(here, made, name, arrives, where)
                assert is_for_good or ended is Ended.DONE, where
                said[ended] += 1
    figures = f"{len(chosen)} of {len(changing)} requests x {len(faults)}: {_told(said)}"
    print(f"{kind}, {name}: {figures}")  # noqa: T201 - the figures of the run
    return said


def _told(said: Counter[Ended]) -> str:
    return ", ".join(f"{number} {ended}" for ended, number in sorted(said.items()))


#: Each fault once, half of them for all attempts.
FEW = (LOST[0], LOST[1], LOST[2], LOST[5], LOST[6], LOST[9])


@pytest.mark.long
@pytest.mark.timeout(14_400)
@pytest.mark.parametrize(("kind", "name"), CASES)
def test_no_request_that_gets_lost_costs_a_row(
    server: str, kind: str, name: str, tmp_path: Path
) -> None:
    lose(server, kind, name, tmp_path)


@pytest.mark.deep
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("name", ACTS)
def test_some_requests_of_every_operation(server: str, name: str, tmp_path: Path) -> None:
    lose(server, "v9-mor-occ", name, tmp_path, requests=4, faults=FEW)


@pytest.mark.sampled(1)
@pytest.mark.parametrize(("kind", "name"), [("v9-mor-occ", "upsert"), ("v6-mor-single", "compact")])
def test_some_requests_of_a_write(server: str, kind: str, name: str, tmp_path: Path) -> None:
    lose(server, kind, name, tmp_path, requests=1, faults=FEW)
