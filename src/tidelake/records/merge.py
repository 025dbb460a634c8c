"""Merging, for whole columns at once: which record of a key wins, and what it takes from the loser.

Records of one key are merged in their order, as Hudi does it; what runs at once is the k-th record
of every key. Columns that come from different records are tracked as row numbers and gathered last.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tidelake.model import MergeMode
from tidelake.records import late_columns as late
from tidelake.records._polars import polars as pl
from tidelake.records.late_columns import LateColumns
from tidelake.records.merge_spec import Fill, MergeSpec
from tidelake.records.schema import META_COLUMNS

Flags = npt.NDArray[np.bool_]
Rows = npt.NDArray[np.int64]
#: A column of a record that has no value of its own: what the record is merged into may have one.
_OPEN = -1
#: The same of a record that came after a delete, with which all older values went.
_GONE = -2
#: The values of each ordering field.
Ordering: TypeAlias = "tuple[pl.Series, ...]"
#: A text ordering value of MySQL: the number of a file, and a position in it.
BINLOG = r"(\d+)\.(\d+)$"


@dataclass(slots=True, kw_only=True)
class LogRecords:
    """The records of a slice's logs as parallel columns, in merge order.

    `keys` are record keys, or row numbers in the base file. `by_arrival` marks deletes that came
    without an ordering value. `row` says where a record lies in `rows`, -1 for an entry of a delete
    block. `absent` marks, for each column, the rows of partial records that do not have it.
    """

    keys: pl.Series
    is_delete: Flags
    by_arrival: Flags
    ordering: Ordering
    row: Rows
    rows: pa.Table
    absent: Mapping[str, Flags] = field(default_factory=dict)
    defaults: Mapping[str, object] = field(default_factory=dict)
    """Column defaults that mean "unchanged" besides null, under `Fill.IGNORE_DEFAULTS`."""
    is_partial: Flags | None = None
    """Rows of partial records, which a query may ask for no column that they lack. None for those
    that lack a column."""

    def partial_rows(self) -> Flags:
        """Return which of `rows` belong to partial records."""
        if self.is_partial is not None:
            return self.is_partial
        none = np.zeros(self.rows.num_rows, np.bool_)
        found: Flags = np.logical_or.reduce([none, *self.absent.values()])
        return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Played:
    """The records of a log that made the winners: `order` lists them key by key."""

    log: LogRecords
    order: Rows
    starts: Rows
    lengths: Rows

    def only(self, chosen: Flags | Rows) -> Played:
        """Return the same of some winners."""
        return replace(self, starts=self.starts[chosen], lengths=self.lengths[chosen])

    def records(self) -> tuple[Rows, Rows]:
        """Return the records, and for each the number of its winner."""
        winner = np.repeat(np.arange(len(self.lengths)), self.lengths)
        turn = np.arange(len(winner)) - np.repeat(
            np.cumsum(self.lengths) - self.lengths, self.lengths
        )
        return self.order[self.starts[winner] + turn], winner


@dataclass(slots=True, kw_only=True)
class Winners:
    """One merged record for each key of the logs.

    `sources` holds, for each column, the row of `rows` that its value comes from, or a number below
    zero for none; it is None when every column of a record comes from `row`.
    """

    keys: pl.Series
    is_delete: Flags
    by_arrival: Flags
    ordering: Ordering
    row: Rows
    rows: pa.Table
    sources: dict[str, Rows] | None
    spec: MergeSpec
    defaults: Mapping[str, object]
    after_delete: Flags
    """Records before which a delete took away what was there, the base row included."""
    played: Played | None = None
    """The records, where the base row has a say in what a late one of them brings."""

    def __len__(self) -> int:
        return len(self.keys)

    def absent(self) -> dict[str, Flags]:
        """Return, for each column, which records leave it to what they are merged into."""
        found = {name: sources == _OPEN for name, sources in (self.sources or {}).items()}
        return {name: flags for name, flags in found.items() if flags.any()}

    @property
    def needs_base_rows(self) -> bool:
        """Return whether a winner may take values from the base row it meets."""
        return self.sources is not None

    @property
    def needs_base_ordering(self) -> bool:
        """Return whether the base row's ordering values have a say."""
        return self.spec.mode is MergeMode.EVENT_TIME and not bool(self.by_arrival.all())

    def only(self, chosen: Flags) -> Winners:
        """Return the chosen winners."""
        mask = pl.Series(chosen)
        sources = self.sources
        return replace(
            self,
            keys=self.keys.filter(mask),
            is_delete=self.is_delete[chosen],
            by_arrival=self.by_arrival[chosen],
            ordering=tuple(values.filter(mask) for values in self.ordering),
            row=self.row[chosen],
            sources=None if sources is None else {c: s[chosen] for c, s in sources.items()},
            after_delete=self.after_delete[chosen],
            played=None if self.played is None else self.played.only(chosen),
        )

    def merged(self) -> pa.Table:
        """Return the row of every winner, none of which may stem from a delete block."""
        if self.sources is None:
            return self.rows.take(pa.array(self.row))
        return _gather(self.rows, self.sources)

    def inserted(self, matched: Flags) -> pa.Table:
        """Return the rows of winners that met no base row."""
        chosen = np.flatnonzero(~matched & ~self.is_delete)
        if self.sources is None:
            return self.rows.take(pa.array(self.row[chosen]))
        return _gather(self.rows, {c: s[chosen] for c, s in self.sources.items()})


