"""The changes that one write made to one file group, as rows before and after."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import zip_longest

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidelake.errors import Malformed, reading
from tidelake.files.layout import Layout, as_series
from tidelake.files.log_records import decode_log, raw_records, scan_logs
from tidelake.files.read_slice import Matcher, merged_tables, row_keys
from tidelake.files.task import ReadSpec, SliceTask
from tidelake.formats.log_block import BlockKind, LogBlock, decode_blocks
from tidelake.model import MergeMode, Word
from tidelake.records import late_columns as late
from tidelake.records._polars import polars as pl
from tidelake.records.merge import Rows, meet, resolve
from tidelake.records.schema import Source, arrow_schema, conform
from tidelake.records.schema_versions import column_sources
from tidelake.storage import Storage, open_storage

_KEY = "record_key"


class ChangeKind(Word):
    """Where the changes of a write are found."""

    LOGGED = "logged"
    """The writer kept them in `.cdc` files; what those leave out lies in the two slices."""
    INSERTED = "inserted"
    """Every row after the write is new."""
    DELETED = "deleted"
    """Every row before the write is gone."""
    APPENDED = "appended"
    """The write added log files (`after`) to the slice `before`."""
    COMPACTED = "compacted"
    """The slice `whole` took the place of `before`, beside logs (`after`) that came meanwhile."""


class ChangePart(Word):
    """Which changes of a write to a file group are wanted."""

    ALL = "all"
    DELETES = "deletes"
    OTHERS = "others"


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeTask:
    """One write to one file group, and the slices on both sides of it as far as they are needed.

    `whole` is the slice that logs were added to, with them; without it they come after all that is
    in `before`. `cdc_bytes` are the sizes of the files at `cdc_paths` as the write recorded them,
    which it did once they were whole.
    """

    kind: ChangeKind
    part: ChangePart = ChangePart.ALL
    instant_time: str
    before: SliceTask | None = None
    after: SliceTask | None = None
    whole: SliceTask | None = None
    cdc_paths: tuple[str, ...] = ()
    cdc_bytes: tuple[int, ...] = ()


def change_schema(spec: ReadSpec) -> pa.Schema:
    """Return the columns of changes: `op`, `ts_ms`, and `before` and `after` as structs."""
    image = pa.struct(list(arrow_schema(spec.schema, spec.columns)))
    return pa.schema(
        [("op", pa.string()), ("ts_ms", pa.string()), ("before", image), ("after", image)]
    )


def read_changes(task: ChangeTask, spec: ReadSpec) -> Iterator[pa.RecordBatch]:
    """Return the changes of the write; images hold the columns `spec.columns`."""
    storage = open_storage(spec.storage)
    made = _Changes(storage, task, spec)
    if task.kind is ChangeKind.LOGGED:
        tables = made.logged()
    elif task.kind is ChangeKind.APPENDED:
        tables = made.appended()
    elif task.kind is ChangeKind.COMPACTED:
        tables = made.compacted()
    else:
        tables = made.whole()
    for table in tables:
        wanted = _part(table, task.part)
        yield from (b for b in wanted.combine_chunks().to_batches() if b.num_rows)


class _Changes:
    """The changes of one task, by where they are found."""

    def __init__(self, storage: Storage, task: ChangeTask, spec: ReadSpec) -> None:
        self._storage = storage
        self._task = task
        self._spec = spec
        plain = Layout.of(spec)
        # Rows are looked up and compared, so they carry what that takes besides the image.
        carried = dict.fromkeys((*spec.columns, *plain.keys.names, *plain.ordering.names))
        self._carrying = replace(spec, columns=tuple(carried), keep_instants=None)
        self._layout = Layout.of(self._carrying)
        self._schema = change_schema(spec)

    def whole(self) -> Iterator[pa.Table]:
        """Return every row of the one slice, inserted or deleted."""
        inserted = self._task.kind is ChangeKind.INSERTED
        for rows in self._rows(self._task.after if inserted else self._task.before):
            if inserted:
                yield self._table("i", None, rows)
            else:
                yield self._table("d", rows, None)

    def appended(self) -> Iterator[pa.Table]:
        """Return what the records of the appended log files did to the rows before them."""
        after = self._task.after
        found = () if after is None else scan_logs(self._storage, after, self._carrying)
        blocks = [
            placed for placed in found if placed.block.instant_time == self._task.instant_time
        ]
        winners = resolve(
            decode_log(self._storage, blocks, self._carrying, self._layout), self._layout.merge
        )
        whole = self._whole()
        if whole is not None and self._depends_on_logs(whole, winners.keys):
            yield self._compared(winners.keys, whole)
            return
        matcher = Matcher(winners)
        for rows in self._rows(self._task.before):
            positions, chosen = matcher.match(row_keys(rows, self._carrying))
            old = rows.take(pa.array(positions))
            met = meet(winners, chosen, self._layout.ordering_of(old), old)
            gone = met.replaced & ~met.survives
            yield self._table("u", old.filter(pa.array(met.survives)), met.rows)
            yield self._table("d", old.filter(pa.array(gone)), None)
        yield self._table("i", None, winners.inserted(matcher.matched))

    def compacted(self) -> Iterator[pa.Table]:
        """Return what a compaction did to the rows whose keys came in logs meanwhile."""
        after, whole = self._task.after, self._task.whole
        assert after is not None
        assert whole is not None
        blocks = scan_logs(self._storage, after, self._carrying)
        records = decode_log(self._storage, blocks, self._carrying, self._layout)
        yield self._compared(resolve(records, self._layout.merge).keys, whole)

    def _whole(self) -> SliceTask | None:
        """Return the slice with the logs that were appended to it."""
        before, after = self._task.before, self._task.after
        if self._task.whole is not None or before is None or after is None:
            return self._task.whole or after
        return _appended(before, after)

    def _depends_on_logs(self, whole: SliceTask, keys: pl.Series) -> bool:
        """Return whether the rows of `keys` depend on each record of `whole`, and not on two sides.

        The logs of a slice merge among themselves first, and with the base file after that. So a
        record that lost against a delete, or that a delete took away, may come back with a later
        one (docs/decisions/0008), and so may a column.
        """
        merge = self._layout.merge
        before, after = self._task.before, self._task.after
        held = () if before is None else before.log_paths
        own = () if after is None else after.log_paths
        if whole.log_paths != (*held, *own):
            return True  # others completed earlier, and come later
        blocks = scan_logs(self._storage, whole, self._carrying)
        if late.merges_by_column(merge) and any(placed.block.is_partial for placed in blocks):
            return True
        if not held or (merge.mode is MergeMode.COMMIT_TIME and not merge.takes_columns):
            return False
        if merge.takes_columns:
            return True
        older = [placed for placed in blocks if placed.path in set(held)]
        records = decode_log(self._storage, older, self._carrying, self._layout)
        deleted = records.keys.filter(pl.Series(records.is_delete))
        return bool(keys.is_in(deleted.implode()).any())

    def _compared(self, keys: pl.Series, whole: SliceTask) -> pa.Table:
        """Return how the rows of `keys` differ between the slice before the write and `whole`.

        A late record brings single columns, which only all records of the slice together tell.
        """
        before = self._look_up(self._task.before, keys).combine_chunks()
        after = self._look_up(whole, keys).combine_chunks()
        images = zip(before.to_pylist(), after.to_pylist(), strict=True)
        ops = [
            None if old == new else "i" if old is None else "d" if new is None else "u"
            for old, new in images
        ]
        kept = pa.array([op is not None for op in ops])
        return self._changes(
            pa.chunked_array([pa.array(ops, pa.string()).filter(kept)]),
            _chunked(before.filter(kept)),
            _chunked(after.filter(kept)),
        )

    def logged(self) -> Iterator[pa.Table]:
        """Return the changes that the writer logged."""
        for path, committed in zip_longest(self._task.cdc_paths, self._task.cdc_bytes):
            with reading(path):
                data = self._storage.read(path)
                if committed is not None and len(data) != committed:
                    raise Malformed(
                        f"the file has {len(data)} bytes, and its commit wrote {committed}"
                    )
                for block in decode_blocks(data):
                    if block.kind is BlockKind.CORRUPT:
                        raise Malformed(f"no block stands at offset {block.offset}: {block.damage}")
                    if block.kind is BlockKind.CDC_DATA:
                        yield self._logged_block(block)

    def _logged_block(self, block: LogBlock) -> pa.Table:
        raw = raw_records(block)
        names = set(raw.column_names)
        if "op" not in names or not ({_KEY, "after"} & names):
            raise Malformed(f"the change block at offset {block.offset} has other columns")
        op = raw.column("op")
        history = self._spec.history
        sources = None if history is None else column_sources(history, block.instant_time)
        images = []
        for side, task, absent in (
            ("before", self._task.before, "i"),
            ("after", self._task.after, "d"),
        ):
            if side in names:
                images.append(self._logged_image(raw, side, sources))
            else:
                wanted = pc.if_else(pc.equal(op, absent), None, raw.column(_KEY))
                image = self._look_up(task, as_series(wanted))
                if image.null_count > wanted.null_count:
                    raise Malformed(
                        f"the change block at offset {block.offset} has keys whose row {side} the "
                        "write is in no file"
                    )
                images.append(image)
        return self._changes(op, *images)

    def _logged_image(
        self, raw: pa.Table, side: str, sources: Mapping[str, Source] | None
    ) -> pa.ChunkedArray:
        target = self._schema.field(side)
        inner = None if sources is None else {side: Source(side, sources)}
        return conform(raw.select([side]), pa.schema([target]), inner).column(0)

    def _look_up(self, task: SliceTask | None, keys: pl.Series) -> pa.ChunkedArray:
        """Return the image of each key in the slice, null for a key it does not hold."""
        found = np.full(len(keys), -1, np.int64)
        index = pl.DataFrame({"key": keys, "at": np.arange(len(keys), dtype=np.int64)})
        tables = [self._layout.rows.empty_table()]
        count = 0
        for rows in self._rows(task):
            here = pl.DataFrame({"key": row_keys(rows, self._carrying)}).with_row_index("position")
            joined = here.join(index, on="key", how="inner")
            taken = joined["position"].to_numpy().astype(np.int64)
            tables.append(rows.take(pa.array(taken)))
            found[joined["at"].to_numpy()] = count + np.arange(len(taken))
            count += len(taken)
        return self._image(pa.concat_tables(tables), found)

    def _rows(self, task: SliceTask | None) -> Iterator[pa.Table]:
        if task is not None:
            yield from merged_tables(self._storage, task, self._carrying, self._layout)

    def _table(self, op: str, before: pa.Table | None, after: pa.Table | None) -> pa.Table:
        rows = before if before is not None else after
        count = 0 if rows is None else rows.num_rows
        return self._changes(
            pa.chunked_array([pa.repeat(pa.scalar(op), count)]),
            self._side(before, count),
            self._side(after, count),
        )

    def _side(self, rows: pa.Table | None, count: int) -> pa.ChunkedArray:
        if rows is None:
            return pa.chunked_array([pa.nulls(count, self._schema.field("before").type)])
        return self._image(rows, np.arange(count, dtype=np.int64))

    def _image(self, rows: pa.Table, at: Rows) -> pa.ChunkedArray:
        """Return the rows `at` as structs, null where `at` is negative."""
        taken = rows.select(list(self._spec.columns)).combine_chunks()
        taken = taken.take(pa.array(at, mask=at < 0)).combine_chunks()
        kind = self._schema.field("before").type
        columns = [
            column.chunk(0) if column.num_chunks else pa.nulls(0, column.type)
            for column in taken.columns
        ]
        made = pa.StructArray.from_arrays(columns, fields=list(kind), mask=pa.array(at < 0))
        return pa.chunked_array([made])

    def _changes(
        self, op: pa.ChunkedArray, before: pa.ChunkedArray, after: pa.ChunkedArray
    ) -> pa.Table:
        times = pa.repeat(pa.scalar(self._task.instant_time), len(op))
        return pa.Table.from_arrays([op, times, before, after], schema=self._schema)


def _part(changes: pa.Table, part: ChangePart) -> pa.Table:
    if part is ChangePart.ALL:
        return changes
    is_delete = pc.equal(changes.column("op"), "d")
    return changes.filter(is_delete if part is ChangePart.DELETES else pc.invert(is_delete))


def _appended(before: SliceTask, after: SliceTask) -> SliceTask:
    """Return the slice before a write with the logs that the write appended."""
    known = before.committed_log_bytes or (None,) * len(before.log_paths)
    return replace(
        before,
        log_paths=before.log_paths + after.log_paths,
        log_size_bytes=before.log_size_bytes + after.log_size_bytes,
        committed_log_bytes=known + (after.committed_log_bytes or (None,) * len(after.log_paths)),
        archived_instants=before.archived_instants | after.archived_instants,
    )


def _chunked(values: pa.Array | pa.ChunkedArray) -> pa.ChunkedArray:
    return values if isinstance(values, pa.ChunkedArray) else pa.chunked_array([values])
