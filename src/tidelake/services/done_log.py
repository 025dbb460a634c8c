"""One line of the log for each commit and each service that is done."""

from __future__ import annotations

import logging

from tidelake.env import Env
from tidelake.model import Commit
from tidelake.model.byte_size import byte_size_text

_log = logging.getLogger(__name__)


def log_done(env: Env, began_ms: int, what: str, instant: str, facts: str) -> None:
    """Write what was done at an instant, at level INFO, with the seconds that it took."""
    seconds = (env.clock.now_ms() - began_ms) / 1000
    _log.info("%s %s of %s: %s, %.1f s", what, instant, env.storage.spec.uri, facts, seconds)


def log_commit(env: Env, began_ms: int, commit: Commit) -> None:
    """Write what a commit brought."""
    facts = (
        f"{commit.inserts} inserted, {commit.updates} updated, {commit.deletes} deleted, "
        f"{commit.files_written} files, {byte_size_text(commit.bytes_written)}, "
        f"{commit.attempts} attempts"
    )
    log_done(env, began_ms, commit.operation.lower() or "write", commit.requested_time, facts)
