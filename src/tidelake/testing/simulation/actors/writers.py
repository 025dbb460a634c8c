"""Who writes rows."""

from __future__ import annotations

import json
from dataclasses import dataclass

from typing_extensions import override

from tidelake.config import ConcurrencyMode
from tidelake.env import Env
from tidelake.errors import (
    CommitOutcomeUnknownError,
    InstantLostError,
    LockLostError,
    SchemaConflictError,
    WriteConflictError,
)
from tidelake.model import Action, Commit, FileSlice, TableType
from tidelake.storage import Storage
from tidelake.testing.simulation.actors.sharing import GIVEN_UP, Part
from tidelake.testing.simulation.toy_rows import (
    SCHEMA,
    Row,
    Rows,
    Snapshot,
    file_id_of,
    merged,
    read_toy_slice,
    write_toy_file,
)
from tidelake.txn import Transaction, begin
from tidelake.txn.concurrency import SchemaResolver
from tidelake.write.schema_conflict import SchemasClashError, resolve


@dataclass(frozen=True, kw_only=True)
class Upserts(Part):
    """Writes `times` times: counts keys up under OCC, sets them to anything under NBCC.

    A count that two writers both took for 5 and set to 6 is an update that was lost.
    """

    attempts: int = 8
    rewrites: float = 0.2
    """How often a merge-on-read file group gets a new base file, as small ones do."""
    evolves: float = 0.1
    """How often a write brings a new column."""

    @override
    def __call__(self, env: Env) -> None:
        """Write; give up on a write that had to give way too often."""
        for _ in range(self.times):
            for _ in range(self.attempts):
                if self._write(env):
                    break
                env.clock.sleep_ms(self.chance.randint(1, 2_000))
            self.pause(env)

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
        except GIVEN_UP as refused:
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
            concurrency=self.concurrency(env),
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
