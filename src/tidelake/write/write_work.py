"""What a task of a write does: batches of rows in, written files and their stats out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby, pairwise

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidelake.env import Ids, RandomIds
from tidelake.errors import InputChangedError
from tidelake.files.record_index import KeysOfGroup, write_index_logs
from tidelake.files.write_group import write_group
from tidelake.files.write_task import (
    CHANGE,
    CHECK,
    COLUMNS,
    GROUP,
    PLACE,
    Change,
    GroupTarget,
    WriteKind,
    WriteSpec,
    WriteToken,
)
from tidelake.formats.commit_metadata import WriteStat
from tidelake.records.schema import PARTITION_PATH, RECORD_KEY
from tidelake.storage import open_storage
from tidelake.write.index import bucket_file_id
from tidelake.write.plan import NewGroups, Workload, WritePlan

Batches = Iterator[pa.RecordBatch]
#: Partition and group of a run of rows.
At = tuple[str, "str | None"]

#: Rows of several partitions are held back until they make this many bytes.
_HELD_BYTES = 256 << 20
#: Rows are put in order of their partition in pieces of this size.
_PIECE_BYTES = 64 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """What became of some rows of a write."""

    stats: tuple[WriteStat, ...]
    rows: int
    checksum: int

    @property
    def content(self) -> str:
        """Return the same of the rows as `Workload.content`."""
        return Workload(counts={("", None): self.rows}, checksum=self.checksum).content


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteWork:
    """What a task is told besides its rows: where they go, and how files are written.

    Without `plan` every partition gets new file groups. `is_sorted` promises that rows of one
    partition and group follow each other. `key_column` holds the record keys of rows that come
    without a column of their own for them, and `places` are partitions and groups by their numbers.
    With `forgets_deleted` keys of rows that are deletes are gone from the whole table.
    """

    spec: WriteSpec
    plan: WritePlan | None
    is_delete: bool = False
    forgets_deleted: bool = False
    is_sorted: bool = True
    key_column: str | None = None
    places: Mapping[int, At] = field(default_factory=dict)
    known_partitions: frozenset[str] = frozenset()

    def write(self, batches: Iterable[pa.RecordBatch], token: WriteToken) -> Iterator[Written]:
        """Write the rows of one task, and say for each file group what was done."""
        task = _Task(self, token)
        whole = self.plan is not None
        parts: Iterable[tuple[At, pa.RecordBatch]]
        if self.places:
            parts = placed_runs(batches, self.places)
        else:
            parts = runs(batches) if self.is_sorted else gathered(batches, whole=whole)
        for (partition, group), pieces in groupby(parts, key=lambda part: part[0]):
            yield task.write(partition, group, (piece for _, piece in pieces))
        if task.index and self.spec.record_index is not None:
            storage = open_storage(self.spec.storage)
            logs = tuple(write_index_logs(storage, self.spec.record_index, token, task.index))
            yield Written(stats=logs, rows=0, checksum=0)


@dataclass(slots=True)
class _Task:
    work: WriteWork
    token: WriteToken
    keys_made: int = 0
    ids: RandomIds = field(default_factory=RandomIds)
    index: list[KeysOfGroup] = field(default_factory=list)
    """What the record index is to learn of this task."""

    def write(self, partition: str, group: str | None, pieces: Iterable[pa.RecordBatch]) -> Written:
        counted = _Counted(self._completed(pieces, self._change(partition, group)))
        target = self._target(partition, group)
        stats: Sequence[WriteStat] = ()
        if target is not None:
            stats = write_group(counted, target, self.token, self.work.spec)
        for _ in counted:
            pass
        if self.work.spec.record_index is not None:
            stats = [self._indexed(stat) for stat in stats]
        return Written(stats=tuple(stats), rows=counted.rows, checksum=counted.check)

    def _indexed(self, stat: WriteStat) -> WriteStat:
        """Remember the keys of a file, which do not leave the task."""
        if stat.new_keys is not None:
            self.index.append(KeysOfGroup(stat.partition_path or "", stat.file_id, stat.new_keys))
        return replace(stat, new_keys=None, is_indexed=True)

    def _target(self, partition: str, group: str | None) -> GroupTarget | None:
        plan = self.work.plan
        if plan is None or group is None:
            return GroupTarget(
                partition=partition,
                file_id=f"{self.ids.new()}-0",
                kind=WriteKind.CREATE,
                rolls=True,
                partition_known=partition in self.work.known_partitions,
            )
        return planned_target(plan, partition, group, self.ids)

    def _change(self, partition: str, group: str | None) -> Change:
        if self.work.is_delete:
            return Change.DELETE
        plan = self.work.plan
        known = None if plan is None or group is None else plan.targets.get((partition, group))
        return Change.INSERT if known is None or known.kind is WriteKind.CREATE else Change.UPDATE

    def _completed(self, pieces: Iterable[pa.RecordBatch], change: Change) -> Batches:
        """Add what the rows do not bring: what they do, and keys where the table makes them up."""
        for piece in pieces:
            made = piece
            if self.work.key_column is not None:
                made = _with(made, RECORD_KEY, piece.column(self.work.key_column))
            keys = made.column(RECORD_KEY)
            if keys.null_count:
                if self.work.spec.keys.fields:
                    raise _changed_rows("record key")
                made = _with(made, RECORD_KEY, pc.coalesce(keys, self._new_keys(len(keys))))
            if self.work.spec.column_sets and COLUMNS not in piece.schema.names:
                first = pa.scalar(0, pa.int32())
                made = _with(made, COLUMNS, pa.repeat(first, len(piece)))
            if self.work.spec.record_index is not None:
                self._forget(made)
            if CHANGE not in piece.schema.names:
                made = _with(made, CHANGE, pa.repeat(pa.scalar(int(change), pa.int8()), len(piece)))
            yield made

    def _forget(self, piece: pa.RecordBatch) -> None:
        gone = piece.column(piece.schema.get_field_index(RECORD_KEY))
        if not self.work.is_delete:
            if not self.work.forgets_deleted or CHANGE not in piece.schema.names:
                return
            gone = gone.filter(pc.equal(piece.column(CHANGE), int(Change.DELETE)))
        if len(gone):
            self.index.append(KeysOfGroup("", None, gone))

    def _new_keys(self, count: int) -> pa.Array:
        numbers = pa.array(np.arange(self.keys_made, self.keys_made + count))
        self.keys_made += count
        prefix = f"{self.work.spec.instant_time}_{self.token.task}_"
        return pc.binary_join_element_wise(prefix, numbers.cast(pa.string()), "")


class _Counted:
    """Batches, counted as they pass; what a writer leaves can be drawn off afterwards."""

    def __init__(self, batches: Batches) -> None:
        self._batches = batches
        self.rows = 0
        self.check = 0

    def __iter__(self) -> Batches:
        for batch in self._batches:
            self.rows += len(batch)
            at = batch.schema.get_field_index(CHECK)
            if at >= 0 and len(batch):
                self.check ^= int(np.bitwise_xor.reduce(batch.column(at).to_numpy()))
            yield batch


def _changed_rows(part: str) -> InputChangedError:
    """Return the error for a row that was not there when the rows were looked at."""
    return InputChangedError(
        f"a row without a {part} came up when the DataFrame was run again",
        next_step="make it give the same rows each time, such as by writing them to files first; "
        "the table is as it was",
    )


def planned_target(plan: WritePlan, partition: str, group: str, ids: Ids) -> GroupTarget | None:
    """Return the file group that the plan has for rows of a group, or None."""
    known = plan.targets.get((partition, group))
    if known is not None or plan.new_buckets is None or plan.new_buckets.kind is None:
        return known
    is_known = partition in plan.known_partitions
    return _new_bucket(plan.new_buckets, partition, group, ids.new(), is_known=is_known)


def _new_bucket(
    new: NewGroups, partition: str, group: str, new_id: str, *, is_known: bool
) -> GroupTarget:
    """Return the file group of a bucket that has none; `new_id` is fresh."""
    is_number = len(group) == 8 and group.isdigit()
    file_id = new.renewed.get((partition, group), group)
    if is_number and file_id == group:
        file_id = bucket_file_id(int(group), new_id, fixed=new.fixed_ids)
    return GroupTarget(
        partition=partition,
        file_id=file_id,
        kind=new.kind or WriteKind.CREATE,
        partition_known=is_known,
    )


def runs(batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[At, pa.RecordBatch]]:
    """Cut batches where the partition or the group changes."""
    for batch in batches:
        if not len(batch):
            continue
        codes = _codes(batch)
        cuts = [0, *(np.flatnonzero(np.diff(codes)) + 1).tolist(), len(batch)]
        for start, end in pairwise(cuts):
            yield _at(batch, start), batch.slice(start, end - start)


def placed_runs(
    batches: Iterable[pa.RecordBatch], places: Mapping[int, At]
) -> Iterator[tuple[At, pa.RecordBatch]]:
    """Cut batches whose rows have the number of their partition and group where that changes.

    Raises `InputChangedError` for a row that has none.
    """
    for batch in batches:
        if not len(batch):
            continue
        numbers = batch.column(PLACE)
        if numbers.null_count:
            raise InputChangedError(
                f"the DataFrame gave {numbers.null_count} rows of partitions or buckets of which "
                "it gave none when it was run before",
                next_step="make it give the same rows each time, such as by writing them to files "
                "first; the table is as it was",
            )
        codes = numbers.to_numpy()
        cuts = [0, *(np.flatnonzero(np.diff(codes)) + 1).tolist(), len(batch)]
        for start, end in pairwise(cuts):
            yield places[int(codes[start])], batch.slice(start, end - start)


def gathered(
    batches: Iterable[pa.RecordBatch], *, whole: bool
) -> Iterator[tuple[At, pa.RecordBatch]]:
    """Bring rows of the same partition and group together.

    Unless `whole`, a group may come up more than once: rows are held until they make a file.
    """
    held: dict[At, list[pa.RecordBatch]] = {}
    sizes: dict[At, int] = {}
    piece: list[pa.RecordBatch] = []
    piece_bytes = 0

    def arrange() -> None:
        table = pa.Table.from_batches(piece).combine_chunks()
        for batch in table.to_batches():
            order = np.argsort(_codes(batch), kind="stable")
            ordered = batch.take(pa.array(order))
            for at, part in runs([ordered]):
                held.setdefault(at, []).append(part)
                sizes[at] = sizes.get(at, 0) + part.nbytes

    for batch in batches:
        if not len(batch):
            continue
        piece.append(batch)
        piece_bytes += batch.nbytes
        if piece_bytes >= _PIECE_BYTES and not whole:
            arrange()
            piece, piece_bytes = [], 0
            while sum(sizes.values()) > _HELD_BYTES:
                largest = max(sizes, key=lambda at: sizes[at])
                del sizes[largest]
                yield from ((largest, part) for part in held.pop(largest))
    if piece:
        arrange()
    for at in sorted(held, key=lambda at: (at[0], at[1] or "")):
        yield from ((at, part) for part in held[at])


def _codes(batch: pa.RecordBatch) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """Return a number for each row that tells apart partitions and groups inside the batch."""
    made = np.zeros(len(batch), np.int64)
    for name in (PARTITION_PATH, GROUP):
        at = batch.schema.get_field_index(name)
        if at < 0:
            continue
        coded = batch.column(at).dictionary_encode(null_encoding="encode")
        made = made * (len(coded.dictionary) + 1) + coded.indices.to_numpy(zero_copy_only=False)
    return made


def _at(batch: pa.RecordBatch, row: int) -> At:
    group = batch.schema.get_field_index(GROUP)
    path = batch.column(batch.schema.get_field_index(PARTITION_PATH))[row].as_py()
    if path is None:
        raise _changed_rows("partition path")
    return path, None if group < 0 else batch.column(group)[row].as_py()


def _with(batch: pa.RecordBatch, name: str, column: pa.Array) -> pa.RecordBatch:
    columns: Mapping[str, pa.Array] = dict(zip(batch.schema.names, batch.columns, strict=True))
    return pa.RecordBatch.from_pydict({**columns, name: column})
