"""Who holds the table's lock, and a way to take it from a holder that is gone for good."""

from __future__ import annotations

from tidelake.cli.call import Call
from tidelake.cli.text import moment, span
from tidelake.config import WriteOptions
from tidelake.env import Env
from tidelake.storage import open_storage
from tidelake.timeline import load_table_config
from tidelake.txn.locks import Holder, LockProvider, open_provider


def run(call: Call) -> bool:
    """Show who holds the lock that writers with these options take, or free it."""
    out = call.out
    lock = _lock_of(call)
    is_release = call.args.action == "release"
    holder = lock.break_lock() if is_release else lock.holder()
    if out.as_json:
        out.document(
            {
                "lock": lock.place,
                "held": holder is not None and not is_release,
                "owner": None if holder is None else holder.owner,
                "since_ms": None if holder is None else holder.since_ms,
                "until_ms": None if holder is None else holder.until_ms,
                "released": is_release and holder is not None,
            }
        )
    else:
        out.lines([f"lock    {lock.place}", *_told(holder, call.now_ms, is_freed=is_release)])
    return True


def _lock_of(call: Call) -> LockProvider:
    storage = open_storage(call.table, call.options)
    name = load_table_config(storage).name
    return open_provider(Env(storage), WriteOptions.from_options(call.options).concurrency, name)


def _told(holder: Holder | None, now_ms: int, *, is_freed: bool) -> list[str]:
    if holder is None:
        return ["holder  nobody: the lock is free"]
    told = [f"holder  {holder.owner}"]
    if holder.since_ms is not None:
        told.append(f"since   {moment(holder.since_ms)}, {span(now_ms - holder.since_ms)} ago")
    if holder.is_gone and not is_freed:
        told.append("until   now: that process has ended, and the next writer takes the lock")
    elif holder.until_ms is None:
        told.append("until   it is released: this lock never expires by itself")
    else:
        left_ms = holder.until_ms - now_ms
        state = f"in {span(left_ms)}" if left_ms > 0 else "which is past: the next writer takes it"
        told.append(f"until   {moment(holder.until_ms)} unless it is renewed, {state}")
    if is_freed:
        told.append("It was taken away: a holder that is alive finds out before it commits.")
    return told
