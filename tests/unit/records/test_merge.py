"""The merge over columns, held to the rules of Hudi 1.x spelled out record by record."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.partial_model import Event, Rule, State
from tidelake.model import MergeMode
from tidelake.records.late_columns import merges_by_column
from tidelake.records.merge import LogRecords, meet, resolve
from tidelake.records.merge_spec import Fill, MergeSpec

COLUMNS = ("x", "y")
COMMIT = MergeSpec()
EVENT = MergeSpec(mode=MergeMode.EVENT_TIME, ordering_fields=("o",))


@dataclass(frozen=True)
class Record:
    """A row or a delete; a delete without ordering value is one by arrival.

    `gone` are columns that a row does not bring, and whose older values went with a delete.
    """

    key: str
    ordering: int | None = 0
    values: dict[str, str | None] = field(default_factory=dict)
    is_delete: bool = False
    gone: frozenset[str] = frozenset()

    @property
    def by_arrival(self) -> bool:
        return self.is_delete and self.ordering is None


def row(key: str, ordering: int | None = 0, **values: str | None) -> Record:
    return Record(key, ordering, values)


def delete(key: str, ordering: int | None = None) -> Record:
    return Record(key, ordering, {}, is_delete=True)


# --- the rules, one record after the other -----------------------------------------------------


def new_wins(old: Record, new: Record, spec: MergeSpec) -> bool:
    if spec.mode is MergeMode.COMMIT_TIME:
        return True
    if spec.deletes_by_arrival and (new.is_delete or old.is_delete):
        return True
    if old.by_arrival:
        return not new.is_delete
    if new.by_arrival:
        return True
    ours, theirs = new.ordering or 0, old.ordering or 0
    return ours > theirs if spec.ties_to_earlier else ours >= theirs


def one_of(old: Record, new: Record, spec: MergeSpec) -> Record:
    wins = new_wins(old, new, spec)
    winner, loser = (new, old) if wins else (old, new)
    if winner.is_delete or loser.is_delete:
        if wins and old.is_delete:
            return replace(winner, gone=frozenset(COLUMNS) - frozenset(winner.values))
        return winner
    values = dict(winner.values)
    gone = winner.gone | (loser.gone - frozenset(values))
    for name, value in loser.values.items():
        if name in winner.gone:
            continue
        unchanged = (spec.fill is Fill.IGNORE_DEFAULTS and values.get(name) is None) or (
            spec.fill is Fill.FILL_UNAVAILABLE and values.get(name) == spec.unavailable_value
        )
        if name not in values or unchanged:
            values[name] = value
    return replace(winner, values=values, gone=gone)


def expected(base: Sequence[Record], log: Sequence[Record], spec: MergeSpec) -> list[object]:
    if merges_by_column(spec) and not all(is_whole(r) for r in log if not r.is_delete):
        return expected_by_column(base, log, spec)
    merged: dict[str, Record] = {}
    for record in log:
        old = merged.get(record.key)
        merged[record.key] = record if old is None else one_of(old, record, spec)
    rows = []
    for record in base:
        new = merged.pop(record.key, None)
        rows.append(record if new is None else one_of(record, new, spec))
    rows += merged.values()
    return sorted(
        [(r.key, *(r.values.get(name) for name in COLUMNS)) for r in rows if not r.is_delete],
        key=str,
    )


def is_whole(record: Record) -> bool:
    return set(record.values) == set(COLUMNS)


def expected_by_column(
    base: Sequence[Record], log: Sequence[Record], spec: MergeSpec
) -> list[object]:
    rule = Rule(ties_to_earlier=spec.ties_to_earlier, deletes_by_arrival=spec.deletes_by_arrival)
    rows: list[object] = []
    for key in {r.key for r in (*base, *log)}:
        first = next((State(r.ordering or 0, r.values) for r in base if r.key == key), None)
        events = [
            Event(r.ordering, r.values, is_whole=is_whole(r), is_delete=r.is_delete)
            for r in log
            if r.key == key
        ]
        made = rule.merged(first, events)
        if made is not None and made.deleted_by is None:
            rows.append((key, *(made.values.get(name) for name in COLUMNS)))
    return sorted(rows, key=str)


# --- the same through columns ------------------------------------------------------------------


def columns_of(records: Sequence[Record]) -> pa.Table:
    return pa.table(
        {
            "key": pa.array([r.key for r in records], pa.string()),
            **{
                name: pa.array([r.values.get(name) for r in records], pa.string())
                for name in COLUMNS
            },
        }
    )


def log_records(log: Sequence[Record]) -> LogRecords:
    rows = [r for r in log if not r.is_delete]
    at = iter(range(len(rows)))
    absent = {
        name: np.array([name not in r.values for r in rows], np.bool_)
        for name in COLUMNS
        if any(name not in r.values for r in rows)
    }
    return LogRecords(
        keys=pl.Series([r.key for r in log], dtype=pl.String),
        is_delete=np.array([r.is_delete for r in log], np.bool_),
        by_arrival=np.array([r.by_arrival for r in log], np.bool_),
        ordering=(pl.Series([r.ordering for r in log], dtype=pl.Int64),),
        row=np.array([-1 if r.is_delete else next(at) for r in log], np.int64),
        rows=columns_of(rows),
        absent=absent,
    )


def merged(base: Sequence[Record], log: Sequence[Record], spec: MergeSpec) -> list[object]:
    winners = resolve(log_records(log), spec)
    keys = winners.keys.to_list()
    matched = np.zeros(len(keys), np.bool_)
    positions = [at for at, r in enumerate(base) if r.key in keys]
    chosen = np.array([keys.index(base[at].key) for at in positions], np.int64)
    matched[chosen] = True
    ordering = (pl.Series([base[at].ordering for at in positions], dtype=pl.Int64),)
    met = meet(winners, chosen, ordering, columns_of([base[at] for at in positions]))
    replaced = {at for at, gone in zip(positions, met.replaced, strict=True) if gone}
    kept = columns_of([r for at, r in enumerate(base) if at not in replaced])
    table = pa.concat_tables([kept, met.rows, winners.inserted(matched)])
    return sorted([tuple(r.values()) for r in table.to_pylist()], key=str)


# --- cases that name a rule --------------------------------------------------------------------

MARKER = EVENT.unavailable_value
CASES = {
    "a later row replaces an earlier one": (COMMIT, [], [row("a", 9, x="1"), row("a", 1, x="2")]),
    "a later row with a lower ordering value loses": (
        EVENT,
        [],
        [row("a", 9, x="1"), row("a", 1, x="2")],
    ),
    "equal ordering values go to the later row": (
        EVENT,
        [row("a", 5, x="base")],
        [row("a", 5, x="1"), row("a", 5, x="2")],
    ),
    "a base row with a greater ordering value stays": (
        EVENT,
        [row("a", 9, x="base")],
        [row("a", 5, x="1")],
    ),
    "a stale delete leaves the base row": (EVENT, [row("a", 9, x="base")], [delete("a", 5)]),
    "a delete without ordering value beats everything before it": (
        EVENT,
        [row("a", 9, x="base")],
        [row("a", 99, x="1"), delete("a")],
    ),
    "any row beats a delete without ordering value": (
        EVENT,
        [],
        [row("a", 99, x="1"), delete("a"), row("a", 1, x="2")],
    ),
    "an ordered delete after one without adds nothing": (
        EVENT,
        [],
        [delete("a"), delete("a", 50), row("a", 1, x="2")],
    ),
    "a row without ordering value counts as zero": (
        EVENT,
        [row("a", -1, x="base")],
        [row("a", None, x="1")],
    ),
    "a partial record keeps the columns it lacks": (
        COMMIT,
        [row("a", 1, x="base", y="base")],
        [row("a", 2, x="1")],
    ),
    "an explicit null in a partial record is a value": (
        COMMIT,
        [row("a", 1, x="base", y="base")],
        [row("a", 2, x=None)],
    ),
    "a partial record that lost still gives what the winner lacks": (
        EVENT,
        [],
        [row("a", 9, x="1"), row("a", 1, x="2", y="2")],
    ),
    "a partial record takes nothing from a row that was deleted before it": (
        COMMIT,
        [row("a", 1, x="base", y="base")],
        [delete("a"), row("a", 2, x="1")],
    ),
    "null means unchanged": (
        replace(COMMIT, fill=Fill.IGNORE_DEFAULTS),
        [row("a", 1, x="base", y="base")],
        [row("a", 2, x="1", y=None)],
    ),
    "a winning base row is filled from the log": (
        replace(EVENT, fill=Fill.IGNORE_DEFAULTS),
        [row("a", 9, x="base", y=None)],
        [row("a", 2, x="1", y="1")],
    ),
    "the unavailable marker means unchanged": (
        replace(EVENT, fill=Fill.FILL_UNAVAILABLE),
        [row("a", 1, x="base", y="base")],
        [row("a", 2, x=MARKER, y="1")],
    ),
    "a delete by arrival wins whatever its value": (
        replace(EVENT, deletes_by_arrival=True),
        [row("a", 9, x="base")],
        [delete("a", 1)],
    ),
    "the first of equals stays": (
        replace(EVENT, ties_to_earlier=True),
        [row("a", 5, x="base")],
        [row("a", 5, x="1")],
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_rule(name: str) -> None:
    spec, base, log = CASES[name]
    assert merged(base, log, spec) == expected(base, log, spec)


def test_rules_have_the_outcome_their_names_promise() -> None:
    outcome = {name: merged(base, log, spec) for name, (spec, base, log) in CASES.items()}
    assert outcome["a later row with a lower ordering value loses"] == [("a", "1", None)]
    assert outcome["a stale delete leaves the base row"] == [("a", "base", None)]
    assert outcome["a delete without ordering value beats everything before it"] == []
    assert outcome["any row beats a delete without ordering value"] == [("a", "2", None)]
    assert outcome["a partial record keeps the columns it lacks"] == [("a", "1", "base")]
    after = outcome["a partial record takes nothing from a row that was deleted before it"]
    assert after == [("a", "1", None)]
    assert outcome["an explicit null in a partial record is a value"] == [("a", None, "base")]
    assert outcome["null means unchanged"] == [("a", "1", "base")]
    assert outcome["a winning base row is filled from the log"] == [("a", "base", "1")]
    assert outcome["the unavailable marker means unchanged"] == [("a", "base", "1")]


VALUES = st.sampled_from(["1", "2", "3", None, MARKER])
FULL = st.builds(
    Record,
    st.sampled_from("abc"),
    st.integers(0, 3) | st.none(),
    st.fixed_dictionaries(dict.fromkeys(COLUMNS, VALUES)),
)
PARTIAL = st.builds(
    Record,
    st.sampled_from("abc"),
    st.integers(0, 3),
    st.dictionaries(st.sampled_from(COLUMNS), VALUES),
)
DELETES = st.builds(delete, st.sampled_from("abc"), st.integers(1, 3) | st.none())
SPECS = st.builds(
    MergeSpec,
    mode=st.sampled_from([MergeMode.COMMIT_TIME, MergeMode.EVENT_TIME]),
    ordering_fields=st.just(("o",)),
    fill=st.sampled_from(Fill),
    deletes_by_arrival=st.booleans(),
    ties_to_earlier=st.booleans(),
)


@given(
    spec=SPECS,
    base=st.lists(FULL, max_size=3, unique_by=lambda r: r.key),
    log=st.lists(FULL | DELETES, max_size=8) | st.lists(FULL | PARTIAL | DELETES, max_size=8),
)
def test_columns_merge_as_records_do(
    spec: MergeSpec, base: list[Record], log: list[Record]
) -> None:
    assert merged(base, log, spec) == expected(base, log, spec)


def test_a_late_record_brings_what_no_newer_one_has_whether_the_first_row_is_logged_or_not() -> (
    None
):
    first = row("a", 1, x="1", y=None)
    late = [row("a", 3, x="3"), row("a", 2, y="7")]
    assert merged([], [first, *late], EVENT) == [("a", "3", "7")]
    assert merged([first], late, EVENT) == [("a", "3", "7")]


def test_a_late_record_brings_nothing_that_a_newer_partial_one_has() -> None:
    first = row("a", 1, x="1", y=None)
    late = [row("a", 3, x="3"), row("a", 5, y="5"), row("a", 2, x="2"), row("a", 4, x="4")]
    assert merged([], [first, *late], EVENT) == [("a", "4", "5")]
    assert merged([first], late, EVENT) == [("a", "4", "5")]


def test_a_late_record_beside_a_newer_partial_one_is_not_compared_with_the_whole_row() -> None:
    # As Apache Hudi answers for the golden tables v8_mor_partial_update and v9_mor_partial_update.
    first = row("a", 10, x="10", y="10")
    late = [row("a", 21, x="21"), row("a", 5, y="5")]
    assert merged([first], late, EVENT) == [("a", "21", "5")]
    assert merged([], [first, *late], EVENT) == [("a", "21", "5")]


def test_a_late_record_that_meets_the_whole_row_alone_is_void_for_good() -> None:
    first = row("a", 10, x="10", y="10")
    late = [row("a", 5, y="5"), row("a", 21, x="21")]
    assert merged([first], late[:1], EVENT) == [("a", "10", "10")]
    assert merged([first], late, EVENT) == [("a", "21", "10")]
    assert merged([], [first, *late], EVENT) == [("a", "21", "10")]


def test_a_delete_that_is_older_than_the_base_row_takes_nothing_from_it() -> None:
    first = row("a", 5, x="1", y="1")
    late = [delete("a", 3), row("a", 6, x="6")]
    assert merged([first], late, EVENT) == [("a", "6", "1")]
    assert merged([], [first, *late], EVENT) == [("a", "6", "1")]


def test_a_partial_record_stays_one_whichever_columns_are_read() -> None:
    # Of these columns the partial record lacks none, so only its block tells that it is one.
    log = log_records([row("a", 20, x="20"), row("a", 21), row("a", 5, x="5")])
    log.absent = {"x": log.absent["x"]}
    log.rows = log.rows.drop_columns(["y"])
    log.is_partial = np.array([True, True, True])
    assert resolve(log, EVENT).inserted(np.zeros(1, np.bool_)).column("x").to_pylist() == ["20"]


def test_several_ordering_fields_compare_from_left_to_right() -> None:
    log = log_records([row("a", 0, x="1"), row("a", 0, x="2"), row("a", 0, x="3")])
    log.ordering = (pl.Series([1, 2, 2]), pl.Series(["z", "b", "a"]))
    winners = resolve(log, replace(EVENT, ordering_fields=("day", "seq")))
    assert winners.inserted(np.zeros(1, np.bool_)).column("x").to_pylist() == ["2"]


def test_binlog_positions_compare_as_numbers() -> None:
    log = log_records([row("a", 0, x="1"), row("a", 0, x="2")])
    log.ordering = (pl.Series(["000010.9", "000010.100"]),)
    winners = resolve(log, replace(EVENT, binlog_ordering=True))
    assert winners.inserted(np.zeros(1, np.bool_)).column("x").to_pylist() == ["2"]
