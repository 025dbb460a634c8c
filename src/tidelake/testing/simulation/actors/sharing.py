"""How actors share a table, and what each of them is given."""

from __future__ import annotations

import random  # noqa: TID251 - seeded by whoever makes an actor
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property, partial

from typing_extensions import override

from tidelake.config import ConcurrencyMode, ConflictStrategy, WriteOptions
from tidelake.config.keys.concurrency_keys import KEY_CHECK
from tidelake.env import Env
from tidelake.errors import (
    ClockAheadError,
    ConfigError,
    CorruptFileError,
    HorizonError,
    InstantLostError,
    LockLostError,
    LockTimeoutError,
    MissingFileError,
    PlanCompletedError,
    PlanRemovedError,
    PlanRunningError,
    RestorePendingError,
    SchemaError,
    SnapshotLostError,
    StorageError,
    WriteConflictError,
)
from tidelake.operations.compaction_run import inline_compaction
from tidelake.operations.open_table import load_state
from tidelake.operations.table_services import TableServices
from tidelake.operations.write_session import WriteSession
from tidelake.state.table_state import TableState
from tidelake.testing.simulation.journal import Journal
from tidelake.testing.simulation.toy_index import fill_toy_index
from tidelake.testing.simulation.toy_rows import toy_keys
from tidelake.testing.simulation.toy_runner import ToyRunner
from tidelake.txn.concurrency import SharedKeys

