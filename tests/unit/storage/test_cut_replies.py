"""Replies that end early, and servers that ask for patience: the right bytes, or an error."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import datetime

import pytest

from tests.faulty_proxy import FaultyProxy, HttpFault, Request
from tests.s3_server import S3Object, put_object, s3_options, s3_server
from tidelake.errors import StorageError
from tidelake.storage import Storage, open_storage

#: More than a page of a listing holds.
MANY = 1100
SMALL = bytes(number % 251 for number in range(300_000))
LARGE = SMALL * 5
CUT = (HttpFault.CUT, HttpFault.ENDED, HttpFault.SLOW_DOWN)


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    with s3_server() as endpoint:
        direct = open_storage("s3a://lake/t", s3_options(endpoint))
        direct.put("small", SMALL)
        direct.put("large", LARGE)
        direct.put("empty", b"")
        for number in range(MANY):
            put_object(f"t/many/f{number:05d}", S3Object(b"", datetime(2026, 1, 1)))  # noqa: DTZ001
        yield endpoint


@pytest.fixture
def proxy(server: str) -> Iterator[FaultyProxy]:
    with FaultyProxy(server) as proxy:
        yield proxy


def whole(storage: Storage, path: str) -> bytes:
    with storage.open(path) as file:
        return file.read()


READS: dict[str, tuple[Callable[[Storage], object], object]] = {
    "read": (lambda storage: storage.read("small"), SMALL),
    "tagged": (lambda storage: storage.read_tagged("small").data, SMALL),
    "many": (lambda storage: storage.read_many(["small", "large"]), [SMALL, LARGE]),
    "range": (lambda storage: storage.read_range("small", 10, 1000), SMALL[10:1010]),
    "range at the end": (lambda storage: storage.read_range("small", 299_990, 99), SMALL[-10:]),
    "range behind the end": (lambda storage: storage.read_range("small", 300_000, 9), b""),
    "open a small one": (lambda storage: whole(storage, "small"), SMALL),
    "open a large one": (lambda storage: whole(storage, "large"), LARGE),
}
LISTS: dict[str, tuple[Callable[[Storage], object], object]] = {
    "list": (lambda storage: len(storage.list("many").files), MANY),
    "files_below": (lambda storage: len(storage.files_below("many")), MANY),
    "exists": (lambda storage: storage.exists("many"), True),
}


def lose(proxy: FaultyProxy, fault: HttpFault, times: int, *, listing: bool, page: int = 1) -> None:
    """Disturb that many replies to reads, or to the pages of a listing from the given one on."""
    left = [times]

    def decide(request: Request) -> HttpFault | None:
        is_listing = "list-type" in request.path
        is_wanted = is_listing is listing and (page == 1 or "continuation" in request.path)
        if request.method != "GET" or not is_wanted or not left[0]:
            return None
        left[0] -= 1
        return fault

    proxy.fault = decide


@pytest.mark.parametrize("fault", CUT, ids=str)
@pytest.mark.parametrize("read", READS)
def test_a_reply_that_breaks_off_is_asked_for_again(
    proxy: FaultyProxy, read: str, fault: HttpFault
) -> None:
    act, wanted = READS[read]
    storage = open_storage("s3a://lake/t", s3_options(proxy.endpoint))
    lose(proxy, fault, 1, listing=False)
    assert act(storage) == wanted


@pytest.mark.parametrize("page", [1, 2])
@pytest.mark.parametrize("fault", [*CUT, HttpFault.SHORT], ids=str)
@pytest.mark.parametrize("name", LISTS)
def test_a_listing_that_breaks_off_is_asked_for_again(
    proxy: FaultyProxy, name: str, fault: HttpFault, page: int
) -> None:
    """Never is the part that came taken for all of it."""
    act, wanted = LISTS[name]
    storage = open_storage("s3a://lake/t", s3_options(proxy.endpoint))
    lose(proxy, fault, 1, listing=True, page=page)
    assert act(storage) == wanted


@pytest.mark.parametrize("name", ["list", "files_below"])
def test_a_listing_of_which_a_page_never_comes_is_an_error(proxy: FaultyProxy, name: str) -> None:
    storage = open_storage("s3a://lake/t", s3_options(proxy.endpoint))
    lose(proxy, HttpFault.CUT, 1000, listing=True, page=2)
    with pytest.raises(StorageError) as failed:
        LISTS[name][0](storage)
    assert not failed.value.is_refusal


def test_an_empty_object_is_empty(proxy: FaultyProxy) -> None:
    storage = open_storage("s3a://lake/t", s3_options(proxy.endpoint))
    assert (storage.read("empty"), whole(storage, "empty")) == (b"", b"")
    assert storage.read_tagged("empty").tag


@pytest.mark.parametrize("times", [1, 1000])
@pytest.mark.parametrize("read", READS)
def test_half_a_reply_is_not_taken_for_what_was_asked_for(
    proxy: FaultyProxy, read: str, times: int
) -> None:
    """What lies between ends the reply early, and gives its length as that of the half."""
    act, wanted = READS[read]
    storage = open_storage("s3a://lake/t", s3_options(proxy.endpoint))
    lose(proxy, HttpFault.SHORT, times, listing=False)
    if times == 1:
        assert act(storage) == wanted
        return
    try:
        found = act(storage)
    except StorageError as error:
        assert "ended after" in str(error)  # noqa: PT017 - the right bytes may come as well
    else:
        assert found == wanted
