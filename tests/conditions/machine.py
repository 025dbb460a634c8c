"""Conditions against Spark: a file that is left out holds no row for which Spark says true."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random  # noqa: TID251 - seeded

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the customary name
from pyspark.sql import types as T  # noqa: N812

from tests.conditions import rows, sessions
from tests.conditions.files import SCHEMES, Files, Maker
from tests.conditions.grammar import Condition, Grammar
from tidelake.spark.session.sql_settings import is_read_alike
from tidelake.spark.types.to_avro import avro_schema
from tidelake.state.table_state import TableSchema

#: The column that says which row it is.
NUMBER = "_number"
BATCH = 150
#: One of these that fails on some row makes all that are asked with it fail.
_DOUBTFUL_BATCH = 12


@dataclass
class Tally:
    """What became of conditions, by their kind."""

    asked: Counter[str] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)
    #: Files of one row with all statistics in which no row matches, and those of them left out.
    could: Counter[str] = field(default_factory=Counter)
    did: Counter[str] = field(default_factory=Counter)
    matched: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)

    def lines(self) -> Iterator[str]:
        """Yield the figures."""
        for kind, count in sorted(self.asked.items()):
            share = self.did[kind] / max(1, self.could[kind])
            yield (
                f"{kind}: {count} conditions, {self.matched[kind]} true of a row, "
                f"{self.refused[kind]} refused by Spark, {share:.0%} of the files left out that "
                "could be"
            )
        yield (
            f"all: {self.asked.total()} conditions, {self.matched.total()} true of a row, "
            f"{self.refused.total()} refused by Spark, {len(self.wrong)} files left out wrongly"
        )

    def share(self, prefix: str) -> float:
        """Return the share of files left out, of those that could be, by conditions of a kind."""
        kinds = [kind for kind in self.asked if kind.startswith(prefix)]
        return sum(self.did[k] for k in kinds) / max(1, sum(self.could[k] for k in kinds))


@dataclass(frozen=True)
class Answer:
    """What Spark says of a condition: the rows that it is true of, None where it fails.

    `where` is what files are left out by: the condition, unless the session reads it otherwise.
    """

    condition: Condition
    found: frozenset[int] | None
    where: str | None
    files: Files
    story: str


def play(spark: SparkSession, seed: int, count: int) -> Tally:
    """Ask about `count` random conditions."""
    return judged(answered(spark, seed, count))


def answered(spark: SparkSession, seed: int, count: int) -> Iterator[Answer]:
    """Yield what Spark says of `count` random conditions, each beside files of its rows."""
    world = _World(spark)
    left = count
    for batch in range(count):
        chance = Random(f"{seed}/{batch}")
        settings = sessions.drawn(chance)
        files = world.files(chance, chance.choice(SCHEMES))
        grammar = Grammar(
            chance,
            has_quoted_names=sessions.has_quoted_names(settings),
            tells_case="spark.sql.caseSensitive" in settings,
        )
        drawn = [
            grammar.simple() if chance.random() < 0.15 else grammar.draw()
            for _ in range(min(BATCH, left))
        ]
        yield from world.ask(drawn, files, settings, f"{seed}/{batch}")
        left -= len(drawn)
        if not left:
            return


def ask(
    spark: SparkSession,
    conditions: Sequence[Condition],
    scheme: Sequence[str],
    settings: Mapping[str, str],
) -> Tally:
    """Ask about some conditions under some settings."""
    world = _World(spark)
    return judged(world.ask(conditions, world.files(Random(1), scheme), settings, "given"))


def judged(of: Iterable[Answer]) -> Tally:
    """Return what files are left out, and whether they may be."""
    tally = Tally()
    for answer in of:
        _judge(tally, answer)
    return tally


class _World:
    """The rows in a session."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        self._rows = rows.table()
        numbered = self._rows.append_column(NUMBER, pa.array(range(rows.ROWS)))
        self._frame = spark.createDataFrame(numbered)
        fields = self._frame.drop(NUMBER).schema.fields
        self._schema = TableSchema(avro=avro_schema(T.StructType(fields), "t"))

    def files(self, chance: Random, scheme: Sequence[str]) -> Files:
        return Maker(chance, self._rows, self._schema).files(scheme)

    def ask(
        self,
        conditions: Sequence[Condition],
        files: Files,
        settings: Mapping[str, str],
        where_from: str,
    ) -> list[Answer]:
        story = f"{where_from} {sessions.told(settings)}"
        with sessions.under(self._spark, settings):
            return [
                Answer(
                    condition=condition,
                    found=found,
                    where=condition.text if is_read_alike(self._spark, condition.text) else None,
                    files=files,
                    story=story,
                )
                for condition, found in answers(self._frame, conditions)
            ]


def answers(
    frame: DataFrame, conditions: Sequence[Condition]
) -> Iterator[tuple[Condition, frozenset[int] | None]]:
    """Yield conditions with the numbers of the rows that they are true of; None where they fail."""
    understood: list[tuple[Condition, Column]] = []
    for condition in conditions:
        try:
            frame.where(condition.text)
        except PySparkException:
            yield condition, None
        else:
            understood.append((condition, F.expr(condition.text)))
    plain = [each for each in understood if each[0].is_plain]
    doubtful = [each for each in understood if not each[0].is_plain]
    yield from _asked(frame, plain)
    for at in range(0, len(doubtful), _DOUBTFUL_BATCH):
        yield from _asked(frame, doubtful[at : at + _DOUBTFUL_BATCH])


def _asked(
    frame: DataFrame, conditions: Sequence[tuple[Condition, Column]]
) -> Iterator[tuple[Condition, frozenset[int] | None]]:
    if not conditions:
        return
    try:
        columns = (column.alias(f"c{at}") for at, (_, column) in enumerate(conditions))
        found = frame.select(*columns, NUMBER).collect()
    except PySparkException:
        if len(conditions) == 1:
            yield conditions[0][0], None
            return
        half = len(conditions) // 2
        yield from _asked(frame, conditions[:half])
        yield from _asked(frame, conditions[half:])
        return
    for at, (condition, _) in enumerate(conditions):
        yield condition, frozenset(row[NUMBER] for row in found if row[at])


def _judge(tally: Tally, answer: Answer) -> None:
    kind, found, files = answer.condition.kind, answer.found, answer.files
    tally.asked[kind] += 1
    if found is None:
        tally.refused[kind] += 1
        return
    tally.matched[kind] += bool(found)
    kept = {id(piece) for piece in files.left_by(answer.where)}
    for piece in files.pieces:
        hits = piece.rows & found
        if hits and id(piece) not in kept:
            tally.wrong.append(
                f"{answer.condition.text!r} leaves out row {sorted(hits)} in "
                f"{piece.slice.group.partition!r} ({answer.story})"
            )
            break
    if answer.where is None:
        return
    told = [piece for piece in files.pieces if piece.is_told and not piece.rows & found]
    tally.could[kind] += len(told)
    tally.did[kind] += sum(id(piece) not in kept for piece in told)