LEASE_MS = 60_000
EXPIRES_MS = 120_000
BUCKETS = 2
#: What a process may be told beside others without anything being wrong with the table.
GIVES_WAY = (
    ConfigError,
    HorizonError,
    InstantLostError,
    LockLostError,
    LockTimeoutError,
    MissingFileError,
    PlanCompletedError,
    PlanRemovedError,
    PlanRunningError,
    RestorePendingError,
    SnapshotLostError,
    WriteConflictError,
)
#: The same where clocks jump, storage fails and schemas are drawn.
GIVEN_UP = (*GIVES_WAY, ClockAheadError, SchemaError, StorageError)
#: Options of everybody: services are due after every few writes, and run when an actor says so.
_SETTINGS = {
    # A holder that stalls keeps others waiting for minutes; who asks too often only costs steps.
    "hoodie.write.lock.wait_time_ms": "600000",
    "hoodie.write.lock.wait_time_ms_between_retry": "10000",
    "hoodie.write.lock.storage.validity.timeout.secs": str(LEASE_MS // 1000),
    "hoodie.client.heartbeat.interval_in_ms": "60000",
    "hoodie.client.heartbeat.tolerable.misses": "2",
    "hoodie.keep.min.commits": "3",
    "hoodie.keep.max.commits": "4",
    "hoodie.commits.archival.batch": "1",
    "hoodie.write.set.null.for.missing.columns": "true",
    "hoodie.metadata.compact.max.delta.commits": "3",
}


class _ToySession(WriteSession):
    """A session that looks into toy files where it compares keys."""

    @property
    @override
    def _shared_keys(self) -> SharedKeys:
        return partial(toy_keys, self.state.storage)


@dataclass(frozen=True, kw_only=True)
class Sharing:
    """How one actor opens the table: by options, as everybody does."""

    mode: ConcurrencyMode
    strategy: ConflictStrategy = ConflictStrategy.SIMPLE
    max_skew_ms: int = 20
    metadata: bool = False
    with_stats: bool = False
    with_index: bool = False
    buckets: bool = True
    moves: bool = False
    """Whether a key is in one partition of the table, and goes to another with a newer row."""
    partitions: int = 1
    keys: int = 4
    evolves: float = 0.1
    inline: bool = False
    """Whether services run after writes, too."""
    more: Mapping[str, str] = field(default_factory=dict)

    @cached_property
    def settings(self) -> Mapping[str, str]:
        """Return the options."""
        found = {
            **_SETTINGS,
            "hoodie.write.concurrency.mode": self.mode.value,
            "hoodie.write.lock.conflict.resolution.strategy": self.strategy.value,
            "hoodie.time.generator.max_expected_clock_skew_ms": str(self.max_skew_ms),
            "hoodie.metadata.enable": str(self.metadata).lower(),
            "hoodie.index.type": self._index_type,
            KEY_CHECK.name: str(not self.buckets).lower(),
            "hoodie.clean.automatic": str(self.inline).lower(),
            "hoodie.archive.automatic": str(self.inline).lower(),
            "hoodie.compact.inline": str(self.inline).lower(),
            "hoodie.compact.inline.max.delta.commits": "2",
        }
        if self.buckets:
            found["hoodie.bucket.index.num.buckets"] = str(BUCKETS)
        if self.with_stats:
            found["hoodie.metadata.index.column.stats.enable"] = "true"
            found["hoodie.metadata.index.column.stats.column.list"] = "a"
        if self.with_index:
            found["hoodie.metadata.record.index.enable"] = "true"
        return {**found, **self.more}

    @property
    def _index_type(self) -> str:
        if self.buckets:
            return "BUCKET"
        if self.moves and not self.with_index:
            return "GLOBAL_SIMPLE"
        return "RECORD_INDEX" if self.with_index else "SIMPLE"

    @property
    def every_key(self) -> list[str]:
        """Return the keys that writers draw from, with their partitions.

        A record index has one place for each, so that no two partitions have the same unless keys
        move between them.
        """
        of_one = self.with_index and not self.moves
        return [
            f"p{partition}/{f'{partition}.' if of_one else ''}k{number}"
            for partition in range(self.partitions)
            for number in range(self.keys)
        ]

    @cached_property
    def options(self) -> WriteOptions:
        """Return the options, typed."""
        return WriteOptions.from_options(self.settings)

    def state(self, env: Env, *, by_metadata: bool | None = None) -> TableState:
        """Look at the table, through its metadata table if options and caller say so."""
        settings = self.settings
        if by_metadata is not None:
            settings = {**settings, "hoodie.metadata.enable": str(by_metadata).lower()}
        return load_state(env.storage, settings)

    def session(self, env: Env) -> WriteSession:
        """Look at the table in order to write to it."""
        state = self.state(env)
        compact = inline_compaction(env, state, self.options, ToyRunner(env))
        fill = partial(fill_toy_index, lambda: self.state(env))
        return _ToySession(env, state, self.options, compact=compact, fill_index=fill)

    def table_services(self, env: Env) -> TableServices:
        """Look at the table in order to run a service."""
        return TableServices(env, self.state(env), self.options)


def refuse_real_damage(error: CorruptFileError) -> None:
    """Raise the error again, unless it is of a toy file that somebody took for a real one.

    Who makes statistics for files that others wrote reads their footers, and toys have none.
    """
    if not error.path.endswith(".parquet"):
        raise error


@dataclass(frozen=True, kw_only=True)
class Part(ABC):
    """What every actor is given; it acts when it is called with its environment."""

    name: str
    sharing: Sharing
    journal: Journal
    chance: random.Random
    times: int = 3
    """How often it acts."""
    pause_ms: int = 200
    """The longest that it waits in between; 0 for not at all."""
    slow_ms: int = 0
    """The longest that it takes between two steps, such as for rows that are slow to come."""

    @abstractmethod
    def __call__(self, env: Env) -> None:
        """Act, from start to end."""

    def pause(self, env: Env) -> None:
        """Wait for a while."""
        if self.pause_ms:
            env.clock.sleep_ms(self.chance.randint(1, self.pause_ms))

    def linger(self, env: Env) -> None:
        """Take as long as slow input takes."""
        if self.slow_ms:
            env.clock.sleep_ms(self.chance.randint(1, self.slow_ms))


@dataclass(frozen=True, kw_only=True)
class Repeats(Part):
    """Does one thing now and then; what fails is left to the next time."""

    @override
    def __call__(self, env: Env) -> None:
        for _ in range(self.times):
            self.pause(env)
            try:
                self.act(env)
            except GIVEN_UP:
                continue
            except CorruptFileError as error:
                refuse_real_damage(error)

    @abstractmethod
    def act(self, env: Env) -> None:
        """Do it once."""
