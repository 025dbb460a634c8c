"""What each clause of a merge does to each column, settled before a row is looked at."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from pyspark.sql import Column
from pyspark.sql import types as T  # noqa: N812 - the customary name

from tidelake.errors import ConfigError, SchemaError
from tidelake.files.write_task import ColumnSet
from tidelake.records.schema import top_level
from tidelake.spark.merge.merge_clauses import Clause, Deed, Expression, MergeRequest, Side

if TYPE_CHECKING:
    from tidelake.spark.merge.conditions import Qualifiers

#: How expressions call a row of the table.
TABLE_WORDS = ("target", "t")


@dataclass(frozen=True, slots=True)
class FromSource:
    """The value that the source row has in a column."""

    name: str


@dataclass(frozen=True, slots=True)
class FromTarget:
    """The value that the table's row has in a column."""

    name: str


Value = FromSource | FromTarget | Expression


@dataclass(frozen=True, slots=True, kw_only=True)
class TableShape:
    """The columns of the table after the merge, and what some of them are for.

    `fixed` are those of `key` and `partition` that stand in key and path as they are, so that they
    cannot change unless these do. `is_partial` says that rows may be written without the columns
    that they leave as they are, and `is_global` that a key may be in one partition alone. `recast`
    are columns that may not hold the source's value of their name as it is.
    """

    columns: tuple[str, ...]
    key: tuple[str, ...]
    partition: tuple[str, ...]
    fixed: frozenset[str]
    ordering: tuple[str, ...]
    required: frozenset[str]
    is_partial: bool
    is_global: bool = False
    recast: frozenset[str] = frozenset()

    @property
    def unique_by(self) -> frozenset[str]:
        """Return the columns of which two rows with one place in the table have the same values."""
        own = self.key if self.is_global else (*self.key, *self.partition)
        return self.fixed & set(own)

    @property
    def never_null(self) -> frozenset[str]:
        """Return the columns that have a value in every row; of several key fields one may not."""
        return frozenset(self.key if len(self.key) == 1 else ())

    @property
    def identity(self) -> list[str]:
        """Return the columns that key and partition path are made of."""
        return top_level((*self.key, *self.partition))


@dataclass(frozen=True, slots=True, kw_only=True)
class ClausePlan:
    """One clause: the values of the rows that it makes, and which columns these rows bring.

    `column_set` is None for whole rows. With `checks_identity` the values say what the row's key
    and partition would be, which must not change. `made` are the columns of key and partition that
    an insert does not take from the source as they are.
    """

    clause: Clause
    values: Mapping[str, Value]
    column_set: int | None = None
    checks_identity: bool = False
    made: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class MergePlan:
    """The clauses in the order in which they are tried."""

    clauses: tuple[ClausePlan, ...]
    column_sets: tuple[ColumnSet, ...]

    def target_columns(self) -> set[str]:
        """Return the columns of the table's rows that plans need, expressions aside."""
        values = (value for plan in self.clauses for value in plan.values.values())
        return {value.name for value in values if isinstance(value, FromTarget)}


def plan_merge(request: MergeRequest, source: Sequence[str], shape: TableShape) -> MergePlan:
    """Return what the clauses do; raise `SchemaError` for columns that are not there or missing."""
    sets: list[ColumnSet] = []
    plans = []
    for clause in request.clauses:
        if clause.deed is Deed.DELETE:
            plans.append(ClausePlan(clause=clause, values={}))
            continue
        values = _values(clause, source, shape, evolves=request.evolves)
        if clause.deed is Deed.INSERT:
            _refuse_incomplete(clause, values, shape)
            words = _qualifiers(request.expressions(), source, shape)
            made = frozenset(
                name
                for name in shape.identity
                if name in shape.recast or _taken(values[name], words) != name.lower()
            )
            plans.append(ClausePlan(clause=clause, values=values, made=made))
            continue
        plans.append(_update(clause, values, shape, sets))
    return MergePlan(clauses=tuple(plans), column_sets=tuple(sets))


def _taken(value: Value, words: Qualifiers) -> str | None:
    """Return the column of the source that is the value, in small letters, if it is one."""
    from tidelake.spark.merge.conditions import source_column  # see `mentions`

    if isinstance(value, FromSource):
        return value.name.lower()
    return source_column(value, words) if isinstance(value, str) else None


