"""Fold the logs of a file slice into a base file."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from tidelake.files.base_file import BaseFile
from tidelake.files.base_writer import BaseFileWriter
from tidelake.files.in_place import put_in_place
from tidelake.files.incoming import read_spec
from tidelake.files.layout import Layout
from tidelake.files.log_records import PlacedBlock, Share, decode_log, scan_logs
from tidelake.files.read_slice import Matcher, placed, row_keys
from tidelake.files.task import BlockFilter, ReadSpec, SliceTask
from tidelake.files.write_task import WriteSpec, WriteToken
from tidelake.formats.commit_metadata import WriteStat
from tidelake.formats.marker_name import MarkerKind
from tidelake.records.merge import Winners, meet, resolve
from tidelake.records.meta_columns import CONSTANT
from tidelake.records.schema import FILE_NAME, RECORD_KEY, conform, top_level
from tidelake.storage import Storage, open_storage


def compact_slice(
    task: SliceTask, token: WriteToken, spec: WriteSpec, blocks: BlockFilter
) -> WriteStat:
    """Write the merged rows of the slice to a base file of the spec's instant.

    Rows keep their order and all their meta columns save the file name: queries for what changed go
    by the commit that changed a row, and a compaction changes none. Logs larger than the budget are
    merged in several passes over the base file, each over the keys of one share.
    """
    storage = open_storage(spec.storage)
    reading = replace(read_spec(spec), blocks=blocks)
    found = scan_logs(storage, task, reading)
    with _Compaction(storage, task, token, spec, reading) as compaction:
        shares = max(1, -(-task.log_size_bytes // reading.log_budget_bytes))
        for index in range(shares):
            compaction.merge(found, Share(index, shares))
        return compaction.finish(len(found))


@dataclass(slots=True)
class _Counts:
    inserts: int = 0
    updates: int = 0
    deletes: int = 0
    log_rows: int = 0
    keys: int = 0


class _Compaction:
    def __init__(
        self,
        storage: Storage,
        task: SliceTask,
        token: WriteToken,
        spec: WriteSpec,
        reading: ReadSpec,
    ) -> None:
        self._storage = storage
        self._task = task
        self._reading = reading
        self._layout = Layout.of(reading)
        self._counts = _Counts()
        self._base: BaseFile | None = None
        self._dictionaries: frozenset[str] = frozenset()
        if task.base_path is not None:
            self._base = BaseFile(storage, task, reading, with_dictionaries=True)
            self._base.require(self._layout.keys.names)
            # Keys and ordering values are compared, for which a dictionary is in the way.
            compared = {RECORD_KEY, *top_level((*spec.keys.fields, *spec.merge.ordering_fields))}
            self._dictionaries = self._base.repetitive - compared
        self._writer = BaseFileWriter(
            storage,
            spec,
            token,
            partition=task.partition,
            file_id=task.file_id,
            kind=MarkerKind.CREATE if self._base is None else MarkerKind.MERGE,
            dictionaries=self._dictionaries,
        )

    def __enter__(self) -> _Compaction:
        return self

    def __exit__(self, *_: object) -> None:
        self._writer.close()

    def merge(self, found: Sequence[PlacedBlock], share: Share) -> None:
        """Write the rows whose keys belong to the share."""
        layout = self._layout
        log = decode_log(self._storage, found, self._reading, layout, share=share)
        winners = resolve(log, layout.merge)
        self._counts.log_rows += log.rows.num_rows
        self._counts.keys += len(winners)
        matcher = Matcher(winners)
        for table in self._base_batches(share):
            self._write(self._merged(table, matcher, winners))
        rows = winners.inserted(matcher.matched)
        self._counts.inserts += rows.num_rows
        self._write(placed(rows, self._task))

    def _base_batches(self, share: Share) -> Iterator[pa.Table]:
        if self._base is None:
            return
        for table in self._base.batches(self._taken()):
            if share.of == 1:
                yield table
            else:
                held = share.holds(row_keys(table, self._reading))
                yield table.filter(held.to_arrow())

    def _taken(self) -> pa.Schema:
        """Return the columns that come from the base file: all save the file name."""
        layout = self._layout
        return pa.schema(
            [
                pa.field(f.name, CONSTANT) if f.name in self._dictionaries else f
                for f in layout.with_rows(layout.keys, layout.ordering)
                if f.name != FILE_NAME
            ]
        )

    def _merged(self, table: pa.Table, matcher: Matcher, winners: Winners) -> pa.Table:
        positions, chosen = matcher.match(row_keys(table, self._reading))
        if not len(positions):
            return table
        layout = self._layout
        touched = table.take(pa.array(positions))
        before = conform(touched, layout.rows) if winners.needs_base_rows else None
        met = meet(winners, chosen, layout.ordering_of(touched), before)
        changed = positions[met.survives]
        kept = np.ones(table.num_rows, np.bool_)
        kept[positions[met.replaced & ~met.survives]] = False
        self._counts.updates += len(changed)
        self._counts.deletes += int(table.num_rows - kept.sum())
        return put_in_place(table, kept, changed, placed(met.rows, self._task))

    def _write(self, rows: pa.Table) -> None:
        if rows.num_rows:
            self._writer.write_stamped(rows)

    def finish(self, log_blocks: int) -> WriteStat:
        """Return what Hudi records of the new base file."""
        task, counts = self._task, self._counts
        replaces = None
        if task.base_instant is not None:
            replaces = (task.base_instant, task.base_name)
        stat = self._writer.finish(
            inserts=counts.inserts,
            updates=counts.updates,
            deletes=counts.deletes,
            replaces=replaces,
        )
        return replace(
            stat,
            total_log_records=counts.log_rows,
            total_updated_records_compacted=counts.keys,
            total_log_files_compacted=len(task.log_paths),
            total_log_size_compacted=task.log_size_bytes,
            total_log_blocks=log_blocks,
        )
