"""Random merges leave what a dictionary leaves, with compactions between and without."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from random import Random  # noqa: TID251 - seeded
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tidelake import Table
from tidelake.spark.merge.merge_clauses import MergeBuilder

SEED = int(os.environ.get("TIDELAKE_SEED", "4"))
SCHEMA = "id string, city string, ts bigint, fare int, tip int, note string"
NAMES = SCHEMA.split()[::2]
KEYS = [f"k{n}" for n in range(12)]
Row = dict[str, Any]
#: A row of the table and one of the source; either may be missing.
Test = Callable[[Row, Row], bool | None]
BUCKETS = {"hoodie.index.type": "BUCKET", "hoodie.bucket.index.num.buckets": "2"}
KINDS: Mapping[str, Mapping[str, Any]] = {
    "v9-cow": {"table_type": "COPY_ON_WRITE"},
    "v9-mor": {"table_type": "MERGE_ON_READ"},
    "v8-bucket": {"table_type": "MERGE_ON_READ", "table_version": 8, "options": BUCKETS},
    "v6-mor": {"table_type": "MERGE_ON_READ", "table_version": 6},
}


@dataclass(frozen=True)
class Condition:
    """A condition in SQL, and the same in Python."""

    sql: str | None
    holds: Test


def less(a: int | None, b: int | None) -> bool | None:
    return None if a is None or b is None else a < b


def plus(a: int | None, b: int | None) -> int | None:
    return None if a is None or b is None else a + b


ALWAYS = Condition(None, lambda t, s: True)  # noqa: ARG005 - the shape of them all
PAIRS = [
    Condition("target.fare < source.fare", lambda t, s: less(t["fare"], s["fare"])),
    Condition("source.note is null", lambda t, s: s["note"] is None),  # noqa: ARG005
    Condition("target.tip < 5", lambda t, s: less(t["tip"], 5)),  # noqa: ARG005
]
NEW = [
    Condition("source.fare < 5", lambda t, s: less(s["fare"], 5)),  # noqa: ARG005
    Condition("source.note is not null", lambda t, s: s["note"] is not None),  # noqa: ARG005
]
LEFT = [
    Condition("target.fare < 3", lambda t, s: less(t["fare"], 3)),  # noqa: ARG005
    Condition("target.note is null", lambda t, s: t["note"] is None),  # noqa: ARG005
]


@dataclass(frozen=True)
class Clause:
    """One clause for the builder, and what it does to a row of the model; None deletes it."""

    condition: Condition
    add: Callable[[MergeBuilder, str | None], MergeBuilder]
    make: Callable[[Row, Row], Row | None]


def matched(condition: Condition, kind: int) -> Clause:
    if kind == 0:
        return Clause(condition, lambda m, c: m.when_matched_delete(c), lambda t, s: None)  # noqa: ARG005
    if kind == 1:
        return Clause(condition, lambda m, c: m.when_matched_update_all(c), lambda t, s: s)  # noqa: ARG005
    if kind == 2:
        values = {"fare": "target.fare + source.fare", "ts": "source.ts"}
        return Clause(
            condition,
            lambda m, c: m.when_matched_update(values, c),
            lambda t, s: {**t, "fare": plus(t["fare"], s["fare"]), "ts": s["ts"]},
        )
    notes = {"note": "source.note", "tip": "null"}
    return Clause(
        condition,
        lambda m, c: m.when_matched_update(notes, c),
        lambda t, s: {**t, "note": s["note"], "tip": None},
    )


def inserted(condition: Condition, kind: int) -> Clause:
    if kind == 0:
        return Clause(condition, lambda m, c: m.when_not_matched_insert_all(c), lambda t, s: s)  # noqa: ARG005
    values = {name: f"source.{name}" for name in ("id", "city", "ts", "note")}
    return Clause(
        condition,
        lambda m, c: m.when_not_matched_insert(values, c),
        lambda t, s: {**s, "fare": None, "tip": None},  # noqa: ARG005
    )


def left(condition: Condition, kind: int) -> Clause:
    if kind == 0:
        return Clause(
            condition,
            lambda m, c: m.when_not_matched_by_source_delete(c),
            lambda t, s: None,  # noqa: ARG005
        )
    values = {"tip": "coalesce(target.tip, 0) + 1"}
    return Clause(
        condition,
        lambda m, c: m.when_not_matched_by_source_update(values, c),
        lambda t, s: {**t, "tip": (t["tip"] or 0) + 1},  # noqa: ARG005
    )


def drawn(
    random: Random, conditions: list[Condition], kinds: int, of: Callable[[Condition, int], Clause]
) -> list[Clause]:
    """Return up to two clauses for the same rows, the last one perhaps without condition."""
    chosen = random.sample(conditions, random.randrange(3))
    if chosen and random.random() < 0.5:
        chosen[-1] = ALWAYS
    return [of(condition, random.randrange(kinds)) for condition in chosen]


class Model:
    """The table as a dictionary; `ts` orders rows, and an older one changes nothing."""

    def __init__(self) -> None:
        self.rows: dict[str, Row] = {}

    def merge(
        self, source: list[Row], pairs: list[Clause], new: list[Clause], kept: list[Clause]
    ) -> None:
        given = {row["id"]: row for row in source}
        known = set(self.rows)
        for key, old in list(self.rows.items()):
            if key in given:
                self._change(key, old, given[key], pairs)
            else:
                self._change(key, old, {}, kept)
        for key, row in given.items():
            if key not in known:
                clause = first(new, {}, row)
                made = None if clause is None else clause.make({}, row)
                if made is not None:
                    self.rows[key] = made

    def _change(self, key: str, old: Row, row: Row, clauses: list[Clause]) -> None:
        clause = first(clauses, old, row)
        if clause is None:
            return
        made = clause.make(old, row)
        if made is None:
            del self.rows[key]
        elif made["ts"] >= old["ts"]:
            self.rows[key] = made


def first(clauses: list[Clause], target: Row, source: Row) -> Clause | None:
    return next((c for c in clauses if c.condition.holds(target, source)), None)


def source_rows(random: Random, ts: int, known: Mapping[str, Row]) -> list[Row]:
    """Return rows of which some are late; those that may come back after a delete are not."""
    keys = random.sample(KEYS, random.randint(1, 6))
    return [
        {
            "id": key,
            "city": f"c{int(key[1:]) % 2}",
            "ts": max(1, ts - random.randrange(3)) if key in known else ts,
            "fare": random.choice([None, *range(9)]),
            "tip": random.choice([None, *range(9)]),
            "note": random.choice([None, "x", "ü"]),
        }
        for key in keys
    ]


def merge_often(spark: SparkSession, root: Path, kind: str, seed: int, steps: int) -> None:
    random = Random(seed)
    table = Table.create(
        spark, str(root), SCHEMA, key="id", partition_by="city", ordering="ts", **KINDS[kind]
    )
    model = Model()
    for step in range(1, steps + 1):
        source = source_rows(random, step, model.rows)
        pairs = drawn(random, PAIRS, 4, matched)
        new = drawn(random, NEW, 2, inserted) or [inserted(ALWAYS, 0)]
        kept = drawn(random, LEFT, 2, left) if random.random() < 0.3 else []
        frame = spark.createDataFrame([tuple(r[n] for n in NAMES) for r in source], SCHEMA)
        merge = table.merge(frame, on=random.choice([None, "id", "target.id = source.id"]))
        for clause in (*pairs, *new, *kept):
            merge = clause.add(merge, clause.condition.sql)
        merge.execute(dict(KINDS[kind].get("options", {})))
        model.merge(source, pairs, new, kept)
        if "mor" in kind and random.random() < 0.2:
            table.compact()
        found = {row["id"]: row.asDict() for row in table.read().collect()}
        assert found == model.rows, f"TIDELAKE_SEED={seed}, {kind}, step {step}"


@pytest.mark.deep
@pytest.mark.slow
@pytest.mark.parametrize("kind", ["v9-cow", "v9-mor"])
def test_random_merges_leave_what_the_model_holds(
    spark: SparkSession, tmp_path: Path, kind: str
) -> None:
    merge_often(spark, tmp_path / "t", kind, SEED, 5)


@pytest.mark.long
@pytest.mark.timeout(0)
@pytest.mark.parametrize("kind", KINDS)
def test_many_random_merges_leave_what_the_model_holds(
    spark: SparkSession, tmp_path: Path, kind: str
) -> None:
    for seed in range(SEED, SEED + 10):
        merge_often(spark, tmp_path / str(seed), kind, seed, 12)