@dataclass(frozen=True, slots=True)
class Met:
    """What became of base rows that met a winner.

    `replaced` marks those that no longer count as they are. Of these, `survives` marks the ones
    that live on as `rows`, in the same order; the others are deleted.
    """

    replaced: Flags
    survives: Flags
    rows: pa.Table


def resolve(log: LogRecords, spec: MergeSpec) -> Winners:
    """Merge the records of each key among themselves."""
    frame = pl.DataFrame({"key": log.keys}).with_row_index("at")
    groups = frame.group_by("key", maintain_order=True).agg("at")
    lengths = groups["at"].list.len().to_numpy().astype(np.int64)
    order = groups["at"].explode().to_numpy().astype(np.int64)
    sources = None
    if spec.fill is not Fill.NONE or spec.groups or log.absent:
        sources = _Sources(log.rows, log.absent, spec, log.defaults)
    current = _play(log, spec, order, lengths, sources)
    played = None
    if log.absent and late.merges_by_column(spec):
        starts = np.cumsum(lengths) - lengths
        played = Played(log=log, order=order, starts=starts, lengths=lengths)
    return Winners(
        keys=groups["key"],
        is_delete=log.is_delete[current],
        by_arrival=log.by_arrival[current],
        ordering=tuple(values.gather(current) for values in log.ordering),
        row=log.row[current],
        rows=log.rows,
        sources=None if sources is None else sources.of_keys,
        spec=spec,
        defaults=log.defaults,
        after_delete=np.zeros(len(lengths), np.bool_) if sources is None else sources.after_delete,
        played=played,
    )


def meet(
    winners: Winners, chosen: Rows, base_ordering: Ordering, base_rows: pa.Table | None
) -> Met:
    """Merge the base rows of `chosen` winners, given as parallel columns, with them.

    `base_ordering` may be empty unless `needs_base_ordering`; `base_rows` holds the columns of
    `winners.rows` and may be None unless `needs_base_rows`.
    """
    spec = winners.spec
    is_delete = winners.is_delete[chosen]
    wins = winners.by_arrival[chosen].copy()
    if spec.mode is MergeMode.COMMIT_TIME:
        wins[:] = True
    elif winners.needs_base_ordering:
        ours = tuple(values.gather(chosen) for values in winners.ordering)
        wins |= _outranks(ours, base_ordering, spec)
    if spec.deletes_by_arrival:
        wins |= is_delete
    if winners.sources is None or base_rows is None:
        survives = wins & ~is_delete
        rows = winners.rows.take(pa.array(winners.row[chosen[survives]]))
        return Met(wins, survives, rows)
    if winners.played is None:
        return _fill_with_base(winners, chosen, wins, base_rows)
    return _replay(winners, chosen, wins, base_ordering, base_rows)


