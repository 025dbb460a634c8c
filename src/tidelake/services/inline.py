"""Services that run by themselves, after a write that committed."""

from __future__ import annotations

import logging
from collections.abc import Callable

from tidelake.config import CleanPolicy, ServiceOptions
from tidelake.env import Env
from tidelake.errors import TidelakeError
from tidelake.model import Action
from tidelake.services.archive import archive
from tidelake.services.clean import clean, pending_cleans
from tidelake.services.clean_plan import commits_since
from tidelake.services.service_context import ServiceContext
from tidelake.timeline import Timeline
from tidelake.txn import MetadataKeeper
from tidelake.txn.concurrency import Concurrency

_log = logging.getLogger(__name__)


def after_write(
    env: Env,
    before: Timeline,
    options: ServiceOptions,
    keeper: MetadataKeeper | None = None,
    *,
    expires_ms: int | None = None,
    concurrency: Concurrency | None = None,
) -> None:
    """Run what is due, now that a write has been added to the timeline as it was `before`.

    The write counts whatever happens here: a service that fails leaves a warning, and the next
    write tries again. Where nothing can be due, nothing is read. For `expires_ms` see `clean`.
    """
    shared = concurrency or Concurrency()
    if may_clean(before, options):
        _attempt("clean", lambda: _clean(env, options, keeper, expires_ms, shared))
    if may_archive(before, options):
        _attempt("archival", lambda: archive(env, options, shared))


def may_clean(before: Timeline, options: ServiceOptions) -> bool:
    """Return whether a clean may be due after one more write than `before`."""
    if not options.clean.automatic:
        return False
    if any(i.action is Action.CLEAN for i in before.pending):
        return True
    if options.clean.policy is CleanPolicy.COMMITS:
        return len(before.writes()) >= options.clean.commits
    return bool(before.writes())


def may_archive(before: Timeline, options: ServiceOptions) -> bool:
    """Return whether instants may have to be archived after one more write than `before`."""
    return options.archive.automatic and len(before.writes()) >= options.archive.max_commits


def _clean(
    env: Env,
    options: ServiceOptions,
    keeper: MetadataKeeper | None,
    expires_ms: int | None,
    concurrency: Concurrency,
) -> None:
    now = ServiceContext.load(env, keeper)
    cleans = [i for i in now.state.timeline.completed if i.action is Action.CLEAN]
    since = commits_since(now.state, cleans[-1] if cleans else None)
    if pending_cleans(now.state) or since >= options.clean.trigger_commits:
        clean(env, options.clean, keeper, expires_ms=expires_ms, concurrency=concurrency)


def _attempt(name: str, run: Callable[[], object]) -> None:
    try:
        run()
    except TidelakeError as cause:
        _log.warning("the write has committed, but the %s after it failed: %s", name, cause)
