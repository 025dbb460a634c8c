"""Conditions beside Spark: files that they leave out, and what merges take from them."""

from __future__ import annotations

import os
from collections.abc import Mapping
from datetime import timedelta

import pytest
from pyspark.sql import SparkSession

from tests.conditions import machine, merges
from tests.conditions.grammar import Condition
from tests.conditions.machine import Tally
from tidelake.read import _where
from tidelake.read.predicate import Op

SEED = int(os.environ.get("TIDELAKE_SEED", "1"))
LEGACY = {"spark.sql.ansi.enabled": "false"}
QUOTED = {"spark.sql.ansi.doubleQuotedIdentifiers": "true"}
AS_TEXT = {**LEGACY, "spark.sql.legacy.typeCoercion.datetimeToString.enabled": "True"}
#: A condition that is true of a row, by what a table is partitioned, and the settings.
KNOWN: list[tuple[str, tuple[str, ...], Mapping[str, str]]] = [
    ("u = '${test.word}'", (), {}),
    ("u LIKE '${no.such}%'", ("u",), {}),
    ("i = ${test.number} OR u = '${'", (), {}),
    ('`comment` >= "comment"', (), QUOTED),
    ('`comment` >= "comment"', (), {**QUOTED, "spark.sql.ansi.enabled": "TRUE"}),
    ("t < '2026-06-15T00:00:00Z'", (), {**AS_TEXT, "spark.sql.session.timeZone": "-18:00"}),
    ("i NOT IN ('07', 8)", ("i",), LEGACY),
    ("i IN (CAST(300 AS TINYINT), 9)", (), LEGACY),
    ("f = CAST(1e39 AS FLOAT)", (), LEGACY),
    ("z < TIMESTAMP_NTZ'2026-01-01 00:00:01+18:00'", (), {}),
    ("u = 'a' --\rOR i = 8", (), {}),
]
#: Of the files that hold no wanted row, how many a condition of a simple form leaves out at least.
FLOOR = 0.7


@pytest.mark.parametrize(("text", "scheme", "settings"), KNOWN)
def test_a_condition_leaves_out_no_row_that_it_is_true_of(
    spark: SparkSession, text: str, scheme: tuple[str, ...], settings: Mapping[str, str]
) -> None:
    tally = machine.ask(spark, [Condition(text, "known")], scheme, settings)
    assert tally.wrong == []
    assert tally.matched.total() == 1


def told(tally: Tally) -> None:
    """Print the figures of a run."""
    print("\n" + "\n".join(tally.lines()))  # noqa: T201 - what a long run is for


def test_random_conditions_leave_out_no_row_that_they_are_true_of(spark: SparkSession) -> None:
    tally = machine.play(spark, SEED, 150)
    assert tally.wrong == []
    assert tally.matched.total() > 50
    assert tally.share("simple") > FLOOR


def test_what_a_merge_takes_from_random_conditions_holds_for_every_match(
    spark: SparkSession,
) -> None:
    tally = merges.play(spark, SEED, 60)
    assert tally.wrong == []
    assert tally.matched.total() > 20
    assert tally.share("merge") > FLOOR


#: Faults that random conditions find, as what stands in the place of a function or a number.
PLANTED: Mapping[str, object] = {
    # Casts that wrap around, and a time zone that the parser does not know.
    "tidelake.read._where._cast": lambda text, *_, **__: _where._number(text),
    "tidelake.read._where._ANY_ZONE": timedelta(),
    # Arguments that change what a node means, the sides of a comparison, and NOT.
    "tidelake.read._where._only": lambda *_: True,
    "tidelake.read._where._FLIPPED": {},
    "tidelake.read._where._NEGATED": {op: op for op in Op},
    # A prefix that is looked for itself between the bounds, as Apache Hudi 1.2.0 does.
    "tidelake.read.predicate._may_start": lambda prefix, known: (
        not isinstance(known.minimum, str) or known.minimum <= prefix
    ),
}


@pytest.mark.deep
@pytest.mark.slow
def test_many_random_conditions_leave_out_no_row_and_find_planted_faults(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = list(machine.answered(spark, SEED + 1, 1_200))
    tally = machine.judged(answers)
    told(tally)
    assert tally.wrong == []
    assert tally.share("simple") > FLOOR
    for name, fault in PLANTED.items():
        with monkeypatch.context() as planted:
            planted.setattr(name, fault)
            assert machine.judged(answers).wrong, name
    of_merges = merges.play(spark, SEED + 1, 200)
    told(of_merges)
    assert of_merges.wrong == []
    assert of_merges.did["covers"] > 0


@pytest.mark.long
@pytest.mark.timeout(0)
def test_a_hundred_thousand_random_conditions_leave_out_no_row(spark: SparkSession) -> None:
    tally = machine.play(spark, SEED, 80_000)
    told(tally)
    assert tally.wrong == []
    for form in ("comparison", "in", "between", "null", "like"):
        assert tally.share(f"simple {form}") > FLOOR
    of_merges = merges.play(spark, SEED, 20_000)
    told(of_merges)
    assert of_merges.wrong == []