def _replay(
    winners: Winners, chosen: Rows, wins: Flags, base_ordering: Ordering, base_rows: pa.Table
) -> Met:
    """Merge the records of each key into its base row one after the other.

    What came before the first record that is as new as the base row is void. Of what came after a
    delete without ordering value the newest record decides for all (docs/decisions/0008).
    """
    assert winners.played is not None
    log, spec = winners.played.log, winners.spec
    records, winner = winners.played.only(chosen).records()
    ends = log.is_delete[records] & (log.by_arrival[records] | spec.deletes_by_arrival)
    at_once = np.zeros(len(chosen), np.bool_)
    at_once[winner[ends]] = True
    mask = pa.array(at_once)
    one = _fill_with_base(winners, chosen[at_once], wins[at_once], base_rows.filter(mask))
    if at_once.all():
        return one
    kept = ~at_once[winner]
    at = np.flatnonzero(~at_once)
    other = _replayed(log, spec, records[kept], winner[kept], at, base_ordering, base_rows)
    return _together(one, other, at_once)


def _replayed(
    log: LogRecords,
    spec: MergeSpec,
    records: Rows,
    winner: Rows,
    at: Rows,
    base_ordering: Ordering,
    base_rows: pa.Table,
) -> Met:
    """Merge base rows `at` with the `records` of the same `winner`, one after the other."""
    none = np.zeros(len(at), np.bool_)
    rows = pa.concat_tables([log.rows, base_rows.take(pa.array(at))]).combine_chunks()
    from_base = log.rows.num_rows + np.arange(len(at), dtype=np.int64)
    all_records = LogRecords(
        keys=pl.Series(np.concatenate([at, winner])),
        is_delete=np.concatenate([none, log.is_delete[records]]),
        by_arrival=np.concatenate([none, log.by_arrival[records]]),
        ordering=tuple(
            pl.concat([theirs.gather(at).cast(ours.dtype), ours.gather(records)])
            for ours, theirs in zip(log.ordering, base_ordering, strict=True)
        ),
        row=np.concatenate([from_base, log.row[records]]),
        rows=rows,
        absent={name: np.concatenate([flags, none]) for name, flags in log.absent.items()},
        defaults=log.defaults,
        is_partial=np.concatenate([log.partial_rows(), none]),
    )
    merged = resolve(all_records, spec)
    assert merged.sources is not None
    # The base rows come first, so winners are in their order.
    replaced = merged.is_delete.copy()
    for taken in merged.sources.values():
        replaced |= taken != from_base
    survives = replaced & ~merged.is_delete
    made = _gather(rows, {name: taken[survives] for name, taken in merged.sources.items()})
    return Met(replaced, survives, made)


def _together(one: Met, other: Met, of_one: Flags) -> Met:
    """Return what became of all base rows, of which those `of_one` are in `one`."""
    replaced, survives = np.zeros(len(of_one), np.bool_), np.zeros(len(of_one), np.bool_)
    place = np.zeros(len(of_one), np.int64)
    for met, mine, before in ((one, of_one, 0), (other, ~of_one, one.rows.num_rows)):
        replaced[mine], survives[mine] = met.replaced, met.survives
        place[mine] = before + np.cumsum(met.survives) - 1
    rows = pa.concat_tables([one.rows, other.rows]).combine_chunks()
    return Met(replaced, survives, rows.take(pa.array(place[survives])))


