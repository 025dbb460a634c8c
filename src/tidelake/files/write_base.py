"""Rows into base files: of new file groups, or as the next version of a base file."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
import pyarrow as pa

from tidelake.files.base_file import BaseFile
from tidelake.files.base_writer import BaseFileWriter, stamped
from tidelake.files.change_log import ChangeLog
from tidelake.files.in_place import put_in_place
from tidelake.files.incoming import (
    Incoming,
    all_incoming,
    combined,
    distinct,
    each_incoming,
    identity,
    read_spec,
)
from tidelake.files.layout import Layout
from tidelake.files.read_slice import row_keys
from tidelake.files.task import ReadSpec, SliceTask
from tidelake.files.write_task import GroupTarget, WriteSpec, WriteToken
from tidelake.formats.commit_metadata import WriteStat
from tidelake.formats.marker_name import MarkerKind
from tidelake.records._polars import polars as pl
from tidelake.records.merge import Met, Rows, Winners, meet
from tidelake.records.meta_columns import CONSTANT
from tidelake.records.required import require_values
from tidelake.records.schema import FILE_NAME, RECORD_KEY, SEQUENCE_NUMBER, conform, top_level
from tidelake.storage import Storage


def create_base(
    storage: Storage,
    batches: Iterable[pa.RecordBatch],
    target: GroupTarget,
    token: WriteToken,
    spec: WriteSpec,
) -> list[WriteStat]:
    """Write the rows to base files of new file groups; rows that are deletes are left out.

    Without `combine` the rows are streamed. No file is made for no row.
    """
    stats: list[WriteStat] = []
    layout = Layout.of(read_spec(spec))
    limit = spec.parquet.max_file_size_bytes if target.rolls else None
    writer: BaseFileWriter | None = None
    dropped = 0
    # A file of inserts is told by its counts, and a delete of what never was is no change.
    counts_deletes = spec.cdc is None
    try:
        for new in _rows_to_create(batches, layout, spec):
            rows = new.rows.filter(pa.array(~new.is_delete)) if new.is_delete.any() else new.rows
            dropped += (len(new) - rows.num_rows) if counts_deletes else 0
            row_bytes = rows.nbytes // max(1, rows.num_rows)
            at = 0
            while at < rows.num_rows:
                if writer is None:
                    writer = BaseFileWriter(
                        storage,
                        spec,
                        token,
                        partition=target.partition,
                        file_id=_rolled(target.file_id, len(stats)),
                        kind=MarkerKind.CREATE,
                        size_limit_bytes=limit,
                    )
                count = rows.num_rows if limit is None else writer.rows_to_flush(row_bytes)
                piece = rows.slice(at, count)
                writer.write_new(piece)
                at += piece.num_rows
                if writer.is_full:
                    stats.append(writer.finish(inserts=writer.row_count, deletes=dropped))
                    writer, dropped = None, 0
        if writer is not None:
            stats.append(writer.finish(inserts=writer.row_count, deletes=dropped))
    finally:
        if writer is not None:
            writer.close()
    return stats


def _rows_to_create(
    batches: Iterable[pa.RecordBatch], layout: Layout, spec: WriteSpec
) -> Iterator[Incoming]:
    if not spec.combine:
        yield from each_incoming(batches, layout, spec.column_sets)
        return
    new = all_incoming(batches, layout, spec.column_sets)
    if new is not None:
        yield distinct(new, layout)


def _rolled(file_id: str, files_before: int) -> str:
    """Return the id of the file group that follows after `files_before` full files."""
    return file_id if not files_before else f"{file_id.removesuffix('-0')}-{files_before}"


def merge_base(
    storage: Storage,
    batches: Iterable[pa.RecordBatch],
    target: GroupTarget,
    token: WriteToken,
    spec: WriteSpec,
) -> list[WriteStat]:
    """Write the next version of the target's base file, with the rows merged into it.

    The base file is streamed, the incoming rows are held. Rows that nothing changes keep their
    meta columns save for the file name. Every base row with a key meets the row that has it, so
    that a delete takes away all that an insert without deduplication left; but rows that were read
    from the table meet the row alone that they were. Where changes are
    logged, rows that change nothing leave the base file as it is.
    """
    reading = read_spec(spec)
    layout = Layout.of(reading)
    new = all_incoming(batches, layout, spec.column_sets)
    if new is None:
        return []
    winners = combined(new, layout)
    with _NextVersion(storage, target, token, spec, reading) as version:
        version.merge(winners, layout, by_row=new.became is not None)
        return version.finish()


def concat_base(
    storage: Storage,
    batches: Iterable[pa.RecordBatch],
    target: GroupTarget,
    token: WriteToken,
    spec: WriteSpec,
) -> list[WriteStat]:
    """Write the next version of the target's base file, with the rows put behind those it has."""
    reading = read_spec(spec)
    layout = Layout.of(reading)
    with _NextVersion(storage, target, token, spec, reading) as version:
        version.copy(layout)
        for new in _rows_to_create(batches, layout, spec):
            rows = new.rows.filter(pa.array(~new.is_delete)) if new.is_delete.any() else new.rows
            version.insert(rows)
        return version.finish()


