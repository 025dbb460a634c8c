"""Replies to a reader that break off, end early or never come: the right rows, or an error."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count, product
from pathlib import Path

import pytest

from tests.faulty_proxy import FaultyProxy, HttpFault, Request
from tests.lanes import spread
from tests.s3_server import s3_server
from tests.writes.operations import KINDS, made_for
from tests.writes.readers import OurReader
from tests.writes.test_lost_s3_requests import identity, place
from tidelake.errors import StorageError, TidelakeError

#: What tells of itself, so that it is never taken for damage or for a file that is missing.
BROKEN = (HttpFault.LOST_BEFORE, HttpFault.SLOW_DOWN, HttpFault.CUT, HttpFault.ENDED)
READ = ("v9-mor-occ", "v6-mor-single", "v9-cow-occ-indexed", "v9-mor-nbcc-listed")


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    with s3_server() as endpoint:
        yield endpoint


def disturb(proxy: FaultyProxy, number: int, fault: HttpFault, *, is_for_good: bool) -> None:
    """Disturb the reply to one request, once or to every attempt at it."""
    numbers = count()
    chosen: list[tuple[object, ...]] = []

    def decide(request: Request) -> HttpFault | None:
        if next(numbers) == number:
            chosen.append(identity(request))
            return fault
        return fault if is_for_good and chosen == [identity(request)] else None

    proxy.fault = decide


def read_disturbed(server: str, kind: str, folder: Path, requests: int | None) -> None:
    made = made_for("upsert", KINDS[kind], folder)
    wanted = made.states[-1]
    with place(server, made) as here:
        assert OurReader.of(here.faulty).snapshot() == wanted
        asked = len(here.proxy.requests)
        chosen = range(asked) if requests is None else sorted(spread(asked, requests))
        for number, fault, is_for_good in product(
            chosen, (*BROKEN, HttpFault.SHORT), (False, True)
        ):
            disturb(here.proxy, number, fault, is_for_good=is_for_good)
            where = f"{kind}: {fault}, request {number} of {asked}, for good: {is_for_good}"
            error = None
            try:
                assert OurReader.of(here.faulty).snapshot() == wanted, where
            except TidelakeError as raised:
                error = raised
            if fault in BROKEN:
                assert error is None or (is_for_good and isinstance(error, StorageError)), where


@pytest.mark.long
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("kind", READ)
def test_whatever_reply_breaks_off(server: str, kind: str, tmp_path: Path) -> None:
    read_disturbed(server, kind, tmp_path, None)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("kind", READ)
def test_some_replies_break_off(server: str, kind: str, tmp_path: Path) -> None:
    read_disturbed(server, kind, tmp_path, 2)