def _fill_with_base(winners: Winners, chosen: Rows, wins: Flags, base_rows: pa.Table) -> Met:
    assert winners.sources is not None
    is_delete = winners.is_delete[chosen]
    both = pa.concat_tables([winners.rows, base_rows]).combine_chunks()
    pool = _Sources(both, {}, winners.spec, winners.defaults)
    from_base = winners.rows.num_rows + np.arange(len(chosen), dtype=np.int64)
    replaced = wins.copy()
    taken: dict[str, Rows] = {}
    old = dict.fromkeys(winners.sources, from_base)
    new = {name: sources[chosen] for name, sources in winners.sources.items()}
    of_group = pool.group_wins(old, new, winners.after_delete[chosen] | is_delete)
    for name, sources in new.items():
        merged = pool.merged(name, from_base, sources, of_group.get(name, wins), ~is_delete)
        replaced |= merged != from_base
        taken[name] = merged
    survives = replaced & ~(wins & is_delete)
    rows = _gather(both, {name: rows[survives] for name, rows in taken.items()})
    return Met(replaced, survives, rows)


def _play(
    log: LogRecords, spec: MergeSpec, order: Rows, lengths: Rows, sources: _Sources | None
) -> Rows:
    """Return the winning record of each key; `order` lists records key by key."""
    starts = np.cumsum(lengths) - lengths
    last: Rows = order[starts + lengths - 1]
    if sources is None and spec.mode is MergeMode.COMMIT_TIME:
        return last
    current: Rows = order[starts]
    if sources is not None:
        sources.start(log.row[current])
    rank = _ranks(log.ordering, spec) if spec.mode is MergeMode.EVENT_TIME else None
    if sources is not None and rank is not None and log.absent and late.merges_by_column(spec):
        sources.compare_columns(log, rank, current)
    for keys, new in _rounds(order, lengths, starts):
        old = current[keys]
        wins = _new_wins(log, spec, rank, old, new)
        if sources is not None:
            both = ~log.is_delete[old] & ~log.is_delete[new]
            after_delete = wins & log.is_delete[old]
            sources.merge(keys, log.row[new], wins, both, after_delete)
        current[keys] = np.where(wins, new, old)
    return current


def _rounds(order: Rows, lengths: Rows, starts: Rows) -> Iterator[tuple[Rows, Rows]]:
    """Return, for the second, third, … record of a key, the keys that have one and the records."""
    key_of = np.repeat(np.arange(len(lengths)), lengths)
    turn = np.arange(len(order)) - np.repeat(starts, lengths)
    by_turn = np.argsort(turn, kind="stable")
    ends = np.cumsum(np.bincount(turn)) if len(turn) else np.zeros(0, np.int64)
    for begin, end in pairwise(ends.tolist()):
        at = by_turn[begin:end]
        yield key_of[at], order[at]


def _new_wins(log: LogRecords, spec: MergeSpec, rank: Rows | None, old: Rows, new: Rows) -> Flags:
    if rank is None:
        return np.ones(len(new), np.bool_)
    wins = rank[new] > rank[old] if spec.ties_to_earlier else rank[new] >= rank[old]
    deletes = log.is_delete[new]
    if spec.deletes_by_arrival:
        return wins | deletes | log.is_delete[old]
    # A delete without an ordering value beats what is there, and any row that follows beats it; a
    # delete that follows it adds nothing.
    wins |= log.by_arrival[new]
    return np.where(log.by_arrival[old], ~deletes, wins)


def _outranks(ours: Ordering, theirs: Ordering, spec: MergeSpec) -> Flags:
    if not theirs:
        return np.full(len(ours[0]) if ours else 0, not spec.ties_to_earlier)
    together = tuple(
        pl.concat([mine, other.cast(mine.dtype)]) for mine, other in zip(ours, theirs, strict=True)
    )
    rank = _ranks(together, spec)
    half = len(rank) // 2
    if spec.ties_to_earlier:
        return rank[:half] > rank[half:]
    return rank[:half] >= rank[half:]