class _NextVersion:
    """A base file that replaces another one of its group."""

    def __init__(
        self,
        storage: Storage,
        target: GroupTarget,
        token: WriteToken,
        spec: WriteSpec,
        reading: ReadSpec,
    ) -> None:
        assert target.base_path is not None
        assert target.base_instant is not None
        task = SliceTask(
            partition=target.partition,
            file_id=target.file_id,
            base_path=target.base_path,
            base_instant=target.base_instant,
        )
        self._base = BaseFile(storage, task, reading, with_dictionaries=True)
        # Keys and ordering values are compared, for which a dictionary is in the way.
        compared = {
            RECORD_KEY,
            SEQUENCE_NUMBER,
            *top_level((*spec.keys.fields, *spec.merge.ordering_fields)),
        }
        self._dictionaries = self._base.repetitive - compared
        self._replaces = (target.base_instant, task.base_name)
        self._target = target
        self._token = token
        self._spec = spec
        self._reading = reading
        self._writer = BaseFileWriter(
            storage,
            spec,
            token,
            partition=target.partition,
            file_id=target.file_id,
            kind=MarkerKind.MERGE,
            dictionaries=self._dictionaries,
        )
        self._inserts = self._updates = self._deletes = 0
        self._storage = storage
        self._changes = None if spec.cdc is None else ChangeLog(spec, spec.cdc)

    def __enter__(self) -> _NextVersion:
        return self

    def __exit__(self, *_: object) -> None:
        self._writer.close()

    def _taken(self, schema: pa.Schema) -> pa.Schema:
        """Return the columns that come from the base file: all save the file name."""
        return pa.schema(
            [
                pa.field(f.name, CONSTANT) if f.name in self._dictionaries else f
                for f in schema
                if f.name != FILE_NAME
            ]
        )

    def copy(self, layout: Layout) -> None:
        for table in self._base.batches(self._taken(layout.rows)):
            self._writer.write_stamped(table)

    def insert(self, rows: pa.Table) -> None:
        if rows.num_rows:
            self._writer.write_new(rows)
            self._inserts += rows.num_rows
            if self._changes is not None:
                self._changes.inserted(rows)

    def merge(self, winners: Winners, layout: Layout, *, by_row: bool) -> None:
        self._base.require(layout.keys.names)
        matched = np.zeros(len(winners), np.bool_)
        index = pl.DataFrame({"key": winners.keys, "winner": np.arange(len(winners))})
        kept = self._taken(layout.rows)
        schema = self._taken(layout.with_rows(layout.keys, layout.ordering))
        for table in self._base.batches(schema):
            keys = row_keys(table, self._reading)
            found = (
                pl.DataFrame(
                    {"key": identity(keys, table.column(SEQUENCE_NUMBER)) if by_row else keys}
                )
                .with_row_index("position")
                .join(index, on="key", how="inner")
                .sort("position")
            )
            positions = found["position"].to_numpy().astype(np.int64)
            chosen = found["winner"].to_numpy().astype(np.int64)
            matched[chosen] = True
            rows = table.select(kept.names)
            if len(positions):
                touched = table.take(pa.array(positions))
                before = conform(touched, layout.rows)
                met = meet(winners, chosen, layout.ordering_of(touched), before)
                if self._changes is not None:
                    self._changes.changed(before, keys.gather(positions).to_arrow(), met)
                rows = self._changed(rows, positions, met)
            self._writer.write_stamped(rows)
        self.insert(winners.inserted(matched))

    def _changed(self, rows: pa.Table, positions: Rows, met: Met) -> pa.Table:
        """Return the rows of a batch without those deleted, and with the changed ones in place."""
        gone = positions[met.replaced & ~met.survives]
        changed = positions[met.survives]
        kept = np.ones(rows.num_rows, np.bool_)
        kept[gone] = False
        self._updates += len(changed)
        self._deletes += len(gone)
        if not len(changed):
            return rows.filter(pa.array(kept))
        require_values(met.rows, self._spec.schema)
        numbers = self._writer.row_count + np.cumsum(kept)[changed] - 1
        fresh = stamped(met.rows, numbers, self._spec, self._token, self._target.partition)
        return put_in_place(rows, kept, changed, fresh)

    def finish(self) -> list[WriteStat]:
        changes = None
        if self._changes is not None:
            if not (self._inserts or self._updates or self._deletes):
                # Readers of changes take a new version without a change log for an error.
                self._writer.discard()
                return []
            changes = self._changes.write(
                self._storage, self._target, self._token, rows_left=self._writer.row_count
            )
        stat = self._writer.finish(
            inserts=self._inserts,
            updates=self._updates,
            deletes=self._deletes,
            replaces=self._replaces,
            changes=changes,
        )
        return [stat]
