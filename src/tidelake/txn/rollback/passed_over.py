"""Dead writes that a commit passes over: their rollbacks are on the timeline before it completes.

A write that gave no sign of life for long may belong to a process that was stopped, and that will
return. At its own commit it looks for a rollback of itself; a non-blocking one looks for nothing
else. So whoever commits what such a write must not be added to rolls it back first, under the lock
under which both commit.
"""

from __future__ import annotations

import logging

from tidelake.config import TableConfig
from tidelake.env import Env
from tidelake.errors import TidelakeError
from tidelake.model import Instant
from tidelake.timeline import Timeline
from tidelake.txn.concurrency import Concurrency
from tidelake.txn.metadata_keeper import MetadataKeeper
from tidelake.txn.protocol.instant_times import InstantTimes
from tidelake.txn.rollback.rollback import Rollback, Scheduled

_log = logging.getLogger(__name__)


class PassedOver:
    """The dead writes that one commit passes over."""

    def __init__(
        self,
        env: Env,
        config: TableConfig,
        times: InstantTimes,
        keeper: MetadataKeeper,
        concurrency: Concurrency,
    ) -> None:
        self._env = env
        self._config = config
        self._times = times
        self._keeper = keeper
        self._concurrency = concurrency
        self._waiting: list[tuple[Rollback, Scheduled]] = []

    def publish_rollback(self, dead: Instant, timeline: Timeline) -> None:
        """Put the rollback of a dead write on the timeline, which was loaded under the lock."""
        _log.warning(
            "%s gave no sign of life for %d ms and is rolled back: its process may still return, "
            "and finds that out",
            dead.requested_time,
            self._concurrency.expires_after_ms,
        )
        rollback = Rollback(
            self._env, self._config, timeline, self._times, self._keeper, self._concurrency
        )
        self._waiting.append((rollback, rollback.schedule(dead)))

    def carry_out(self) -> None:
        """Take the dead writes off the table; what fails is left to the next clean or write."""
        while self._waiting:
            rollback, scheduled = self._waiting.pop()
            try:
                rollback.carry_out(scheduled)
            except TidelakeError as cause:
                _log.warning(
                    "rollback %s waits for the next clean: %s",
                    scheduled.requested_time,
                    cause.problem,
                )
