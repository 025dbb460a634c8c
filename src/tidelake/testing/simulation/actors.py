"""Who acts in a simulated world, and the journal by which they are judged."""

from __future__ import annotations

import json
import random  # noqa: TID251 - seeded by whoever makes an actor
from dataclasses import dataclass, field

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
    CommitOutcomeUnknownError,
    InstantLostError,
    LockLostError,
    LockTimeoutError,
    MissingFileError,
    PlanCompletedError,
    PlanRemovedError,
    PlanRunningError,
    SchemaConflictError,
    StorageError,
    UnsupportedTableError,
    WriteConflictError,
)
from tidelake.formats import plans
from tidelake.model import Action, Commit, FileSlice, TableType
from tidelake.services.archive import archive
from tidelake.services.clean import clean
from tidelake.services.compaction import plan_compaction, planned_slices
from tidelake.services.rollback import roll_back_all_failed
from tidelake.storage import Storage
from tidelake.testing.simulation.toy_rows import (
    SCHEMA,
    Row,
    Rows,
    Snapshot,
    file_id_of,
    merged,
    read_toy,
    read_toy_slice,
    write_toy_file,
)
from tidelake.timeline import Timeline
from tidelake.txn import NoMetadataTable, Transaction, begin
from tidelake.txn.concurrency import Concurrency, SchemaResolver
from tidelake.txn.locks import LockWait, StorageLock, TableLock
from tidelake.txn.planned import find_plan, schedule, take_over
from tidelake.write.schema_conflict import SchemasClashError, resolve
from tidelake.write.sharing import slot_name

LEASE_MS = 60_000
EXPIRES_MS = 120_000
#: Services that are due after every few writes.
_SERVICES = ServiceOptions(
    clean=CleanOptions(commits=2),
    archive=ArchiveOptions(min_commits=3, max_commits=4, batch=1, history_batch=2),
    compaction=CompactionOptions(max_delta_commits=2),
)
#: What a writer may be told without anything being wrong with it.
_GIVEN_UP = (
    InstantLostError,
    LockLostError,
    LockTimeoutError,
    MissingFileError,
    StorageError,
    WriteConflictError,
)


@dataclass
class Journal:
    """What writers did, told by themselves: the truth that the table is held to."""

    written: dict[str, dict[str, Row]] = field(default_factory=dict)
    """The rows of every write by its instant, whatever became of it."""
    landed: list[Commit] = field(default_factory=list)
    """Commits that a writer was told of."""
    refused: list[str] = field(default_factory=list)
    """Instants of which a writer was told that they did not land."""
    wrong: list[str] = field(default_factory=list)
    """What a reader saw that it should not."""

    def rows(self, snapshot: Snapshot) -> dict[str, Row]:
        """Return what a reader is owed: all completed writes, by completion time."""
        times = [i.requested_time for i in snapshot.completed()]
        return merged(self.written[time] for time in times if time in self.written)


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
            lock=TableLock(lock, env.clock, LockWait(wait_ms=600_000)),
            strategy=self.strategy,
            slot_name=slot_name,
            max_skew_ms=self.max_skew_ms,
            heartbeat_ms=60_000,
            expires_after_ms=EXPIRES_MS,
            writer=name,
        )


