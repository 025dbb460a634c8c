"""How actors share a table, and what each of them is given."""

from __future__ import annotations

import random  # noqa: TID251 - seeded by whoever makes an actor
from dataclasses import dataclass

from tidelake.config import (
    ArchiveOptions,
    CleanOptions,
    CompactionOptions,
    ConcurrencyMode,
    ConflictStrategy,
    ServiceOptions,
)
from tidelake.env import Env
from tidelake.errors import (
    InstantLostError,
    LockLostError,
    LockTimeoutError,
    MissingFileError,
    SnapshotLostError,
    StorageError,
    WriteConflictError,
)
from tidelake.testing.simulation.journal import Journal
from tidelake.txn.concurrency import Concurrency
from tidelake.txn.locks import LockWait, StorageLock, TableLock
from tidelake.write.sharing import slot_name

LEASE_MS = 60_000
EXPIRES_MS = 120_000
#: A holder that stalls keeps others waiting for minutes; who asks too often only costs steps.
_LOCK_WAIT = LockWait(wait_ms=600_000, first_delay_ms=10, longest_delay_ms=10_000)
#: Services that are due after every few writes.
SERVICES = ServiceOptions(
    clean=CleanOptions(commits=2),
    archive=ArchiveOptions(min_commits=3, max_commits=4, batch=1, history_batch=2),
    compaction=CompactionOptions(max_delta_commits=2),
)
#: What a writer may be told without anything being wrong with it.
GIVEN_UP = (
    InstantLostError,
    LockLostError,
    LockTimeoutError,
    MissingFileError,
    SnapshotLostError,
    StorageError,
    WriteConflictError,
)


@dataclass(frozen=True, kw_only=True)
class Sharing:
    """How the writers of a world share the table."""

    mode: ConcurrencyMode
    strategy: ConflictStrategy = ConflictStrategy.SIMPLE
    buckets: int = 2
    keys: int = 4
    max_skew_ms: int = 20

    def concurrency(self, env: Env, name: str) -> Concurrency:
        """Return the rules for one writer."""
        lock = StorageLock(env, validity_ms=LEASE_MS, skew_ms=self.max_skew_ms)
        return Concurrency(
            mode=self.mode,
            lock=TableLock(lock, env.clock, _LOCK_WAIT),
            strategy=self.strategy,
            slot_name=slot_name,
            max_skew_ms=self.max_skew_ms,
            heartbeat_ms=60_000,
            expires_after_ms=EXPIRES_MS,
            writer=name,
        )


@dataclass(frozen=True, kw_only=True)
class Part:
    """What every actor is given; it acts when it is called with its environment."""

    name: str
    sharing: Sharing
    journal: Journal
    chance: random.Random
    times: int = 3
    """How often it acts."""
    pause_ms: int = 200
    """The longest that it waits in between."""

    def __call__(self, env: Env) -> None:
        """Act, from start to end."""
        raise NotImplementedError

    def pause(self, env: Env) -> None:
        """Wait for a while."""
        env.clock.sleep_ms(self.chance.randint(1, self.pause_ms))

    def concurrency(self, env: Env) -> Concurrency:
        """Return the rules by which this actor shares the table."""
        return self.sharing.concurrency(env, self.name)
