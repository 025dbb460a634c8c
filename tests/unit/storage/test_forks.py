"""A child that was forked from a process with an S3 client."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator

import pytest

from tests.s3_server import s3_options, s3_server
from tidelake.storage import Storage, open_storage


@pytest.fixture(scope="module")
def options() -> Iterator[dict[str, str]]:
    with s3_server() as endpoint:
        yield s3_options(endpoint)


ACTS: dict[str, Callable[[Storage], object]] = {
    "read": lambda storage: storage.read("a"),
    "open": lambda storage: storage.open("a"),
    "list": lambda storage: storage.list(""),
    "put_if_absent": lambda storage: storage.put_if_absent("b", b""),
    "delete": lambda storage: storage.delete("a"),
}


@pytest.mark.parametrize("act", ACTS)
@pytest.mark.parametrize("anew", [True, False], ids=["opened anew", "inherited"])
def test_is_told_why_it_cannot_reach_the_server(
    options: dict[str, str], act: str, anew: bool
) -> None:
    def opened() -> Storage:
        return open_storage("s3a://lake/forked", options)

    storage = opened()
    storage.put("a", b"1")
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(20)  # it would wait for ever
        try:
            said = f"done {ACTS[act](opened() if anew else storage)}"
        except BaseException as error:  # noqa: BLE001 - the parent is told
            said = f"{type(error).__name__}: {error}"
        os.write(write, said.encode())
        os._exit(0)
    os.close(write)
    with os.fdopen(read) as pipe:
        said = pipe.read()
    os.waitpid(child, 0)
    assert "ConfigError" in said
    assert f"forked from {os.getpid()}" in said
    assert "spawn" in said
    assert storage.read("a") == b"1"
