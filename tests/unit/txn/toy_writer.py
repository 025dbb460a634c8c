"""One writer of a toy table among others."""

from __future__ import annotations

from collections.abc import Sequence

from tests.unit.txn.hand_ticker import HandTicker
from tests.unit.txn.toy_table import SCHEMA, Toy
from tidelake.config import ConcurrencyMode, ConflictStrategy
from tidelake.env import Clock, Env
from tidelake.formats.commit_metadata import WriteStat
from tidelake.model import Action, Commit
from tidelake.storage import Storage
from tidelake.testing import SeededIds
from tidelake.txn import Transaction, begin
from tidelake.txn.concurrency import Concurrency, SchemaResolver
from tidelake.txn.locks import StorageLock, TableLock

OCC = ConcurrencyMode.OPTIMISTIC
NBCC = ConcurrencyMode.NON_BLOCKING
LEASE_MS = 60_000


class Writer:
    """One writer among others; its steps are called one by one, so that tests interleave them."""

    def __init__(
        self,
        storage: Storage,
        clock: Clock,
        number: int,
        mode: ConcurrencyMode = OCC,
        strategy: ConflictStrategy = ConflictStrategy.SIMPLE,
    ) -> None:
        self.env = Env(storage, clock, SeededIds(number), HandTicker())
        self.lock = StorageLock(self.env, validity_ms=LEASE_MS, skew_ms=0)
        self.toy = Toy(storage)
        self.concurrency = Concurrency(
            mode=mode,
            lock=TableLock(self.lock, clock),
            strategy=strategy,
            writer=f"writer {number}",
        )

    def begin(self, *, overwrite: bool = False, write_id: str | None = None) -> Transaction:
        return begin(
            self.env,
            self.toy.config,
            self.toy.timeline,
            action=Action.REPLACECOMMIT if overwrite else self.toy.write_action,
            operation="INSERT_OVERWRITE" if overwrite else "UPSERT",
            write_id=write_id,
            roll_back=False,
            concurrency=self.concurrency,
        )

    def write(self, txn: Transaction, group: str, text: str) -> list[WriteStat]:
        existing = self.toy.slices(txn.timeline)
        txn.start()
        return [self.toy.task(txn, group, text, existing.get(group), "0-1-0")]

    def commit(
        self,
        txn: Transaction,
        stats: Sequence[WriteStat],
        resolve_schema: SchemaResolver | None = None,
    ) -> Commit:
        return txn.commit(stats, schema=SCHEMA, resolve_schema=resolve_schema)
