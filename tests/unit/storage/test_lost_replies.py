"""Requests of which the store, or the way to it, loses the reply."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from tests.faulty_proxy import FaultyProxy, HttpFault, Request
from tests.s3_server import s3_options, s3_server
from tidelake.errors import MissingFileError, StorageError
from tidelake.storage import Storage, open_storage

LOST = (HttpFault.LOST_BEFORE, HttpFault.LOST_AFTER, HttpFault.ERROR_AFTER)


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    with s3_server() as endpoint:
        yield endpoint


@pytest.fixture
def proxy(server: str) -> Iterator[FaultyProxy]:
    with FaultyProxy(server) as proxy:
        yield proxy


@pytest.fixture
def storage(proxy: FaultyProxy, request: pytest.FixtureRequest) -> Storage:
    return opened(proxy.endpoint, request.node.name)


def opened(endpoint: str, name: str) -> Storage:
    return open_storage(f"s3a://lake/{name}", s3_options(endpoint))


def first_change(fault: HttpFault) -> Callable[[Request], HttpFault | None]:
    left = [fault]
    return lambda request: left.pop() if left and request.changes else None


def every_change(fault: HttpFault) -> Callable[[Request], HttpFault | None]:
    return lambda request: fault if request.changes else None


@pytest.mark.parametrize("fault", LOST, ids=str)
@pytest.mark.parametrize("content", [b"", b"a plan"], ids=["empty", "plan"])
def test_a_file_of_ours_is_not_taken_for_anothers(
    storage: Storage, proxy: FaultyProxy, fault: HttpFault, content: bytes
) -> None:
    proxy.fault = first_change(fault)
    assert storage.put_if_absent("requested", content)
    assert not storage.put_if_absent("requested", content), "a second writer is refused"
    assert storage.read("requested") == content


@pytest.mark.parametrize("fault", LOST, ids=str)
def test_a_file_of_another_is_not_taken_for_ours(
    storage: Storage, proxy: FaultyProxy, server: str, fault: HttpFault
) -> None:
    other = opened(server, storage.spec.uri.removeprefix("s3://lake/"))
    assert other.put_if_absent("requested", b"")
    proxy.fault = first_change(fault)
    assert not storage.put_if_absent("requested", b"")


@pytest.mark.parametrize("fault", LOST, ids=str)
def test_a_lease_of_ours_is_not_taken_for_anothers(
    storage: Storage, proxy: FaultyProxy, fault: HttpFault
) -> None:
    storage.put("lock", b"first")
    tag = storage.read_tagged("lock").tag
    proxy.fault = first_change(fault)
    second = storage.put_if_tagged("lock", b"second", tag)
    assert second == storage.read_tagged("lock").tag
    assert storage.put_if_tagged("lock", b"third", tag) is None
    assert storage.read("lock") == b"second"


@pytest.mark.parametrize("fault", LOST, ids=str)
def test_a_delete_is_made_again(storage: Storage, proxy: FaultyProxy, fault: HttpFault) -> None:
    for path in ("a", "b/c", "b/d"):
        storage.put(path, b"")
    proxy.fault = first_change(fault)
    storage.delete("a")
    proxy.fault = first_change(fault)
    storage.delete_folder("b")
    assert list(storage.files_below("")) == []


def test_many_files_go_with_one_request(storage: Storage, proxy: FaultyProxy) -> None:
    paths = [f"city=são paulo/{number}.parquet" for number in range(40)]
    for path in paths:
        storage.put(path, b"")
    proxy.requests.clear()
    storage.delete_all([*paths, "city=oslo/gone.parquet"])
    assert len(proxy.requests) == 1
    storage.delete_all([])
    assert len(proxy.requests) == 1
    assert list(storage.files_below("")) == []


def test_a_store_that_stays_away_is_told_in_time(storage: Storage, proxy: FaultyProxy) -> None:
    proxy.fault = every_change(HttpFault.LOST_BEFORE)
    with pytest.raises(StorageError) as raised:
        storage.put_if_absent("requested", b"")
    assert not raised.value.is_refusal
    assert 2 < len(proxy.requests) < 12


def test_what_the_store_forbids_is_asked_once(storage: Storage, proxy: FaultyProxy) -> None:
    proxy.fault = every_change(HttpFault.REFUSED)
    with pytest.raises(StorageError) as raised:
        storage.put_if_absent("requested", b"")
    assert raised.value.is_refusal
    assert len(proxy.requests) == 1


@pytest.mark.parametrize("size", [0, 10, (1 << 20) + 5])
def test_a_small_file_is_read_with_one_request(
    storage: Storage, proxy: FaultyProxy, size: int
) -> None:
    data = bytes(number % 251 for number in range(size))
    storage.put("a.parquet", data)
    proxy.requests.clear()
    with storage.open("a.parquet") as file:
        file.seek(-min(8, size), 2)
        assert file.read() == data[-8:]
        file.seek(0)
        assert file.read(4) == data[:4]
        file.seek(0)
        assert file.read() == data
    if 0 < size < 1 << 20:
        assert len(proxy.requests) == 1
    with pytest.raises(MissingFileError):
        storage.open("b.parquet")
