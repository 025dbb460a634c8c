"""Making a write that had to give way again, from the table as it is then."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace

from tidelake.env import Env
from tidelake.errors import SameWriteError, SnapshotLostError, WriteConflictError
from tidelake.model import Commit

_log = logging.getLogger(__name__)

_FIRST_DELAY_MS = 1_000
_LONGEST_DELAY_MS = 30_000
#: A write that only looked at the table starts anew this often by itself: it met no other writer.
_FRESH_STARTS = 2


def next_delay_ms(attempt: int, chance: float) -> int:
    """Return the pause before attempt `attempt`, counted from 1; `chance` is from 0 to 1.

    Writers that met once would meet again and again, were their pauses the same.
    """
    longest = min(_LONGEST_DELAY_MS, _FIRST_DELAY_MS << min(attempt - 1, 10))
    return int(longest * (0.5 + chance / 2))


def retry_on_conflict(env: Env, retries: int, write: Callable[[], Commit]) -> Commit:
    """Return what `write` returns; call it anew, up to `retries` times, when it has to give way.

    Each call is a whole transaction of its own, and leaves nothing when it fails. One whose view of
    the table was cleaned away before it had looked starts anew a few times, whatever `retries` is.
    """
    try:
        return _retried(env, retries, write)
    except SameWriteError:
        # Whoever asks now is told of the commit that there is.
        return write()


def _retried(env: Env, retries: int, write: Callable[[], Commit]) -> Commit:
    attempt = 1
    while True:
        try:
            return _counted(write(), attempt)
        except SameWriteError:
            raise
        except WriteConflictError as conflict:
            _log.info("%s; attempt %d of %d failed", conflict.problem, attempt, retries + 1)
            if attempt > retries:
                if retries:
                    conflict.tried(attempt)
                raise
            chance = int(env.ids.new()[:8], 16) / 0xFFFFFFFF
            env.clock.sleep_ms(next_delay_ms(attempt, chance))
        except SnapshotLostError as lost:
            _log.info("%s; attempt %d failed", lost.problem, attempt)
            if attempt > max(retries, _FRESH_STARTS):
                raise
        attempt += 1


def _counted(commit: Commit, attempt: int) -> Commit:
    return commit if attempt == 1 else replace(commit, attempts=attempt)
