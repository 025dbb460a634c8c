"""A process that was forked while its parent held a lock, or wrote, holds and commits nothing."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.unit.txn.toy_table import SCHEMA, Toy, new_storage
from tidelake.config import ConcurrencyMode
from tidelake.env import Env
from tidelake.errors import TidelakeError
from tidelake.model import TableType
from tidelake.storage import LocalStorage
from tidelake.txn import begin
from tidelake.txn.concurrency import Concurrency
from tidelake.txn.locks import FileSystemLock, InProcessLock, LockProvider, StorageLock, TableLock
from tidelake.txn.locks.table_lock import LockWait

Make = Callable[[], LockProvider]


@pytest.fixture(params=["storage", "file system", "in process"])
def make(request: pytest.FixtureRequest, tmp_path: Path) -> Make:
    env = Env(LocalStorage(str(tmp_path)))

    def provider() -> LockProvider:
        if request.param == "in process":
            return InProcessLock(str(tmp_path), env.clock)
        if request.param == "file system":
            return FileSystemLock(env, str(tmp_path), expire_ms=600_000)
        return StorageLock(env, validity_ms=600_000, skew_ms=0)

    return provider


def in_child(act: Callable[[], str]) -> str:
    """Return what a forked process makes of `act`, which never goes back into the parent's code."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(60)
        try:
            said = act()
        except BaseException as error:  # noqa: BLE001 - the parent is told
            said = f"{type(error).__name__}: {error}"
        os.write(write, said.encode()[:4000])
        os._exit(0)
    os.close(write)
    with os.fdopen(read, "rb") as pipe:
        said = pipe.read().decode()
    os.waitpid(child, 0)
    return said


def test_a_child_does_not_hold_the_lock_of_its_parent(make: Make) -> None:
    ours = make()
    assert ours.try_acquire()
    assert in_child(lambda: str(ours.still_held(0))) == "False"
    assert ours.still_held(0)
    ours.release()


def test_a_child_does_not_take_the_lock_that_its_parent_holds(make: Make) -> None:
    ours = make()
    assert ours.try_acquire()
    assert in_child(lambda: str(ours.try_acquire())) == "False"
    assert ours.still_held(0)
    ours.release()


def test_a_child_does_not_give_its_parents_lock_back(make: Make) -> None:
    ours = make()
    assert ours.try_acquire()

    def give_back() -> str:
        ours.release()
        return "given back"

    assert in_child(give_back) == "given back"
    assert ours.still_held(0)
    other = make()
    assert not other.try_acquire()
    ours.release()
    assert other.try_acquire()
    other.release()


def test_a_child_takes_a_lock_that_is_free_as_itself(make: Make) -> None:
    ours = make()

    def take() -> str:
        assert ours.try_acquire()
        assert ours.still_held(0)
        holder = ours.holder()
        assert holder is not None
        return holder.owner

    said = in_child(take)
    assert "Error" not in said
    assert str(os.getpid()) not in said
    # The child is gone, and whoever looks can tell.
    assert ours.try_acquire()
    ours.release()


def test_a_child_that_leaves_the_block_of_its_parent_gives_nothing_back(make: Make) -> None:
    provider = make()
    ours = TableLock(provider, Env(LocalStorage("/")).clock)
    with ours.held():
        read, write = os.pipe()
        child = os.fork()
        if child == 0:
            # As if an error went up through the block: its end is all that matters here.
            ours._release()
            os.write(write, b".")
            os._exit(0)
        os.waitpid(child, 0)
        assert os.read(read, 1) == b"."
        ours.ensure()


@pytest.mark.parametrize("shared", [True, False], ids=["shared", "alone"])
def test_of_a_write_that_a_child_inherits_one_commits(tmp_path: Path, shared: bool) -> None:
    """Parent and child go on with one transaction: the parent's counts, the child is told."""
    made = new_storage(9, TableType.COPY_ON_WRITE)
    for path in made.files_below(""):
        target = tmp_path / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(made.read(path))
    env = Env(LocalStorage(str(tmp_path)))
    toy = Toy(env.storage)
    lock = TableLock(
        StorageLock(env, validity_ms=600_000, skew_ms=0), env.clock, LockWait(wait_ms=500)
    )
    concurrency = (
        Concurrency(mode=ConcurrencyMode.OPTIMISTIC, lock=lock, writer="parent")
        if shared
        else Concurrency()
    )
    txn = begin(
        env,
        toy.config,
        toy.timeline,
        action=toy.write_action,
        operation="UPSERT",
        write_id=None,
        roll_back=False,
        concurrency=concurrency,
    )
    txn.start()
    stats = [toy.task(txn, "a", "parent", None, "0-1-0")]

    def commit() -> str:
        txn.commit(stats, schema=SCHEMA)
        return "committed"

    said = in_child(commit)
    assert "this process" in said, said
    txn.commit(stats, schema=SCHEMA)
    assert len(Toy(env.storage).timeline.writes()) == 1
    assert Toy(env.storage).rows() == {"a": "parent"}
    assert "committed" not in said
    with pytest.raises(TidelakeError):
        txn.commit(stats, schema=SCHEMA)
