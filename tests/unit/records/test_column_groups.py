"""Columns with an ordering of their own: streams in any order, compactions anywhere."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random  # noqa: TID251 - seeded
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pytest

from tidelake.config import TableConfig
from tidelake.config.column_groups import ColumnGroup, parse_groups
from tidelake.errors import ConfigError, UnsupportedTableError
from tidelake.records import MergeSpec
from tidelake.records.merge import LogRecords, meet, resolve

TIME = "_hoodie_commit_time"
GROUPS = parse_groups("groups", "t1:a,b; t2:c")
SPEC = MergeSpec(groups=GROUPS, incoming_meta=True, deletes_by_arrival=True)
KINDS = {TIME: pa.int64(), "id": pa.string(), "t1": pa.int64(), "a": pa.int64(), "b": pa.int64()}
KINDS |= {"t2": pa.string(), "c": pa.int64(), "d": pa.int64()}
SCHEMA = pa.schema(list(KINDS.items()))
#: What streams bring besides the key; the last one brings whole rows.
STREAMS = (("t1", "a", "b"), ("t2", "c"), ("d",), ("t1", "a", "b", "t2", "c", "d"))
Event = dict[str, Any]
Rows = dict[str, Event]
DELETE = "is_delete"


def drawn(random: Random, number: int) -> Event:
    event: Event = {TIME: number, "id": random.choice("xyz")}
    if random.random() < 0.12:
        return {**event, DELETE: True}
    late = random.choice([None, *range(6)])
    made: Event = {n: random.choice([None, number]) for n in "abcd"}
    made |= {"t1": late, "t2": None if late is None else f"at {late}"}
    return {**event, **{name: made[name] for name in random.choice(STREAMS)}}


def model(events: Sequence[Event]) -> Rows:
    rows: Rows = {}
    for event in events:
        if DELETE in event:
            rows.pop(event["id"], None)
            continue
        row = rows.setdefault(event["id"], dict.fromkeys(SCHEMA.names))
        for group in GROUPS:
            new, old = event.get(group.ordering), row[group.ordering]
            if group.ordering in event and (old is None or (new is not None and new >= old)):
                row |= {name: event[name] for name in group.columns}
        row |= {name: event[name] for name in (TIME, "id", "d") if name in event}
    return rows


def table_of(rows: Sequence[Event]) -> pa.Table:
    return pa.Table.from_pylist([{n: r.get(n) for n in SCHEMA.names} for r in rows], schema=SCHEMA)


def log_of(events: Sequence[Event]) -> LogRecords:
    rows = [e for e in events if DELETE not in e]
    at = iter(range(len(rows)))
    return LogRecords(
        keys=pl.Series([e["id"] for e in events], dtype=pl.String),
        is_delete=np.array([DELETE in e for e in events], np.bool_),
        by_arrival=np.array([DELETE in e for e in events], np.bool_),
        ordering=(),
        row=np.array([-1 if DELETE in e else next(at) for e in events], np.int64),
        rows=table_of(rows),
        absent={n: np.array([n not in e for e in rows], np.bool_) for n in SCHEMA.names},
    )


def merged(base: Rows, events: Sequence[Event]) -> Rows:
    winners = resolve(log_of(events), SPEC)
    keys = winners.keys.to_list()
    touched = [key for key in base if key in keys]
    chosen = np.array([keys.index(key) for key in touched], np.int64)
    matched = np.zeros(len(keys), np.bool_)
    matched[chosen] = True
    met = meet(winners, chosen, (), table_of([base[key] for key in touched]))
    replaced = {key for key, gone in zip(touched, met.replaced, strict=True) if gone}
    found = {row["id"]: row for t in (met.rows, winners.inserted(matched)) for row in t.to_pylist()}
    return {**{key: row for key, row in base.items() if key not in replaced}, **found}


def test_streams_in_any_order_leave_what_the_model_holds_wherever_logs_are_compacted() -> None:
    for seed in range(250):
        random = Random(seed)
        events = [drawn(random, number) for number in range(30)]
        cuts = sorted(random.sample(range(1, 30), random.randrange(5)))
        base: Rows = {}
        for begin, end in zip([0, *cuts], [*cuts, 30], strict=True):
            base = merged(base, events[begin:end])
            assert base == model(events[:end]), f"seed {seed}, compacted at {cuts}"


def test_the_order_in_which_streams_come_decides_only_between_equals() -> None:
    for seed in range(100):
        random = Random(seed)
        events: list[Event] = []
        for group in GROUPS:
            for at in random.sample(range(50), 8):
                order = at if group.ordering == "t1" else f"{at:02}"
                given = {n: random.choice([None, at]) for n in group.columns}
                events.append({TIME: 0, "id": "x", **given, group.ordering: order})
        answers = []
        for _ in range(3):
            random.shuffle(events)
            answers.append(merged(merged({}, events[:6]), events[6:]))
        assert answers[0] == answers[1] == answers[2], f"seed {seed}"


def test_a_group_is_an_ordering_column_and_the_columns_that_go_by_it() -> None:
    assert parse_groups("groups", "t1:a,b; t2:c") == (
        ColumnGroup(ordering="t1", columns=("t1", "a", "b")),
        ColumnGroup(ordering="t2", columns=("t2", "c")),
    )


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("t1", "t1 names no group"),
        ("t1:", "names no group"),
        (":a", "names no group"),
        ("t1:a,", "names no group"),
        ("t1:a;", "an empty part"),
        ("t1:a;t2:a", "column a stands in it more than once"),
        ("t1:a;t1:b", "column t1 stands in it more than once"),
    ],
)
def test_what_is_no_list_of_groups_is_refused(text: str, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        parse_groups("hoodie.table.partial.update.ordering", text)


def test_groups_do_not_go_with_an_ordering_of_whole_records() -> None:
    properties = {
        "hoodie.table.name": "t",
        "hoodie.table.version": "9",
        "hoodie.timeline.layout.version": "2",
        "hoodie.table.partial.update.ordering": "t1:a",
        "hoodie.record.merge.mode": "COMMIT_TIME_ORDERING",
    }
    assert MergeSpec.from_config(TableConfig.from_properties(properties)).groups
    event = {**properties, "hoodie.table.ordering.fields": "ts"}
    event["hoodie.record.merge.mode"] = "EVENT_TIME_ORDERING"
    with pytest.raises(UnsupportedTableError, match="EVENT_TIME_ORDERING"):
        MergeSpec.from_config(TableConfig.from_properties(event))
