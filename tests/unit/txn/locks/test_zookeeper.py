"""The lock in ZooKeeper, against a real server: Spark ships one among its jars."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pyspark
import pytest
from kazoo.client import KazooClient

from tidelake.config import ZooKeeperOptions
from tidelake.env import Env, SystemClock
from tidelake.errors import LockLostError, LockTimeoutError, StorageError
from tidelake.spark.session.java import ensure_java
from tidelake.storage import MemoryStorage
from tidelake.testing import SeededIds
from tidelake.txn.locks import LockWait, TableLock
from tidelake.txn.locks.zookeeper import ZooKeeperLock

pytestmark = pytest.mark.slow
START_S = 60


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("zookeeper")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    settings = folder / "zoo.cfg"
    settings.write_text(
        f"tickTime=500\ndataDir={folder}\nclientPort={port}\nclientPortAddress=127.0.0.1\n"
        "admin.enableServer=false\n"
    )
    java = Path(ensure_java().home) / "bin" / "java"
    jars = Path(pyspark.__file__).parent / "jars"
    server = subprocess.Popen(
        [
            java,
            "-cp",
            f"{jars}/*",
            "org.apache.zookeeper.server.quorum.QuorumPeerMain",
            str(settings),
        ],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        deadline = time.monotonic() + START_S
        while True:
            try:
                socket.create_connection(("127.0.0.1", port), timeout=1).close()
                break
            except OSError:
                if time.monotonic() > deadline or server.poll() is not None:
                    raise
                SystemClock().sleep_ms(100)
        yield f"127.0.0.1:{port}"
    finally:
        server.kill()
        server.wait()


def options(address: str) -> ZooKeeperOptions:
    return ZooKeeperOptions(
        url=address, base_path="/tidelake", key=None, session_ms=2_000, connection_ms=5_000
    )


@pytest.fixture
def make(address: str, request: pytest.FixtureRequest) -> Iterator[Callable[[int], ZooKeeperLock]]:
    made: list[ZooKeeperLock] = []

    def lock(number: int) -> ZooKeeperLock:
        env = Env(MemoryStorage(), ids=SeededIds(number))
        made.append(ZooKeeperLock(env, options(address), request.node.name))
        return made[-1]

    yield lock
    for each in made:
        each.release()


Make = Callable[[int], ZooKeeperLock]


def test_one_of_two_holds_it(make: Make) -> None:
    first, second = make(1), make(2)
    assert first.try_acquire()
    assert not second.try_acquire()
    assert first.still_held(0)
    assert not second.still_held(0)
    holder = second.holder()
    assert holder is not None
    assert holder.owner.endswith(f":{os.getpid()}")
    assert holder.since_ms is not None
    first.release()
    assert second.holder() is None
    assert second.try_acquire()


def test_a_broken_lock_is_lost_to_its_holder(make: Make) -> None:
    first, second = make(1), make(2)
    lock = TableLock(first, Env(MemoryStorage()).clock)
    with lock.held():
        assert second.break_lock() is not None
        with pytest.raises(LockLostError, match="nobody holds it now"):
            lock.ensure()
        assert second.try_acquire()


def test_waiting_ends_with_who_has_it(make: Make) -> None:
    first, second = make(1), make(2)
    assert first.try_acquire()
    lock = TableLock(second, Env(MemoryStorage()).clock, LockWait(wait_ms=200))
    with pytest.raises(LockTimeoutError, match=f":{os.getpid()} holds it since"), lock.held():
        pass


def test_it_stands_in_one_queue_with_curator(make: Make, address: str) -> None:
    ours = make(1)
    assert ours.try_acquire()
    place = ours.place.partition(address)[2]
    ours.release()
    curator = KazooClient(hosts=address)
    curator.start()
    try:
        # What Curator's mutex makes, by its documentation: a protected name, and the host as data.
        node = curator.create(
            f"{place}/_c_0b6f7c1e-2d8c-4c39-8f59-6a8f2f3b8f10-lock-",
            b"10.1.2.3",
            ephemeral=True,
            sequence=True,
        )
        assert not ours.try_acquire()
        holder = ours.holder()
        assert holder is not None
        assert holder.owner == "10.1.2.3"
        curator.delete(node)
        assert ours.try_acquire()
        behind = curator.create(
            f"{place}/_c_9e1f-lock-", b"10.1.2.3", ephemeral=True, sequence=True
        )
        names = curator.get_children(place)
        numbers = {name: name.rpartition("lock-")[2] for name in names}
        assert min(names, key=lambda name: numbers[name]) != behind.rpartition("/")[2]
        assert ours.still_held(0)
    finally:
        curator.stop()
        curator.close()


def test_a_holder_that_dies_blocks_nobody_for_long(make: Make, address: str) -> None:
    script = (
        "import sys, time; from tidelake.env import Env; from tidelake.storage import "
        "MemoryStorage; from tidelake.config import ZooKeeperOptions; "
        "from tidelake.txn.locks.zookeeper import ZooKeeperLock; "
        f"lock = ZooKeeperLock(Env(MemoryStorage()), {options(address)!r}, sys.argv[1]); "
        "assert lock.try_acquire(); print('held', flush=True); time.sleep(600)"
    )
    name = make(1).place.rpartition("/")[2]
    process = subprocess.Popen(
        [sys.executable, "-c", script, name], stdout=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        second = make(2)
        assert not second.try_acquire()
        process.kill()
        process.wait()
        lock = TableLock(second, Env(MemoryStorage()).clock, LockWait(wait_ms=20_000))
        with lock.held():
            lock.ensure()
    finally:
        process.kill()
        process.wait()


def test_a_server_that_is_not_there_is_named() -> None:
    env = Env(MemoryStorage())
    gone = ZooKeeperOptions(
        url="127.0.0.1:1", base_path="/x", key=None, session_ms=1_000, connection_ms=300
    )
    with pytest.raises(StorageError, match=r"127\.0\.0\.1:1.*no ZooKeeper answers within 300 ms"):
        ZooKeeperLock(env, gone, "t").try_acquire()