@dataclass(frozen=True, kw_only=True)
class Upserts:
    """Writes `times` times: counts keys up under OCC, sets them to anything under NBCC.

    A count that two writers both took for 5 and set to 6 is an update that was lost.
    """

    name: str
    sharing: Sharing
    journal: Journal
    chance: random.Random
    times: int = 3
    attempts: int = 8
    rewrites: float = 0.2
    """How often a merge-on-read file group gets a new base file, as small ones do."""
    evolves: float = 0.1
    """How often a write brings a new column."""

    def __call__(self, env: Env) -> None:
        """Write; give up on a write that had to give way too often."""
        for _ in range(self.times):
            for _ in range(self.attempts):
                if self._write(env):
                    break
                env.clock.sleep_ms(self.chance.randint(1, 2_000))
            env.clock.sleep_ms(self.chance.randint(1, 200))

    def _write(self, env: Env) -> bool:
        keys = self.chance.sample(
            [f"k{n}" for n in range(self.sharing.keys)], self.chance.randint(1, 2)
        )
        instant_time = ""
        try:
            txn = self._begin(env)
            instant_time = txn.instant_time
            with txn:
                self.journal.landed.append(self._committed(env, txn, keys))
        except CommitOutcomeUnknownError:
            return True
        except _GIVEN_UP as refused:
            if isinstance(refused, WriteConflictError | InstantLostError | LockLostError):
                self.journal.refused.append(instant_time)
            return False
        return True

    def _begin(self, env: Env) -> Transaction:
        snapshot = Snapshot.load(env.storage)
        config = snapshot.config
        is_mor = config.table_type is TableType.MERGE_ON_READ
        return begin(
            env,
            config,
            snapshot.timeline,
            action=Action.DELTACOMMIT if is_mor else Action.COMMIT,
            operation="UPSERT",
            roll_back=False,
            concurrency=self.sharing.concurrency(env, self.name),
        )

    def _committed(self, env: Env, txn: Transaction, keys: list[str]) -> Commit:
        snapshot = Snapshot.load(env.storage, txn.timeline)
        slices = snapshot.slices()
        by_group: dict[str, dict[str, Row]] = {}
        for key in keys:
            file_id = file_id_of(key, self.sharing.buckets)
            row = self._row(env.storage, slices.get(file_id), key)
            by_group.setdefault(file_id, {})[key] = row
        self.journal.written[txn.instant_time] = {
            key: row for rows in by_group.values() for key, row in rows.items()
        }
        start = snapshot.schema()
        writer = self._evolved(start or SCHEMA)
        txn.start()
        stats = []
        for file_id, rows in by_group.items():
            before = slices.get(file_id)
            as_base = self._as_base(snapshot, before)
            kept: Rows = read_toy_slice(env.storage, before) if as_base and before else {}
            stats.append(
                write_toy_file(
                    env,
                    snapshot.config,
                    txn,
                    file_id,
                    merged([kept, rows]),
                    before=before,
                    as_base=as_base,
                )
            )
        return txn.commit(
            stats, schema=writer, resolve_schema=self._resolver(txn.instant_time, start, writer)
        )

    def _as_base(self, snapshot: Snapshot, before: FileSlice | None) -> bool:
        if snapshot.config.table_type is TableType.COPY_ON_WRITE:
            return True
        if self.sharing.mode is ConcurrencyMode.NON_BLOCKING or before is None:
            return False
        # A group that a compaction has spoken for is left alone, as every writer does.
        is_free = not snapshot.view.pending_compactions(before.group)
        return self.chance.random() < self.rewrites and is_free

    def _evolved(self, schema: str) -> str:
        if self.chance.random() >= self.evolves:
            return schema
        raw = json.loads(schema)
        name = f"c{self.chance.randint(0, 3)}"
        if any(column["name"] == name for column in raw["fields"]):
            return schema
        added = {"name": name, "type": ["null", "long"], "default": None}
        return json.dumps({**raw, "fields": [*raw["fields"], added]})

    def _resolver(self, ours: str, start: str | None, writer: str) -> SchemaResolver:
        def resolve_now(now: str | None, by: str) -> str:
            try:
                return resolve(start, now, writer)
            except SchemasClashError as clash:
                raise SchemaConflictError(
                    ours=ours,
                    theirs=by,
                    overlap=clash.columns,
                    rule=str(clash),
                    facts={},
                    next_step="",
                ) from clash

        return resolve_now

    def _row(self, storage: Storage, before: FileSlice | None, key: str) -> Row:
        if self.sharing.mode is ConcurrencyMode.NON_BLOCKING:
            return self.chance.randint(0, 3), self.chance.randint(0, 99)
        count = read_toy_slice(storage, before).get(key, (0, 0))[0] + 1 if before else 1
        return count, count


@dataclass(frozen=True, kw_only=True)
class Reads:
    """Reads the table `times` times, and holds each answer to the journal."""

    journal: Journal
    chance: random.Random
    times: int = 5
    pause_ms: int = 3_000

    def __call__(self, env: Env) -> None:
        """Read."""
        for _ in range(self.times):
            env.clock.sleep_ms(self.chance.randint(1, self.pause_ms))
            try:
                snapshot = Snapshot.load(env.storage)
                found = read_toy(env.storage, snapshot)
                owed = self.journal.rows(snapshot)
                later = Snapshot.load(env.storage)
            except (StorageError, MissingFileError):
                continue  # a clean went by, or the storage failed: the reader asks again
            if _cleans(later) != _cleans(snapshot):
                continue  # what it asked for may have been too old while it asked
            if found != owed:
                self.journal.wrong.append(f"a reader saw {found} and is owed {owed}")


