"""What appears on the timeline under the lock, and goes again when the lock was lost by then.

Between the last look at a lock and the file that follows, a process can be stopped for longer than
the lock lives. What it decided may be wrong by then: a clean would delete what a rollback has gone
back to, a rollback would take back what has completed. So there is a look behind the file as well,
or the lock is given back there, by a request that tells the same.
"""

from __future__ import annotations

from collections.abc import Callable

from tidelake.errors import LockLostError
from tidelake.formats.instant_name import InstantName
from tidelake.model import Action, State
from tidelake.storage import Storage
from tidelake.timeline import Publisher
from tidelake.txn.concurrency import Concurrency
from tidelake.txn.locks import TableLock


def request(
    publisher: Publisher,
    concurrency: Concurrency,
    requested_time: str,
    action: Action,
    content: bytes | None = None,
    *,
    looks_behind: bool = True,
) -> bool:
    """Put an instant on the timeline, or return False when somebody took its time.

    Raises `LockLostError` when others may have come in before it appeared; it is gone again then,
    unless somebody has begun to carry it out. In front of a plan, which others may carry out at
    once, the lock is looked at as well. Who does not look behind it here calls `leave`.
    """
    if content is None:
        concurrency.ensure_lasting()
    else:
        concurrency.ensure()
    if not publisher.request(requested_time, action, content):
        return False
    if looks_behind:
        _take_back_if_late(
            concurrency,
            f"{action} {requested_time}",
            lambda: _take_back(publisher, requested_time, action),
        )
    return True


def leave(
    publisher: Publisher,
    concurrency: Concurrency,
    requested_time: str,
    action: Action,
    *,
    whole: bool,
) -> None:
    """Give the lock back behind an instant that was put on the timeline.

    Raises `LockLostError` as `request` does. `whole` says that nothing more is done in any section
    around this one.
    """
    _take_back_if_late(
        concurrency,
        f"{action} {requested_time}",
        lambda: _take_back(publisher, requested_time, action),
        is_ours=lambda lock: lock.give_back(whole=whole),
    )


def _take_back(publisher: Publisher, requested_time: str, action: Action) -> None:
    if publisher.is_pending(requested_time, action, State.INFLIGHT):
        return
    name = InstantName(requested_time=requested_time, action=action, state=State.REQUESTED)
    publisher.remove([name.format()])


def start_requested(
    publisher: Publisher, requested_time: str, action: Action, content: bytes = b""
) -> bool:
    """Move an instant on to inflight; return False when it is there already, or was taken off.

    What was taken off is not to come back, and a plan that is gone nobody could carry out.
    """
    if not publisher.start(requested_time, action, content):
        return False
    if publisher.is_pending(requested_time, action, State.REQUESTED):
        return True
    name = InstantName(requested_time=requested_time, action=action, state=State.INFLIGHT)
    publisher.remove([name.format()])
    return False


def complete(
    storage: Storage, concurrency: Concurrency, path: str, content: bytes, what: str
) -> None:
    """Publish the completed file of a service; raise `LockLostError` as `request` does."""
    concurrency.ensure()
    if storage.put_if_absent(path, content):
        _take_back_if_late(concurrency, what, lambda: storage.delete(path))


def _take_back_if_late(
    concurrency: Concurrency,
    what: str,
    take_back: Callable[[], None],
    is_ours: Callable[[TableLock], bool] = lambda lock: lock.is_held(),
) -> None:
    """Take back what has just appeared, and raise `LockLostError`, if others may have come in.

    At once: whoever has the lock by now may act upon it.
    """
    lock = concurrency.lock
    if lock is None or is_ours(lock):
        return
    take_back()
    raise LockLostError(
        f"the lock was lost before {what} appeared, which is off the timeline again",
        next_step="run this again: it starts from the table as it is now",
    )