def _ranks(ordering: Ordering, spec: MergeSpec) -> Rows:
    """Return a number for each record that orders records as their ordering values do."""
    rank: Rows | None = None
    for values in _comparable(ordering, spec):
        dense = values.rank("dense").fill_null(0).to_numpy().astype(np.int64)
        if rank is None:
            rank = dense
        else:
            joined = pl.Series(rank * (int(dense.max(initial=0)) + 1) + dense)
            rank = joined.rank("dense").to_numpy().astype(np.int64)
    return np.zeros(0, np.int64) if rank is None else rank


def _comparable(ordering: Ordering, spec: MergeSpec) -> Iterator[pl.Series]:
    for values in ordering:
        if spec.binlog_ordering and values.dtype == pl.String:
            for group in (1, 2):
                yield values.str.extract(BINLOG, group).cast(pl.Int64, strict=False)
        elif values.dtype == pl.Boolean:
            yield values.cast(pl.Int8)
        elif values.dtype.is_float():
            yield _total_order(values.fill_null(0))
        elif values.dtype.is_numeric():
            # Hudi's ordering value of a row without one is the number zero.
            yield values.fill_null(0)
        else:
            yield values


def _total_order(values: pl.Series) -> pl.Series:
    """Return whole numbers that order as Java orders floats: minus zero below zero, NaN on top."""
    floats = values.cast(pl.Float64).to_numpy(writable=True)
    floats[np.isnan(floats)] = np.nan  # of which there are many, all the same to Java
    bits = floats.view(np.int64)
    return pl.Series(np.where(bits < 0, bits ^ np.int64(2**63 - 1), bits))


