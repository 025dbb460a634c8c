"""Who writes rows: the steps of `spark.write.writer`, with toy rows where that has DataFrames."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from typing_extensions import override

from tidelake.config import ConcurrencyMode, WriteOperation
from tidelake.env import Env
from tidelake.errors import (
    CommitOutcomeUnknownError,
    CorruptFileError,
    InstantLostError,
    LockLostError,
    WriteConflictError,
)
from tidelake.files import SliceTask, WriteSpec
from tidelake.files.write_task import GroupTarget, WriteKind
from tidelake.formats.commit_metadata import WriteStat
from tidelake.formats.instant_name import LAYOUT_1
from tidelake.model import Commit
from tidelake.operations.write_session import Choice, WriteSession
from tidelake.read.scan import block_filter
from tidelake.records.keys import bucket_of
from tidelake.state.table_state import TableState
from tidelake.testing.simulation.actors.sharing import (
    BUCKETS,
    GIVEN_UP,
    Part,
    refuse_real_damage,
)
from tidelake.testing.simulation.journal import Effect
from tidelake.testing.simulation.toy_index import found_in_index, write_toy_index
from tidelake.testing.simulation.toy_rows import (
    Row,
    Rows,
    new_token,
    read_rows,
    read_toy_slice,
    toy_columns,
    write_toy_file,
)
from tidelake.txn import Transaction
from tidelake.write.operation import planned_stats
from tidelake.write.partitions import named_partitions
from tidelake.write.plan import Workload, WritePlan
from tidelake.write.schema_evolution import without_meta_columns
from tidelake.write.sharing import refuse_exclusive
from tidelake.write.write_work import planned_target

#: Told of these, a writer knows that its instant does not count.
_REFUSED = (WriteConflictError, InstantLostError, LockLostError)
#: Partition and file id, or the word of a bucket, or None; see `Workload`.
Place = tuple[str, "str | None"]
#: A row that is to be written; its instant is known once the write has begun.
Wanted = tuple[int, "int | None", "int | None"]


@dataclass(frozen=True, kw_only=True)
class Writes(Part):
    """Writes `times` times, and makes a write that had to give way again."""

    attempts: int = 6

    @override
    def __call__(self, env: Env) -> None:
        for _ in range(self.times):
            for _ in range(self.attempts):
                if self._is_done(env):
                    break
                env.clock.sleep_ms(self.chance.randint(1, 2_000))
            self.pause(env)

    def _is_done(self, env: Env) -> bool:
        begun: list[Transaction] = []
        try:
            self.journal.landed.append(self.write(env, begun))
        except CommitOutcomeUnknownError:
            return True
        except GIVEN_UP as error:
            if begun and isinstance(error, _REFUSED):
                self.journal.refused.append(begun[0].instant_time)
            return False
        except CorruptFileError as error:
            refuse_real_damage(error)
            return False
        return True

    @abstractmethod
    def write(self, env: Env, begun: list[Transaction]) -> Commit:
        """Write once; put the transaction into `begun` as soon as there is one."""

    def some_keys(self) -> list[str]:
        """Return a few keys with their partitions."""
        return sorted(self.chance.sample(self.sharing.every_key, self.chance.randint(1, 2)))

    def some_row(self) -> Wanted:
        """Return a row whose value tells it from others."""
        value = self.chance.randint(0, 999)
        return self.chance.randint(0, 3), value, value

    def choice(self, session: WriteSession, operation: WriteOperation) -> Choice:
        """Decide how rows are understood."""
        return session.choose(operation, toy_columns(), None)

    def place(self, key: str) -> Place:
        """Return where a key goes that the table does not have."""
        partition, _, name = key.partition("/")
        if not self.sharing.buckets:
            return partition, None
        return partition, f"{bucket_of((name,), BUCKETS):08d}"


def write_files(
    env: Env,
    session: WriteSession,
    txn: Transaction,
    spec: WriteSpec,
    plan: WritePlan,
    placed: Mapping[str, tuple[Place, Row | None]],
) -> list[WriteStat]:
    """Write rows, given with their places, to the files that a plan says."""
    by_target: dict[tuple[str, str], tuple[GroupTarget, dict[str, Row | None]]] = {}
    nowhere: dict[str, Row | None] = {}
    for key, ((partition, group), row) in placed.items():
        target = _target(env, plan, partition, group)
        changes = nowhere
        if target is not None:
            at = (target.partition, group or target.file_id)
            changes = by_target.setdefault(at, (target, {}))[1]
        changes[key.partition("/")[2]] = row
    state = TableState(
        storage=env.storage, config=txn.config, timeline=txn.timeline, options=session.state.options
    )
    stats = []
    for target, changes in by_target.values():
        before: Rows = {}
        if target.kind in (WriteKind.MERGE, WriteKind.CONCAT):
            # A base file that is written anew has no logs: compaction would have them.
            task = SliceTask(
                partition=target.partition,
                file_id=target.file_id,
                base_path=target.base_path,
                base_instant=target.base_instant,
                log_paths=(),
            )
            before = read_toy_slice(env.storage, task, block_filter(state, None))
        stats.append(write_toy_file(env, spec, target, changes, before=before))
    return stats + write_toy_index(env, spec, [*by_target.values(), (None, nowhere)])


def _target(env: Env, plan: WritePlan, partition: str, group: str | None) -> GroupTarget | None:
    """Return the file group of a row, as tasks find it."""
    if group is None:
        # Few rows go to one file, whatever the plan's shares say of more.
        group = plan.shares[partition][0].file_id
    return planned_target(plan, partition, group, env.ids)


def _counted(placed: Mapping[str, tuple[Place, object]]) -> Workload:
    counts: dict[Place, int] = {}
    for place, _ in placed.values():
        counts[place] = counts.get(place, 0) + 1
    return Workload(counts=counts)


@dataclass(frozen=True, kw_only=True)
class Changes(Writes):
    """Writes rows to the file groups that hold, or are to hold, their keys."""

    @override
    def write(self, env: Env, begun: list[Transaction]) -> Commit:
        session = self.sharing.session(env)
        self.linger(env)
        placed, read = self.wanted(env, session)
        was_read = read is not None
        choice = self.chosen(session)
        self.linger(env)
        workload = _counted(placed)
        with session.begin(
            choice.operation,
            None,
            looked_up=was_read or not choice.index.is_simple_bucket,
            keeps_unique=not choice.index.is_bucket,
            is_global=choice.index.type.is_global,
        ) as txn:
            begun.append(txn)
            stamped = {
                key: (place, None if row is None else (*row, txn.instant_time))
                for key, (place, row) in placed.items()
            }
            plan = session.plan(txn, choice, workload, by_file_id=self.by_file_id)
            by_completion = txn.config.layout_version != LAYOUT_1
            self.journal.written[txn.instant_time] = Effect(
                # A delete that found its bucket empty gives way to who filled it before; on version
                # 6 one who began earlier and completes later counts as before, too.
                changes={
                    key: row
                    for key, (place, row) in stamped.items()
                    if by_completion or _target(env, plan, *place) is not None
                },
                read=read or {},
            )
            txn.start(planned_stats(workload, plan))
            self.linger(env)
            stats = write_files(env, session, txn, session.spec(txn, choice), plan, stamped)
            self.linger(env)
            return session.commit(txn, stats, choice.schema.avro)

    #: Whether rows are brought to file groups in which they were read.
    by_file_id = False

    def chosen(self, session: WriteSession) -> Choice:
        """Decide how rows are understood."""
        return self.choice(session, WriteOperation.UPSERT)

    @abstractmethod
    def wanted(
        self, env: Env, session: WriteSession
    ) -> tuple[dict[str, tuple[Place, Wanted | None]], dict[str, Row | None] | None]:
        """Return rows to write with their places, and the rows that they were made from."""

    def compared(self, read: dict[str, Row | None]) -> dict[str, Row | None]:
        """Return the rows that nobody else may have changed once this write has completed.

        Writers that never give way do not know what others make of the same rows.
        """
        return {} if self.sharing.mode is ConcurrencyMode.NON_BLOCKING else read

    def looked_up(
        self, session: WriteSession, rows: Mapping[str, Wanted | None]
    ) -> dict[str, tuple[Place, Wanted | None]]:
        """Return rows with the file groups in which their keys are, or may go."""
        if self.sharing.buckets:
            return {key: (self.place(key), row) for key, row in rows.items()}
        if self.sharing.moves:
            return self._moved(session, rows)
        known = self._file_ids(session, list(rows))
        return {
            key: ((self.place(key)[0], known[key]) if key in known else self.place(key), row)
            for key, row in rows.items()
        }

    def _moved(
        self, session: WriteSession, rows: Mapping[str, Wanted | None]
    ) -> dict[str, tuple[Place, Wanted | None]]:
        """Return rows with their file groups, and with deletes where their keys are in others.

        As `spark.write.index_lookup.tagged_globally` does: the row that is there stays if it wins.
        """
        by_name = {key.partition("/")[2]: (key, at) for key, at in read_rows(session.state).items()}
        if self.sharing.with_index and session.record_index is not None:
            indexed = found_in_index(session.record_index, (k.partition("/")[2] for k in rows))
            by_name = {n: by_name[n] for n in indexed if n in by_name}
        placed: dict[str, tuple[Place, Wanted | None]] = {}
        for key, row in {key.partition("/")[2]: (key, row) for key, row in rows.items()}.values():
            there = by_name.get(key.partition("/")[2])
            if there is None:
                placed[key] = (self.place(key), row)
                continue
            old, (file_id, known) = there
            home = (old.partition("/")[0], file_id)
            if old == key or row is None:
                placed[old] = (home, row)
            elif row[0] >= known[0]:
                placed[old] = (home, None)
                placed[key] = (self.place(key), row)
        return placed

    def _file_ids(self, session: WriteSession, keys: Sequence[str]) -> dict[str, str]:
        """Return in which file groups keys are, where the table has them."""
        index = session.record_index if self.sharing.with_index else None
        if index is None:
            known = read_rows(session.state, (key.partition("/")[0] for key in keys))
            return {key: file_id for key, (file_id, _) in known.items()}
        found = found_in_index(index, (key.partition("/")[2] for key in keys))
        return {f"{place.partition}/{name}": place.file_id for name, place in found.items()}


@dataclass(frozen=True, kw_only=True)
class Upserts(Changes):
    """Brings rows, known or not; now and then with a column that is new."""

    @override
    def chosen(self, session: WriteSession) -> Choice:
        is_new = self.chance.random() < self.sharing.evolves
        more = [f"c{self.chance.randint(0, 3)}"] if is_new else []
        return session.choose(WriteOperation.UPSERT, toy_columns(more), None)

    @override
    def wanted(
        self, env: Env, session: WriteSession
    ) -> tuple[dict[str, tuple[Place, Wanted | None]], dict[str, Row | None] | None]:
        rows = {key: self.some_row() for key in self.some_keys()}
        self.linger(env)
        return self.looked_up(session, rows), None


@dataclass(frozen=True, kw_only=True)
class PartialUpserts(Upserts):
    """Brings one column of rows, and leaves the other as it is."""

    @override
    def some_row(self) -> Wanted:
        order, value, _ = super().some_row()
        return order, value, None


@dataclass(frozen=True, kw_only=True)
class Inserts(Changes):
    """Brings rows that nobody else has, wherever there is room for them."""

    @override
    def chosen(self, session: WriteSession) -> Choice:
        return self.choice(session, WriteOperation.INSERT)

    @override
    def wanted(
        self, env: Env, session: WriteSession
    ) -> tuple[dict[str, tuple[Place, Wanted | None]], dict[str, Row | None] | None]:
        partition = self.chance.randrange(self.sharing.partitions)
        key = f"p{partition}/{self.name} {self.chance.getrandbits(32)}"
        return {key: (self.place(key), self.some_row())}, None


@dataclass(frozen=True, kw_only=True)
class Deletes(Upserts):
    """Deletes rows by their keys."""

    @override
    def chosen(self, session: WriteSession) -> Choice:
        return session.choose(WriteOperation.DELETE, toy_columns(), None)

    @override
    def wanted(
        self, env: Env, session: WriteSession
    ) -> tuple[dict[str, tuple[Place, Wanted | None]], dict[str, Row | None] | None]:
        rows: dict[str, Wanted | None] = dict.fromkeys(self.some_keys())
        self.linger(env)
        placed = self.looked_up(session, rows)
        if self.sharing.buckets:
            return placed, None
        return {key: found for key, found in placed.items() if found[0][1] is not None}, None


@dataclass(frozen=True, kw_only=True)
class UpdatesWhere(Changes):
    """Reads rows, and gives those that fulfil a condition other values."""

    by_file_id = True

    @override
    def chosen(self, session: WriteSession) -> Choice:
        return session.choose(WriteOperation.UPSERT, toy_columns(), None, by_key=False)

    @override
    def wanted(
        self, env: Env, session: WriteSession
    ) -> tuple[dict[str, tuple[Place, Wanted | None]], dict[str, Row | None] | None]:
        least = self.chance.randint(0, 900)
        found = read_rows(session.state)
        self.linger(env)
        placed: dict[str, tuple[Place, Wanted | None]] = {}
        read: dict[str, Row | None] = {}
        for key, (file_id, row) in found.items():
            if (row[1] or 0) >= least:
                placed[key] = ((key.partition("/")[0], file_id), self.changed(row))
                read[key] = row
        return placed, self.compared(read)

    def changed(self, row: Row) -> Wanted | None:
        """Return what becomes of a row."""
        return row[0], self.chance.randint(0, 999), row[2]


@dataclass(frozen=True, kw_only=True)
class DeletesWhere(UpdatesWhere):
    """Reads rows, and deletes those that fulfil a condition."""

    @override
    def chosen(self, session: WriteSession) -> Choice:
        return session.choose(WriteOperation.DELETE, toy_columns(), None, by_key=False)

    @override
    def changed(self, row: Row) -> Wanted | None:
        return None


@dataclass(frozen=True, kw_only=True)
class Merges(Changes):
    """Reads rows, counts those up that match, and inserts the others."""

    @override
    def wanted(
        self, env: Env, session: WriteSession
    ) -> tuple[dict[str, tuple[Place, Wanted | None]], dict[str, Row | None] | None]:
        keys = self.some_keys()
        self.linger(env)
        known = read_rows(session.state, (key.partition("/")[0] for key in keys))
        self.linger(env)
        placed: dict[str, tuple[Place, Wanted | None]] = {}
        read: dict[str, Row | None] = {}
        for key in keys:
            file_id, row = known.get(key, (None, None))
            place = self.place(key)
            if not self.sharing.buckets and file_id is not None:
                place = place[0], file_id
            if row is None:
                placed[key] = (place, self.some_row())
            else:
                placed[key] = (place, (row[0] + 1, (row[1] or 0) + 1, row[2]))
            read[key] = row
        return placed, self.compared(read)


@dataclass(frozen=True, kw_only=True)
class Overwrites(Writes):
    """Puts rows in the place of all that its partitions have."""

    operation = WriteOperation.INSERT_OVERWRITE

    @override
    def write(self, env: Env, begun: list[Transaction]) -> Commit:
        session = self.sharing.session(env)
        choice = self.choice(session, self.operation)
        self.linger(env)
        rows = {key: self.some_row() for key in self.some_keys()}
        placed = {key: (self.place(key), row) for key, row in rows.items()}
        workload = _counted(placed)
        with session.begin(choice.operation, None, looked_up=False) as txn:
            begun.append(txn)
            plan, replaced = session.plan_overwrite(txn, choice, workload)
            stamped = {
                key: (place, (*row, txn.instant_time)) for key, (place, row) in placed.items()
            }
            self.journal.written[txn.instant_time] = Effect(
                changes={key: row for key, (_, row) in stamped.items()},
                cleared=frozenset({*replaced, *workload.partitions}),
            )
            txn.start()
            self.linger(env)
            stats = write_files(env, session, txn, session.spec(txn, choice), plan, stamped)
            self.linger(env)
            return session.commit_replacing(
                txn,
                stats,
                choice.schema.avro,
                replaced,
                lambda gone: gone.forget_here(new_token(env)),
            )


@dataclass(frozen=True, kw_only=True)
class OverwritesTable(Overwrites):
    """Puts rows in the place of all that the table has.

    It looks for no keys, so where keys move it is its own matter to bring each in one partition.
    """

    operation = WriteOperation.INSERT_OVERWRITE_TABLE

    @override
    def some_keys(self) -> list[str]:
        keys = super().some_keys()
        if not self.sharing.moves:
            return keys
        return sorted({key.partition("/")[2]: key for key in keys}.values())


@dataclass(frozen=True, kw_only=True)
class DeletesPartitions(Writes):
    """Takes partitions off the table."""

    @override
    def write(self, env: Env, begun: list[Transaction]) -> Commit:
        session = self.sharing.session(env)
        self.linger(env)
        refuse_exclusive(self.sharing.mode, WriteOperation.DELETE_PARTITION)
        wanted = [f"p{self.chance.randrange(self.sharing.partitions)}"]
        chosen = named_partitions(session.config, wanted, session.state.view.partitions())
        avro = without_meta_columns(session.schemas.table().avro)
        with session.begin(WriteOperation.DELETE_PARTITION, None, looked_up=False) as txn:
            begun.append(txn)
            replaced = {**{p: [] for p in chosen}, **session.retire(txn, chosen)}
            self.journal.written[txn.instant_time] = Effect(changes={}, cleared=frozenset(replaced))
            txn.start()
            self.linger(env)
            return session.commit_replacing(
                txn, [], avro, replaced, lambda gone: gone.forget_here(new_token(env))
            )