def _qualifiers(
    expressions: Iterable[Expression], source: Sequence[str], shape: TableShape
) -> Qualifiers:
    """Return what words in front of a dot mean in the expressions of a merge."""
    from tidelake.spark.merge.conditions import Qualifiers  # see `mentions`

    word = table_word(expressions)
    # The source may have an alias that is the other word.
    other = [each for each in TABLE_WORDS if each != word]
    return Qualifiers.of(word, (*other, *shape.columns, *source), (shape.columns, source))


def added_columns(request: MergeRequest, source: T.StructType, table: Sequence[str]) -> list[str]:
    """Return the source columns that the merge adds to the table."""
    if not request.evolves:
        return []
    known = {name.lower() for name in table}
    new = [f.name for f in source.fields if f.name.lower() not in known]
    if takes_all(request):
        return new
    named = {name.lower() for c in request.clauses for name in c.values or ()}
    return [name for name in new if name.lower() in named]


def takes_all(request: MergeRequest) -> bool:
    """Return whether a clause takes every column from the source."""
    return any(c.values is None and c.deed is not Deed.DELETE for c in request.clauses)


def _values(
    clause: Clause, source: Sequence[str], shape: TableShape, *, evolves: bool
) -> dict[str, Value]:
    if clause.values is None:
        found = {name: matching(name, source) for name in shape.columns}
        missing = [name for name, own in found.items() if own is None]
        if missing and not evolves:
            raise SchemaError(
                f"{clause.told()} takes every column from the source, which has no "
                f"{', '.join(missing)}",
                next_step="add it to the source, name the columns with their values, or allow "
                "sources with other columns by with_schema_evolution()",
            )
        return {name: FromSource(own) for name, own in found.items() if own is not None}
    made: dict[str, Value] = {}
    for wanted, value in clause.values.items():
        name = matching(wanted.strip("`"), shape.columns)
        if name is None:
            raise SchemaError(
                f"{clause.told()} sets {wanted}, which is no column of the table",
                next_step=f"its columns are {', '.join(shape.columns)}",
            )
        if name in made:
            raise SchemaError(f"{clause.told()} sets {name} twice", next_step="set it once")
        made[name] = value
    return made


def _update(
    clause: Clause, values: Mapping[str, Value], shape: TableShape, sets: list[ColumnSet]
) -> ClausePlan:
    identity = shape.identity
    touches = [name for name in values if name in identity]
    # What may not change needs no writing.
    brought = [n for n in shape.columns if n in values and n not in shape.fixed]
    brought += [n for n in top_level(shape.ordering) if n not in values]
    made: dict[str, Value] = dict(values)
    if touches or not _leaves_out(brought, shape):
        made |= {name: FromTarget(name) for name in identity if name not in made}
    if not _leaves_out(brought, shape):
        made |= {name: FromTarget(name) for name in shape.columns if name not in made}
        return ClausePlan(clause=clause, values=made, checks_identity=bool(touches))
    made |= {name: FromTarget(name) for name in brought if name not in made}
    own = ColumnSet(names=tuple(n for n in shape.columns if n in brought), is_known=True)
    if own not in sets:
        sets.append(own)
    return ClausePlan(
        clause=clause,
        values=made,
        column_set=sets.index(own),
        checks_identity=bool(touches),
    )


def _leaves_out(brought: Sequence[str], shape: TableShape) -> bool:
    """Return whether the rows are written without some columns, besides those that say who is who.

    Rows that change all others are written whole, so that any reader can do with them.
    """
    if not shape.is_partial:
        return False
    return any(name not in brought and name not in shape.fixed for name in shape.columns)


def _refuse_incomplete(clause: Clause, values: Mapping[str, Value], shape: TableShape) -> None:
    needed = [*shape.identity, *top_level(shape.ordering)]
    needed += sorted(shape.required)
    missing = [name for name in dict.fromkeys(needed) if name not in values]
    if missing:
        raise SchemaError(
            f"{clause.told()} gives no value to {', '.join(missing)}, which every row needs",
            next_step="give it one",
        )