class _Sources:
    """For each column, the row that the value of every key comes from."""

    def __init__(
        self,
        rows: pa.Table,
        absent: Mapping[str, Flags],
        spec: MergeSpec,
        defaults: Mapping[str, object],
    ) -> None:
        self._rows = rows
        self._absent = absent
        self._spec = spec
        self._defaults = defaults
        self._unchanged: dict[str, Flags | None] = {}
        self._group_ranks: dict[str, Rows] = {}
        self.of_keys: dict[str, Rows] = {}
        self.after_delete: Flags = np.zeros(0, np.bool_)
        self._late: LateColumns | None = None

    def compare_columns(self, log: LogRecords, rank: Rows, first: Rows) -> None:
        """Compare what a late record brings column by column, from each key's `first` one on."""
        has_row = np.flatnonzero(log.row >= 0)
        ranks = np.zeros(log.rows.num_rows, np.int64)
        ranks[log.row[has_row]] = rank[has_row]
        self._late = LateColumns(
            ranks,
            log.partial_rows(),
            keys=len(first),
            ties_to_earlier=self._spec.ties_to_earlier,
        )
        row = np.where(log.is_delete[first], np.int64(-1), log.row[first])
        self._late.begin(np.arange(len(first)), row)

    def start(self, row: Rows) -> None:
        """Take each key's first record."""
        self.of_keys = {name: self._present(name, row) for name in self._rows.column_names}
        self.after_delete = np.zeros(len(row), np.bool_)

    def merge(self, keys: Rows, row: Rows, wins: Flags, both: Flags, after_delete: Flags) -> None:
        """Merge the records at `row` into `keys`; `both` marks where neither side is a delete.

        A record that takes the place of a delete takes nothing from the rows before it.
        """
        old = {name: sources[keys] for name, sources in self.of_keys.items()}
        new = {name: self._present(name, row) for name in self.of_keys}
        of_group = self.group_wins(old, new, ~both)
        self.after_delete[keys] |= after_delete
        for name, brought in new.items():
            if name not in META_COLUMNS:
                brought[after_delete & (brought < 0)] = _GONE
            merged = self.merged(name, old[name], brought, of_group.get(name, wins), both)
            if self._late is not None and name not in META_COLUMNS:
                is_late = both & ~wins
                brings = self._late.brings(keys, old[name], brought)
                merged = np.where(is_late, np.where(brings, brought, old[name]), merged)
            self.of_keys[name][keys] = merged
        if self._late is not None:
            self._late.won(keys[both & wins], row[both & wins])
            self._late.begin(keys[after_delete], row[after_delete])

    def group_wins(
        self, old: Mapping[str, Rows], new: Mapping[str, Rows], whole: Flags
    ) -> dict[str, Flags]:
        """Return, for each column of a group, where `new` wins; all of it does in `whole`.

        A record without the group leaves it alone, and one without an ordering value in it is older
        than any with one.
        """
        found: dict[str, Flags] = {}
        for group in self._spec.groups:
            if group.ordering not in new:
                continue
            rank = self._ranks_of(group.ordering)
            ours, theirs = new[group.ordering], old[group.ordering]
            wins = whole | ((ours >= 0) & (theirs < 0))
            compared = np.flatnonzero(~wins & (ours >= 0))
            wins[compared] = rank[ours[compared]] >= rank[theirs[compared]]
            found.update(dict.fromkeys(group.columns, wins))
        return found

    def _ranks_of(self, name: str) -> Rows:
        if name not in self._group_ranks:
            values = pl.from_arrow(self._rows.column(name))
            assert isinstance(values, pl.Series)
            missing = values.is_null().to_numpy()
            ranks = _ranks((values,), self._spec)
            self._group_ranks[name] = np.where(missing, np.int64(-1), ranks)
        return self._group_ranks[name]

    def merged(self, name: str, old: Rows, new: Rows, wins: Flags, both: Flags) -> Rows:
        """Return where the values of column `name` come from after merging `new` into `old`."""
        winner = np.where(wins, new, old)
        if self._spec.incoming_meta and name in META_COLUMNS:
            return np.where(both & (new >= 0), new, winner)
        loser = np.where(wins, old, new)
        is_absent = winner < 0
        is_open = (winner == _OPEN) & (loser != _OPEN)
        unchanged = self._unchanged_rows(name)
        if unchanged is not None and len(unchanged):
            # A loser that says "unchanged" too has nothing to give.
            kept, given = np.maximum(winner, 0), np.maximum(loser, 0)
            is_open |= ~is_absent & unchanged[kept] & (loser >= 0) & ~unchanged[given]
        return np.where(both & is_open, loser, winner)

    def _present(self, name: str, row: Rows) -> Rows:
        absent = self._absent.get(name)
        present: Rows = row.copy()
        if absent is not None and len(absent):
            present[absent[row]] = _OPEN
        return present

    def _unchanged_rows(self, name: str) -> Flags | None:
        if name not in self._unchanged:
            self._unchanged[name] = self._find_unchanged(name)
        return self._unchanged[name]

    def _find_unchanged(self, name: str) -> Flags | None:
        column = self._rows.column(name)
        kind = column.type
        if self._spec.fill is Fill.IGNORE_DEFAULTS:
            marker = self._defaults.get(name)
            if marker is None:
                return _flags(column.is_null())
        elif self._spec.fill is Fill.FILL_UNAVAILABLE and (
            pa.types.is_string(kind) or pa.types.is_binary(kind)
        ):
            marker = self._spec.unavailable_value
        else:
            return None
        return _flags(pc.fill_null(pc.equal(column, pa.scalar(marker).cast(kind)), False))


def _flags(values: pa.ChunkedArray) -> Flags:
    found: Flags = values.to_numpy().astype(np.bool_)
    return found


def _gather(rows: pa.Table, sources: Mapping[str, Rows]) -> pa.Table:
    columns = [
        rows.column(name).take(pa.array(taken, mask=taken < 0)) for name, taken in sources.items()
    ]
    return pa.Table.from_arrays(columns, schema=rows.schema)


def concat_ordering(parts: Sequence[Ordering]) -> Ordering:
    """Return the ordering values of several runs of records as one."""
    return tuple(pl.concat(list(values)) for values in zip(*parts, strict=True))
