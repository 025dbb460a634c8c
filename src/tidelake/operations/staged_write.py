"""A write without a session of Spark: tasks lay rows aside, and one process brings them in.

A data source of Spark can neither shuffle rows nor run queries. So tasks sort their rows by
partition into files of their own, and whoever commits finds the file groups and writes them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from itertools import chain

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidelake.config import DuplicatePolicy
from tidelake.env import Env
from tidelake.errors import ConfigError
from tidelake.files import read_base, read_slice
from tidelake.files.write_task import GROUP, WriteToken
from tidelake.formats.commit_metadata import WriteStat
from tidelake.model import Commit
from tidelake.operations.staging import StagingArea
from tidelake.operations.write_session import Choice, WriteSession
from tidelake.read.scan import read_spec, slice_tasks
from tidelake.records._polars import polars as pl
from tidelake.records.schema import PARTITION_PATH, RECORD_KEY
from tidelake.txn import Transaction
from tidelake.txn.locks import TableLock
from tidelake.view import KnownFiles
from tidelake.write.arrow_keys import bucket_words, partition_paths, record_keys
from tidelake.write.groups import LiveGroup
from tidelake.write.operation import ADDING, CHANGING, REPLACING, planned_partitions, planned_stats
from tidelake.write.plan import Workload, WritePlan
from tidelake.write.refused_rows import known_key
from tidelake.write.ring import Rings, file_ids
from tidelake.write.write_work import WriteWork, gathered

#: Rows are laid aside in files of about this many bytes.
_STAGED_BYTES = 64 << 20
#: So many bytes of rows a task passes on with what it says of itself. Spark's driver holds the
#: messages of all tasks, which are thousands.
_PASSED_ON_BYTES = 16 << 10
_WRITERS = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class StagedFile:
    """Rows of one partition that a task laid aside, or passes on as they are if they are few."""

    partition: str
    path: str | None
    rows: int
    content: bytes = field(default=b"", repr=False)
    """The rows, where they lie nowhere."""


def keyed(batch: pa.RecordBatch, choice: Choice) -> pa.RecordBatch:
    """Return incoming rows as tasks take them: with key, partition path and, if known, group."""
    rows = pa.Table.from_batches([batch])
    keys = record_keys(choice.keys, rows)
    paths = partition_paths(choice.keys, rows).cast(pa.string())
    columns = {name: rows.column(name).combine_chunks() for name in choice.columns}
    columns[RECORD_KEY] = pa.nulls(len(batch), pa.string()) if keys is None else _one(keys)
    columns[PARTITION_PATH] = paths
    columns[GROUP] = pa.nulls(len(batch), pa.string())
    if choice.index.is_simple_bucket and keys is not None:
        columns[GROUP] = bucket_words(
            choice.keys, rows, keys, choice.index.hash_fields, choice.index.buckets
        )
    return pa.RecordBatch.from_pydict({n: _one(c) for n, c in columns.items()})


def stage(
    env: Env,
    area: StagingArea,
    batches: Iterable[pa.RecordBatch],
    choice: Choice,
    token: WriteToken,
) -> list[StagedFile]:
    """Lay the rows of one task aside, a file for each partition, unless they are very few."""
    held: dict[str, list[pa.RecordBatch]] = {}
    sizes: dict[str, int] = {}
    staged: list[StagedFile] = []

    def flush(partition: str) -> None:
        own = held.pop(partition)
        sizes.pop(partition)
        path = f"{area.folder}/{token.format()}-{len(staged)}.arrow"
        env.storage.put(path, _encoded(own))
        rows = sum(map(len, own))
        staged.append(StagedFile(partition=partition, path=path, rows=rows))

    for batch in batches:
        area.keep_alive(env)
        if not len(batch):
            continue
        for (partition, _), piece in gathered([keyed(batch, choice)], whole=True):
            held.setdefault(partition, []).append(piece)
            sizes[partition] = sizes.get(partition, 0) + piece.nbytes
        while sum(sizes.values()) > _STAGED_BYTES:
            flush(max(sizes, key=lambda p: sizes[p]))
    if not staged and sum(sizes.values()) <= _PASSED_ON_BYTES:
        few = [
            StagedFile(partition=p, path=None, rows=sum(map(len, own)), content=_encoded(own))
            for p, own in sorted(held.items())
        ]
        if sum(len(file.content) for file in few) <= _PASSED_ON_BYTES:
            return few
    for partition in sorted(held):
        flush(partition)
    return staged


def _encoded(batches: Sequence[pa.RecordBatch]) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batches[0].schema) as stream:
        for batch in batches:
            stream.write_batch(batch)
    return bytes(sink.getvalue().to_pybytes())


def bring_in(
    session: WriteSession, choice: Choice, staged: Sequence[StagedFile], token: WriteToken
) -> Commit:
    """Write rows that were laid aside to their file groups, and commit."""
    _refuse_global(choice)
    work = _Staged(session, choice, staged)
    # The rings of buckets are those that the session found.
    looked_up = choice.index.is_ring
    with session.begin(choice.operation, choice.write_id, looked_up=looked_up) as txn:
        return _brought_in(txn, session, choice, work, token)


def bring_in_at_once(
    lock: TableLock | None,
    look: Callable[[], tuple[WriteSession, Choice]],
    staged: Sequence[StagedFile],
    token: WriteToken,
) -> Commit:
    """Do what `bring_in` does with a single look at the table, `look`, made under its lock."""
    with nullcontext() if lock is None else lock.held():
        session, choice = look()
        _refuse_global(choice)
        txn = session.begin(choice.operation, choice.write_id, looked_up=False, is_fresh=True)
    with txn:
        session.delete_leftovers()
        return _brought_in(txn, session, choice, _Staged(session, choice, staged), token)


def _refuse_global(choice: Choice) -> None:
    if choice.index.type.is_global:
        raise ConfigError(
            f"the data source does not look for keys in every partition, as {choice.index.type} "
            "wants it",
            next_step="write with Table.upsert, or choose another index",
        )


def _brought_in(
    txn: Transaction, session: WriteSession, choice: Choice, work: _Staged, token: WriteToken
) -> Commit:
    rings: Rings = {}
    if choice.operation in REPLACING:
        if choice.index.is_ring:
            rings = session.renewed_rings(choice.index, work.workload.partitions)
            work.placed(rings)
        plan, replaced = session.plan_overwrite(txn, choice, work.workload)
        profile = planned_partitions(work.workload, replaced)
    else:
        files = session.listed(work.partitions)
        workload = work.looked_up(txn, files)
        plan, replaced = session.plan(txn, choice, workload, files=files), {}
        profile = planned_stats(work.workload, plan)
    txn.start(profile)
    stats = work.write(txn, plan, token)
    return session.commit_replacing(
        txn,
        stats,
        choice.schema.avro,
        replaced,
        lambda gone: gone.forget_here(token),
        rings=rings,
    )


class _Staged:
    def __init__(self, session: WriteSession, choice: Choice, staged: Sequence[StagedFile]) -> None:
        self._session = session
        self._choice = choice
        self._storage = session.state.storage
        self._by_partition: dict[str, list[StagedFile]] = {}
        for file in staged:
            self._by_partition.setdefault(file.partition, []).append(file)
        self._found: dict[str, pa.Array] = {}
        self._chosen: dict[str, pa.Array] = {}
        """Which rows are written, where some are left out."""
        self.workload = self._counted()

    def _counted(self) -> Workload:
        counts: dict[tuple[str, str | None], int] = {}
        for partition in self._by_partition:
            groups = self._found.get(partition)
            if groups is None:
                groups = self._rows(partition).column(GROUP)
            for entry in groups.value_counts().to_pylist():
                if entry["values"] is None and self._choice.is_delete:
                    continue
                counts[partition, entry["values"]] = entry["counts"]
        return Workload(counts=counts)

    @property
    def partitions(self) -> list[str]:
        """Return the partitions that the rows belong to, sorted."""
        return sorted(self._by_partition)

    def looked_up(self, txn: Transaction, files: KnownFiles | None = None) -> Workload:
        """Find the file groups of keys, and count the rows anew; `files` are those there are."""
        index, operation = self._choice.index, self._choice.operation
        policy = self._session.options.insert_duplicates
        if operation in ADDING and policy is not DuplicatePolicy.NONE:
            self._leave_out_known(txn, policy, files)
        if index.is_ring:
            return self.placed(self._session.rings(index, self.partitions))
        if not index.is_bucket and operation in CHANGING:
            self._found = self._files(txn, files, revives=True)
        self.workload = self._counted()
        return self.workload

    def _files(
        self, txn: Transaction, files: KnownFiles | None, *, revives: bool
    ) -> dict[str, pa.Array]:
        live = self._session.live(txn, self.partitions, files)
        return {
            partition: self._files_of(
                partition, [g for g in live if g.id.partition == partition], revives=revives
            )
            for partition in self._by_partition
        }

    def _leave_out_known(
        self, txn: Transaction, policy: DuplicatePolicy, listed: KnownFiles | None
    ) -> None:
        """Leave out the rows of keys that the table has; raise `SchemaError` if that is asked."""
        for partition, files in self._files(txn, listed, revives=False).items():
            keys = self._rows(partition).column(RECORD_KEY)
            if policy is DuplicatePolicy.FAIL:
                clash = keys.filter(pc.is_valid(files)).to_pylist()
                counts = keys.value_counts().to_pylist()
                clash += [entry["values"] for entry in counts if entry["counts"] > 1]
                if clash:
                    raise known_key(clash[0])
            self._chosen[partition] = pc.is_null(files)

    def placed(self, rings: Rings) -> Workload:
        """Give every row the file group of its bucket, and count the rows anew."""
        for partition in self._by_partition:
            keys = self._rows(partition).column(RECORD_KEY).to_pylist()
            ids = file_ids(rings[partition], keys, self._choice.index.hash_fields)
            self._found[partition] = pa.array(ids, pa.string())
        self.workload = self._counted()
        return self.workload

    def _files_of(self, partition: str, live: Sequence[LiveGroup], *, revives: bool) -> pa.Array:
        state = self._session.state
        keys = pl.DataFrame({"key": pl.Series(self._rows(partition).column(RECORD_KEY))})
        if not live:
            # The first write of all has no schema yet by which it could look.
            return pa.nulls(len(keys), pa.string())
        spec = read_spec(state, self._session.schemas.table(), (RECORD_KEY,))
        tasks = slice_tasks(state, [g.slice for g in live])
        # A key that a log deleted is still the base file's, as every other writer sees it; but
        # where another file group has a row of that key, that row is meant.
        rows = ((task, read_slice(task, spec)) for task in tasks)
        bases = ((task, read_base(task, spec)) for task in tasks if task.log_paths and revives)
        known = [
            pl.DataFrame({"key": pl.Series(batch.column(0))})
            .join(keys, on="key", how="semi")
            .with_columns(file=pl.lit(task.file_id))
            for task, batches in chain(rows, bases)
            for batch in batches
        ]
        if not known:
            return pa.nulls(len(keys), pa.string())
        table = pl.concat(known).unique("key", keep="first", maintain_order=True)
        joined = keys.join(table, on="key", how="left", maintain_order="left")
        return _one(joined["file"].to_arrow().cast(pa.string()))

    def write(self, txn: Transaction, plan: WritePlan, token: WriteToken) -> list[WriteStat]:
        work = WriteWork(
            spec=replace(self._session.spec(txn, self._choice), waits=True),
            plan=plan,
            is_delete=self._choice.is_delete,
            is_sorted=False,
        )

        def one(at: int, partition: str) -> list[WriteStat]:
            own = WriteToken(task=at, stage=token.stage, attempt=token.attempt)
            parts = work.write(self._grouped(partition, plan), own)
            return [stat for part in parts for stat in part.stats]

        partitions = sorted(self._by_partition)
        with ThreadPoolExecutor(_WRITERS) as pool:
            made = pool.map(one, range(len(partitions)), partitions)
            return [stat for stats in made for stat in stats]

    def _grouped(self, partition: str, plan: WritePlan) -> Iterator[pa.RecordBatch]:
        rows = self._rows(partition)
        groups = self._found.get(partition)
        if groups is None:
            groups = _one(rows.column(GROUP))
        shares = plan.shares.get(partition, ())
        if shares:
            # Rows of one key go the same way, so that they meet before they are written.
            hashes = pl.Series(rows.column(RECORD_KEY)).hash().to_numpy()
            ends = np.cumsum([share.rows for share in shares])
            chosen = np.searchsorted(ends, hashes % max(1, int(ends[-1])), side="right")
            ids = pa.array([share.file_id for share in shares], pa.string())
            groups = pc.coalesce(groups, ids.take(pa.array(chosen)))
        at = rows.schema.get_field_index(GROUP)
        made = rows.set_column(at, pa.field(GROUP, pa.string()), groups)
        if self._choice.is_delete:
            made = made.filter(pc.is_valid(made.column(GROUP)))
        yield from made.combine_chunks().to_batches()

    def _rows(self, partition: str) -> pa.Table:
        contents = (
            file.content if file.path is None else self._storage.read(file.path)
            for file in self._by_partition[partition]
        )
        tables = [pa.ipc.open_stream(content).read_all() for content in contents]
        rows = pa.concat_tables(tables).combine_chunks()
        chosen = self._chosen.get(partition)
        return rows if chosen is None else rows.filter(chosen)


def _one(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    """Return a column as a single array."""
    made = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    return made.chunk(0) if isinstance(made, pa.ChunkedArray) else made