def _cleans(snapshot: Snapshot) -> set[str]:
    """Return the cleans that were begun."""
    found = snapshot.timeline.instants
    return {i.requested_time for i in found if i.action is Action.CLEAN}


@dataclass(frozen=True, kw_only=True)
class Compacts:
    """Plans compactions and carries out whatever plan waits, its own or not."""

    name: str
    sharing: Sharing
    chance: random.Random
    times: int = 4
    pause_ms: int = 4_000

    def __call__(self, env: Env) -> None:
        """Compact; what fails is left to the next attempt."""
        for _ in range(self.times):
            env.clock.sleep_ms(self.chance.randint(1, self.pause_ms))
            try:
                self._plan(env)
                for instant in self._pending(env):
                    self._run(env, instant)
            except (*_GIVEN_UP, PlanCompletedError, PlanRemovedError, PlanRunningError):
                continue
            except CommitOutcomeUnknownError:
                continue
            except UnsupportedTableError:
                continue  # a log that a dead writer left stands in the way

    def _plan(self, env: Env) -> None:
        snapshot = Snapshot.load(env.storage)

        def make_plan(timeline: Timeline, requested_time: str) -> bytes | None:
            now = Snapshot.load(env.storage, timeline)
            made = plan_compaction(
                now.view,
                now.contents,
                CompactionOptions(),
                table_version=now.config.table_version,
                requested_time=requested_time,
            )
            return None if made is None else plans.encode(made)

        schedule(
            env,
            snapshot.config,
            snapshot.timeline,
            action=Action.COMPACTION,
            make_plan=make_plan,
            keeper=NoMetadataTable(env),
            concurrency=self.sharing.concurrency(env, self.name),
            roll_back=False,
        )

    def _pending(self, env: Env) -> list[str]:
        pending = Snapshot.load(env.storage).timeline.pending
        return [i.requested_time for i in pending if i.planned_as is Action.COMPACTION]

    def _run(self, env: Env, requested_time: str) -> None:
        snapshot = Snapshot.load(env.storage)
        with take_over(
            env,
            snapshot.config,
            snapshot.timeline,
            requested_time=requested_time,
            action=Action.COMPACTION,
            operation="COMPACT",
            keeper=NoMetadataTable(env),
            concurrency=self.sharing.concurrency(env, self.name),
            roll_back=False,
        ) as txn:
            now = Snapshot.load(env.storage, txn.timeline)
            instant = find_plan(now.timeline, requested_time, Action.COMPACTION)
            slices = planned_slices(now.view, now.contents.compaction_plan(instant))
            txn.start()
            stats = [
                write_toy_file(
                    env,
                    now.config,
                    txn,
                    piece.group.file_id,
                    read_toy_slice(env.storage, piece),
                    before=piece,
                    as_base=True,
                )
                for piece in slices
            ]
            txn.commit(stats, schema=SCHEMA)


@dataclass(frozen=True, kw_only=True)
class Cleans:
    """Cleans the table and archives its instants, and rolls back what died on the way."""

    name: str
    sharing: Sharing
    chance: random.Random
    times: int = 3
    pause_ms: int = 6_000

    def __call__(self, env: Env) -> None:
        """Clean; what fails is left to the next attempt."""
        for _ in range(self.times):
            env.clock.sleep_ms(self.chance.randint(1, self.pause_ms))
            concurrency = self.sharing.concurrency(env, self.name)
            try:
                clean(env, _SERVICES.clean, expires_ms=EXPIRES_MS, concurrency=concurrency)
                archive(env, _SERVICES, concurrency)
            except (*_GIVEN_UP, PlanCompletedError, PlanRemovedError, PlanRunningError):
                continue


@dataclass(frozen=True, kw_only=True)
class RollsBack:
    """Rolls back writes that show no signs of life."""

    name: str
    sharing: Sharing
    chance: random.Random
    times: int = 4
    pause_ms: int = 2 * EXPIRES_MS

    def __call__(self, env: Env) -> None:
        """Roll back; what fails is left to the next attempt."""
        for _ in range(self.times):
            env.clock.sleep_ms(self.chance.randint(1, self.pause_ms))
            try:
                roll_back_all_failed(
                    env,
                    expires_ms=EXPIRES_MS,
                    concurrency=self.sharing.concurrency(env, self.name),
                )
            except _GIVEN_UP:
                continue