def matching(name: str, columns: Iterable[str]) -> str | None:
    """Return the column of that name, whatever the case of its letters."""
    given = list(columns)
    if name in given:
        return name
    return next((each for each in given if each.lower() == name.lower()), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class On:
    """How rows find each other: by their identity, by columns of one name, or by a condition.

    `names` are columns whose equality the match implies; `covers_identity` says that a row which
    matches none has a key that the table does not have, unless one of `may_be_null` is null: no
    null equals another.
    """

    by_identity: bool = False
    names: tuple[str, ...] = ()
    condition: Expression | None = None
    covers_identity: bool = False
    may_be_null: tuple[str, ...] = ()
    qualifiers: Qualifiers | None = None


def plan_on(
    on: Expression | Sequence[str] | None,
    source: Sequence[str],
    shape: TableShape,
    expressions: Iterable[Expression] = (),
) -> On:
    """Return how the merge finds matches; raise `SchemaError` for columns that are not there.

    `expressions` are all those of the merge: which word means the table depends on them.
    """
    if on is None:
        if not shape.key:
            raise ConfigError(
                "the table makes up its keys, so rows cannot find each other by them",
                next_step='say how they do: merge(source, on="target.id = source.id")',
            )
        return On(by_identity=True, covers_identity=True)
    if isinstance(on, Column):
        return On(condition=on)
    if isinstance(on, str):
        names = [on.strip("` ")]
        if matching(names[0], shape.columns) is None or matching(names[0], source) is None:
            from tidelake.spark.merge.conditions import equal_columns  # see `mentions`

            words = _qualifiers([on, *expressions], source, shape)
            equal = equal_columns(on, words)
            names = [matching(name, shape.columns) or name for name in equal or ()]
            found = _by_names(names, shape, is_all=equal is not None)
            return replace(found, condition=on, qualifiers=words)
    else:
        names = list(on)
    if not names:
        raise ConfigError("`on` names no column", next_step="name one, or leave `on` out")
    for name in names:
        for where, known in (("table", shape.columns), ("source", source)):
            if matching(name, known) is None:
                raise SchemaError(
                    f"the {where} has no column {name}, by which rows are to match",
                    next_step=f"its columns are {', '.join(known)}",
                )
    return _by_names([matching(name, shape.columns) or name for name in names], shape)


def _by_names(names: Sequence[str], shape: TableShape, *, is_all: bool = True) -> On:
    """Return what the equality of columns, which may not be all that is asked for, says."""
    return On(
        names=tuple(names),
        covers_identity=is_all and shape.unique_by >= set(names),
        may_be_null=tuple(name for name in names if name not in shape.never_null),
    )


def condition_of_target(on: On) -> str | None:
    """Return what a match says of the table's row alone, as a condition on its columns."""
    if not isinstance(on.condition, str) or on.qualifiers is None:
        return None
    from tidelake.spark.merge.conditions import table_condition  # see `mentions`

    return table_condition(on.condition, on.qualifiers)


def table_word(expressions: Iterable[Expression]) -> str:
    """Return the word that means a row of the table, before anything that is called the same."""
    given = list(expressions)
    return "t" if mentions(given, "t") and not mentions(given, "target") else "target"


def mentions(expressions: Iterable[Expression], qualifier: str) -> bool:
    """Return whether an expression may name columns behind a qualifier."""
    # The SQL parser takes a third of a second to load, and most programs never merge.
    from tidelake.spark.merge.conditions import may_mention, mentions_qualifier

    return any(
        mentions_qualifier(each, qualifier)
        if isinstance(each, str)
        else may_mention(str(each), qualifier)
        for each in expressions
    )


def read_columns(
    request: MergeRequest, plan: MergePlan, on: On, shape: TableShape
) -> list[str] | None:
    """Return the columns of the table that the merge looks at; None when nobody can tell.

    Texts are searched for names. What other expressions look at is not known.
    """
    from tidelake.spark.merge.conditions import names_all_columns  # see `mentions`

    expressions = request.expressions()
    if any(isinstance(each, Column) for each in expressions):
        return None
    words = {word.lower() for each in expressions for word in re.findall(r"\w+", str(each))}
    wanted = {*plan.target_columns(), *on.names, *top_level(shape.ordering)}
    odd = any(not re.fullmatch(r"\w+", name) for name in shape.columns)
    if odd or any(names_all_columns(str(each)) for each in expressions):
        return None
    return [n for n in shape.columns if n in wanted or n.lower() in words]


def sides(request: MergeRequest) -> tuple[bool, bool, bool]:
    """Return whether there are clauses for rows that match, for new ones, and for left ones."""
    return (
        bool(request.of(Side.MATCHED)),
        bool(request.of(Side.NOT_MATCHED)),
        bool(request.of(Side.NOT_MATCHED_BY_SOURCE)),
    )
