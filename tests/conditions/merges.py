"""Conditions of merges against Spark: what a plan takes from them holds for every match."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random  # noqa: TID251 - seeded
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the customary name

from tests.conditions import rows, sessions
from tests.conditions.grammar import Condition, Grammar
from tests.conditions.machine import BATCH, NUMBER, Tally, answers
from tidelake.read.predicate import ColumnType, KnownValues, may_match, parse_where
from tidelake.spark.merge.merge_plan import On, TableShape, condition_of_target, plan_on, table_word
from tidelake.spark.session.sql_settings import is_read_alike

_TYPES = {
    "i": ColumnType.INTEGER,
    "l": ColumnType.INTEGER,
    "n": ColumnType.DECIMAL,
    "u": ColumnType.STRING,
    "d": ColumnType.DATE,
    "order": ColumnType.INTEGER,
    "comment": ColumnType.STRING,
}
#: Columns that are called as qualifiers are.
_COLLISIONS = ("t", "s", "source", "target", "u2")
_SIDE = 6
_AT, _BY = "_at", "_by"
_KEY, _PARTITION = ("i",), ("comment",)


@dataclass(frozen=True)
class _Side:
    """The rows of the table or of the source, and the columns that they have beside the usual."""

    rows: Sequence[Mapping[str, Any]]
    structs: tuple[str, ...]

    @property
    def names(self) -> tuple[str, ...]:
        return (*_TYPES, *self.structs)

    def frame(self, spark: SparkSession, number: str) -> DataFrame:
        inner = pa.struct([("i", pa.int32()), ("u", pa.string()), ("n", pa.int32())])
        arrays = {
            name: pa.array([row[name] for row in self.rows], rows.COLUMNS[name][1])
            for name in _TYPES
        }
        for name in self.structs:
            arrays[name] = pa.array([row[name] for row in self.rows], inner)
        arrays[number] = pa.array(range(len(self.rows)))
        return spark.createDataFrame(pa.table(arrays))


class _Joins(Grammar):
    """Draws conditions over two sides; `ours` and `theirs` are words that mean either."""

    def __init__(
        self,
        chance: Random,
        ours: Sequence[str],
        theirs: Sequence[str],
        *,
        has_quoted_names: bool = False,
        tells_case: bool = False,
    ) -> None:
        super().__init__(chance, has_quoted_names=has_quoted_names, tells_case=tells_case)
        self._ours = ours
        self._theirs = theirs

    def match(self) -> Condition:
        """Return what a merge could match by."""
        self._is_plain = True
        parts = [self._part() for _ in range(self._chance.choice([1, 1, 2, 2, 3, 4]))]
        words = ["and", "AND", "AND", "and", "AND", "or"]
        if self._rarely(0.2):
            # People match by the key, and often by nothing else.
            parts = [self._same(column) for column in (*_KEY, *_PARTITION)] + parts[2:]
            words = ["and", "AND"]
        text = parts[0]
        for part in parts[1:]:
            text = f"{text} {self._pick(*words)} {part}"
        if self._rarely(0.1):
            text = self._pick(
                f"({text})", f"not ({text})", f"({text}) IS TRUE", f"not not ({text})"
            )
        if self._rarely(0.08):
            text = self._with_comment(text)
        return Condition(text, "merge", self._is_plain)

    def _part(self) -> str:
        form = self._chance.choices(
            ["equal", "compared", "source", "other", "words", "struct", "joined"],
            [8, 6, 2, 2, 2, 2, 1],
        )[0]
        if form == "equal":
            return self._equal()
        if form == "compared":
            return self._compared(self._ours)
        if form == "source":
            return self._compared(self._theirs)
        if form == "words":
            words = self._pick("a and target.i > 5", "' or t.i = 1 --", "x", "/* s.i = 1")
            quoted = self._text(words)
            return f"{self._of(self._ours, 'u')} {self._pick('=', '<>', '>')} {quoted}"
        if form == "struct":
            word = self._pick(*_COLLISIONS)
            return (
                f"{word}.{self._pick('i', 'n', 'u.i')} {self._pick('=', '>')} {self._pick(1, 5, 7)}"
            )
        if form == "joined":
            parts = [self._part() for _ in range(2)]
            return self._pick(f"({parts[0]} or {parts[1]})", f"not ({parts[0]} and {parts[1]})")
        column = self._pick(*_TYPES)
        name = self._of(self._ours, column)
        return self._pick(
            f"{name} BETWEEN {self._literal(column)} AND {self._literal(column)}",
            f"{name} IN ({self._literal(column)}, {self._literal(column)})",
            f"{name} IS NOT NULL",
            f"{self._of(self._ours, 'u')} LIKE 'g%'",
            f"abs({self._of(self._ours, 'order')}) = 3",
            f"CASE WHEN {name} IS NULL THEN true ELSE {self._equal()} END",
            f"{self._of(self._ours, 'i')} = (SELECT 7)" if self._rarely(0.2) else "true",
            f"coalesce({name}, {name}) = {self._of(self._theirs, column)}",
            f"{column} = {self._literal(column)}",
        )

    def _same(self, column: str) -> str:
        """Return that both sides have the same in a column."""
        sides = [self._of(self._ours, column), self._of(self._theirs, column)]
        self._chance.shuffle(sides)
        return " = ".join(sides)

    def _equal(self) -> str:
        column = self._pick("i", "i", "comment", "comment", "l", "u", "order", "d", "n")
        other = column if self._rarely(0.85) else self._pick(*_TYPES)
        first, second = self._of(self._ours, column), self._of(self._theirs, other)
        if self._rarely(0.1):
            second = self._of(self._ours, other)
        if self._rarely(0.4):
            first, second = second, first
        return f"{first} {self._pick('=', '=', '==', '<=>')} {second}"

    def _compared(self, words: Sequence[str]) -> str:
        column = self._pick(*_TYPES)
        literal = self._own(column) if self._rarely(0.5) else self._literal(column)
        name, sign = self._of(words, column), self._pick("=", "<", "<=", ">", ">=", "<>")
        return f"{name} {sign} {literal}" if self._rarely(0.75) else f"{literal} {sign} {name}"

    def _of(self, words: Sequence[str], column: str) -> str:
        word = self._pick(*words)
        word = word if self._tells_case else self._pick(word, word, word.upper(), f"`{word}`")
        return f"{word}{self._pick('.', '.', '.', ' . ')}{self._name(column)}"


def play(spark: SparkSession, seed: int, count: int) -> Tally:
    """Ask about `count` random conditions of merges."""
    tally = Tally()
    batch = 0
    while tally.asked.total() < count:
        chance = Random(f"merge/{seed}/{batch}")
        settings = sessions.drawn(chance)
        alias = chance.choice([None, None, "source", "s", "t", "src", "u", "order"])
        ours = _side(chance)
        theirs = _side(chance)
        structs = {*ours.structs, *theirs.structs}
        words = ["target"] if alias == "t" or "t" in structs else ["target", "t"]
        other = [w for w in ("source", "s") if w not in structs] + ([alias] if alias else [])
        grammar = _Joins(
            chance,
            words,
            other or ["source"],
            has_quoted_names=sessions.has_quoted_names(settings),
            tells_case="spark.sql.caseSensitive" in settings,
        )
        shape = TableShape(
            columns=ours.names,
            key=_KEY,
            partition=_PARTITION,
            fixed=frozenset((*_KEY, *_PARTITION)),
            ordering=(),
            required=frozenset(),
            is_partial=False,
            is_global=chance.random() < 0.3,
        )
        size = min(BATCH, count - tally.asked.total())
        with sessions.under(spark, settings):
            by_word: dict[str, list[Condition]] = {"target": [], "t": []}
            for condition in (grammar.match() for _ in range(size)):
                by_word[table_word([condition.text])].append(condition)
            for word, drawn in by_word.items():
                pairs = _pairs(spark, ours, theirs, word, alias)
                for condition, found in answers(pairs, drawn):
                    where_from = f"{seed}/{batch} alias {alias} {structs} {sessions.told(settings)}"
                    _judge(tally, spark, condition, found, shape, ours, theirs, where_from)
        batch += 1
    return tally


def _side(chance: Random) -> _Side:
    structs = tuple(name for name in _COLLISIONS if chance.random() < 0.12)
    made = []
    for _ in range(_SIDE):
        at = chance.randrange(rows.ROWS)
        row = {name: rows.COLUMNS[name][2][at] for name in _TYPES}
        # Few keys, so that sides meet.
        row["i"] = chance.choice([0, 1, 7, 8, None if chance.random() < 0.2 else 5])
        row["comment"] = chance.choice(["c1", "c2", None])
        for name in structs:
            row[name] = {"i": chance.choice([1, 5, 7]), "u": "a", "n": chance.choice([1, 5])}
        made.append(row)
    return _Side(made, structs)


def _pairs(
    spark: SparkSession, ours: _Side, theirs: _Side, word: str, alias: str | None
) -> DataFrame:
    """Return every pair of rows under the names that the guide gives them.

    A row of the table is called `target` and `t`, one of the source `source`, `s` and its alias.
    """
    table, source = ours.frame(spark, _AT), theirs.frame(spark, _BY)
    if alias is not None:
        source = source.alias(alias)
    taken = {*ours.names, *theirs.names}
    if word != "t" and alias != "t" and "t" not in taken:
        table = table.select("*", F.struct(*(F.col(f"`{n}`") for n in ours.names)).alias("t"))
    own = theirs.names
    for name in ("source", "s"):
        if name in taken:
            if alias is None:
                source = source.alias(name)
        elif name != alias:
            columns = (source[f"`{n}`"] for n in own)
            source = source.select("*", F.struct(*columns).alias(name))
    pairs = table.alias(word).crossJoin(source)
    return pairs.withColumn(NUMBER, F.col(_AT) * len(theirs.rows) + F.col(_BY))


def _judge(
    tally: Tally,
    spark: SparkSession,
    condition: Condition,
    found: frozenset[int] | None,
    shape: TableShape,
    ours: _Side,
    theirs: _Side,
    where_from: str,
) -> None:
    tally.asked[condition.kind] += 1
    if found is None:
        tally.refused[condition.kind] += 1
        return
    tally.matched[condition.kind] += bool(found)
    on = plan_on(condition.text, theirs.names, shape)
    where = condition_of_target(on) if is_read_alike(spark, condition.text) else None
    predicate = None if where is None else parse_where(where, _TYPES)
    kept = [predicate is None or may_match(predicate, _stats(row)) for row in ours.rows]
    wrong = []
    for number in range(len(ours.rows) * len(theirs.rows)):
        at, by = divmod(number, len(theirs.rows))
        left, right = ours.rows[at], theirs.rows[by]
        if number in found:
            if not kept[at]:
                wrong.append(f"leaves out {left} by {where}")
            wrong += [
                f"does not make {n} equal" for n in on.names if left.get(n, 0) != right.get(n, 0)
            ]
        elif on.covers_identity and _is_same(on, shape, left, right):
            wrong.append(f"does not cover {left}")
    if wrong:
        tally.wrong.append(f"{condition.text!r} {wrong[0]} ({where_from})")
    matched = {number // len(theirs.rows) for number in found}
    if where is not None:
        tally.could["merge"] += len(ours.rows) - len(matched)
        tally.did["merge"] += kept.count(False)
    tally.did["covers"] += on.covers_identity


def _is_same(on: On, shape: TableShape, left: Mapping[str, Any], right: Mapping[str, Any]) -> bool:
    """Return whether rows have one place in the table, and no null where that says nothing."""
    own = shape.key if shape.is_global else (*shape.key, *shape.partition)
    if any(left[name] is None for name in shape.key):
        return False  # no row has such a key
    if any(right[name] is None for name in on.may_be_null):
        return False
    return all(left[name] == right[name] for name in own)


def _stats(row: Mapping[str, Any]) -> dict[str, KnownValues]:
    return {
        name: KnownValues(
            minimum=row[name],
            maximum=row[name],
            null_count=int(row[name] is None),
            value_count=1,
        )
        for name in _TYPES
    }
