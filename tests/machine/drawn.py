"""Steps drawn from a seed, with an eye on what the table holds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from random import Random  # noqa: TID251 - every one of them is seeded
from typing import Any, TypeVar

from tests.machine.conditions import (
    Expression,
    Named,
    columns_of,
    condition,
    literal,
)
from tests.machine.kinds import Kind
from tests.machine.rows import ADDED, PARTITIONS, WIDER, Columns, Row, as_values, value
from tests.machine.steps import SERVICES, Clause, Deed, Do, Door, On, Step
from tests.machine.truth import Rows

T = TypeVar("T")

#: How often each operation is drawn.
_WEIGHTS: Mapping[Do, int] = {
    Do.UPSERT: 8,
    Do.INSERT: 3,
    Do.INSERT_NEW: 1,
    Do.BULK_INSERT: 1,
    Do.PARTIAL: 3,
    Do.DELETE: 4,
    Do.MERGE: 6,
    Do.UPDATE_WHERE: 3,
    Do.DELETE_WHERE: 2,
    Do.OVERWRITE: 1,
    Do.OVERWRITE_TABLE: 1,
    Do.DELETE_PARTITIONS: 1,
    Do.SINK: 2,
    Do.SCHEDULE: 2,
    Do.COMPACT: 3,
    Do.CLEAN: 2,
    Do.ARCHIVE: 1,
    Do.SAVEPOINT: 1,
    Do.RESTORE: 1,
    Do.ROLLBACK: 2,
}
_QUICK = frozenset(
    {
        Do.UPSERT,
        Do.INSERT,
        Do.INSERT_NEW,
        Do.BULK_INSERT,
        Do.PARTIAL,
        Do.DELETE,
        Do.OVERWRITE,
        Do.OVERWRITE_TABLE,
    }
)
#: Operations that take the newest of several rows of a key.
_COMBINING = frozenset({Do.UPSERT, Do.SINK, Do.PARTIAL, Do.INSERT_NEW})
_UNDOING = (Do.CLEAN, Do.SAVEPOINT, Do.RESTORE, Do.ROLLBACK)
_SPARK = frozenset({Do.MERGE, Do.UPDATE_WHERE, Do.DELETE_WHERE, Do.SINK, Do.DELETE_PARTITIONS})


class Drawing:
    """Draws steps; `spark` is the share of writes that go through Spark where others would do."""

    def __init__(
        self, kind: Kind, random: Random, spark: float | None, often: Mapping[Do, int]
    ) -> None:
        self._kind = kind
        self._random = random
        self._spark = spark
        self._weights = {**_WEIGHTS, **often}
        self._batches = 0
        self._new = 0

    def step(self, rows: Rows, *, commits: int, savepoints: int) -> Step:
        """Return the next step for a table that has so many commits, and savepoints of them."""
        random = self._random
        weights = {
            do: n
            for do, n in self._weights.items()
            if self._is_possible(do, rows)
            and (commits or do not in SERVICES)
            and (savepoints or do is not Do.RESTORE)
        }
        do = random.choices(list(weights), list(weights.values()))[0]
        if do in (Do.SCHEDULE, Do.COMPACT):
            return Step(do=do)
        if do is Do.CLEAN:
            return Step(do=do, number=random.randint(1, 3))
        if do is Do.ARCHIVE:
            return Step(do=do, number=random.randint(2, 4))
        if do in (Do.SAVEPOINT, Do.RESTORE, Do.ROLLBACK):
            return Step(do=do)
        if do is Do.DELETE_PARTITIONS:
            known = sorted({row["p"] for row in rows.plain})
            return Step(do=do, partitions=(random.choice(known),))
        if do in (Do.UPDATE_WHERE, Do.DELETE_WHERE):
            return self._by_condition(do, rows)
        if do is Do.MERGE:
            return self._merge(rows)
        return self._bringing(do, rows)

    def _is_possible(self, do: Do, rows: Rows) -> bool:
        kind = self._kind
        if self._spark is None and do in _SPARK:
            return False
        if do in (Do.SCHEDULE, Do.COMPACT) and not kind.mor:
            return False
        if do is Do.SCHEDULE and kind.takes_partial and kind.mor and kind.ordering:
            return False  # what is folded while others write is beyond this truth
        if do is Do.PARTIAL and not kind.takes_partial:
            return False
        if not rows.now:
            return do in (Do.UPSERT, Do.INSERT, Do.BULK_INSERT, Do.SINK, Do.DELETE, *_UNDOING)
        return do is not Do.DELETE_PARTITIONS or bool(kind.partition)

    def _door(self, do: Do) -> Door:
        if self._spark is None:
            return Door.QUICK
        may_be_quick = do in _QUICK and not self._kind.has_spark_doors_only
        if may_be_quick and self._random.random() >= self._spark:
            return Door.QUICK
        if may_be_quick and self._random.random() < 0.05:
            return Door.FORMAT
        return Door.TABLE

    def _bringing(self, do: Do, rows: Rows) -> Step:
        random, kind = self._random, self._kind
        columns = self._columns(rows, do)
        shown = columns or rows.columns
        if do is Do.DELETE:
            made: list[Row] = self._some(rows.plain, 3)
            made += [self._row(shown, self._new_key()) for _ in range(random.randint(0, 1))]
        elif do in (Do.UPSERT, Do.PARTIAL, Do.SINK):
            made = [self._changed(row, shown) for row in self._some(rows.plain, 4)]
            made += [self._row(shown, self._new_key(rows)) for _ in range(random.randint(0, 3))]
            if not made:
                made = [self._row(shown, self._new_key())]
        else:
            made = [self._row(shown, self._new_key(rows)) for _ in range(random.randint(1, 5))]
            if do is Do.INSERT_NEW:
                made += [self._changed(row, shown) for row in self._some(rows.plain, 3)]
                made += [self._row(shown, row) for row in self._some(made, 2)]
            elif do is Do.OVERWRITE:
                touched = {kind.place(row) for row in made}
                again = [r for r in self._some(rows.plain, 3) if kind.place(r) in touched]
                made += [{**self._row(shown, row), "p": row["p"]} for row in again]
            elif do is Do.OVERWRITE_TABLE:
                made += [self._row(shown, row) for row in self._some(rows.plain, 2)]
            if do in (Do.INSERT, Do.BULK_INSERT, Do.OVERWRITE):
                # An insert keeps keys twice that the table has already.
                touched = {kind.place(row) for row in made} if do is Do.OVERWRITE else set()
                known = {k for k, kept in rows.now.items() if kind.place(kept.row) not in touched}
                made = [row for row in made if kind.identity(row) not in known]
            made = made or [self._row(shown, self._new_key())]
        if do is Do.DELETE:
            columns = {n: rows.columns[n] for n in rows.columns if n in (*kind.key, "p", "id")}
        number, is_again = 0, False
        if do is Do.SINK:
            self._batches += 1
            number = self._batches
        rows_made = self._without_ties(made, do)
        return Step(
            do=do,
            door=self._door(do),
            rows=tuple({name: row.get(name) for name in (columns or shown)} for row in rows_made),
            columns=columns,
            number=number,
            is_again=is_again,
        )

    def _columns(self, rows: Rows, do: Do) -> Columns | None:
        """Return the columns of the rows to write, None for those of the table."""
        random, kind = self._random, self._kind
        if do is Do.PARTIAL:
            always = {*kind.key, *kind.partition, *kind.ordering}
            chosen = {n for n in rows.columns if random.random() < 0.4}
            return {n: t for n, t in rows.columns.items() if n in always | chosen}
        if random.random() > 0.08 or do is Do.DELETE:
            return None
        columns = dict(rows.columns)
        new = [name for name in ADDED if name not in columns]
        if new and random.random() < 0.5:
            return {**columns, new[0]: ADDED[new[0]]}
        fixed = {*kind.key, *kind.partition, *kind.ordering}
        wider = [n for n, kind_of in columns.items() if kind_of in WIDER and n not in fixed]
        if not wider:
            return None
        chosen_one = random.choice(wider)
        return {**columns, chosen_one: WIDER[columns[chosen_one]]}

    def _without_ties(self, made: Sequence[Row], do: Do) -> list[Row]:
        """Leave out rows of which nobody could say which is the newest of a key."""
        kind = self._kind
        found: dict[Any, Row] = {}
        for row in made:
            mark = (
                kind.identity(row)
                if do not in _COMBINING or not kind.ordering
                else (kind.identity(row), kind.order(row))
            )
            found.setdefault(mark, row)
        return list(found.values())

    def _some(self, given: Sequence[T], most: int) -> list[T]:
        return self._random.sample(given, min(len(given), self._random.randint(0, most)))

    def _new_key(self, rows: Rows | None = None) -> Row:
        """Return a key that is new, or now and then one that was deleted."""
        random = self._random
        gone: list[Row] = []
        if rows is not None:
            gone = [ones[-1].row for key, ones in rows.past.items() if ones and key not in rows.now]
        if gone and random.random() < 0.5:
            return random.choice(gone)
        self._new += 1
        k = 1 if random.random() > 0.3 else random.choice((2, None))
        return {"id": f"k{self._new}" if random.random() < 0.9 else f"k,{self._new}:a", "k": k}

    def _row(self, columns: Columns, key: Row) -> Row:
        random = self._random
        made = {name: self._value(name) for name in columns}
        place = random.choice(PARTITIONS[:2] if random.random() < 0.8 else PARTITIONS)
        return {**made, "id": key["id"], "k": key["k"], "p": place}

    def _value(self, name: str) -> Any:
        made = value(self._random, name)
        is_owed = name in self._kind.ordering and not self._kind.has_nulls
        while made is None and is_owed:
            made = value(self._random, name)
        return made

    def _changed(self, row: Row, columns: Columns) -> Row:
        made = {**self._row(columns, row)}
        # Under a global index a key may come back in another partition.
        moves = self._kind.is_global and bool(self._kind.partition) and self._random.random() < 0.5
        if not moves:
            made["p"] = row["p"]
        if self._random.random() < 0.2:
            made |= {name: row.get(name) for name in self._kind.ordering}
        return made

    def _settable(self, columns: Columns) -> list[str]:
        fixed = {*self._kind.key, *self._kind.partition, "id", "k", "p"}
        return [name for name in columns if name not in fixed]

    def _literals(self, columns: Columns, chosen: Sequence[str]) -> dict[str, Expression]:
        found = {}
        for name in chosen:
            kind = columns[name]
            may_be_null = self._kind.has_nulls or name not in self._kind.ordering
            named = Named(name, name, kind, name)
            made = literal(self._random, named, is_null=0.2 if may_be_null else 0)
            if kind.startswith("struct"):
                number = made
                if number.sql == "NULL":
                    found[name] = Expression("NULL", lambda _: None)
                else:
                    found[name] = Expression(
                        f"named_struct('a', {number.sql}, 't', 'a')",
                        lambda _, number=number: {"a": number.of({}), "t": "a"},  # type: ignore[misc] # a default binds it
                    )
            else:
                found[name] = made
        return found

    def _by_condition(self, do: Do, rows: Rows) -> Step:
        random = self._random
        where = condition(random, columns_of(rows.columns))
        if do is Do.DELETE_WHERE:
            return Step(do=do, where=where)
        names = self._settable(rows.columns)
        chosen = random.sample(names, random.randint(1, 2))
        return Step(do=do, where=where, values=self._literals(rows.columns, chosen))

    def _merge(self, rows: Rows) -> Step:
        random, kind = self._random, self._kind
        columns = rows.columns
        source = [self._changed(row, columns) for row in self._some(rows.plain, 4)]
        if random.random() < 0.9:
            source = [
                {**row, "p": next(r["p"] for r in rows.plain if r["id"] == row["id"])}
                for row in source
            ]
        source += [self._row(columns, self._new_key(rows)) for _ in range(random.randint(0, 3))]
        if random.random() < 0.1 and rows.now:
            # The same row as the table has.
            source = [dict(random.choice(rows.plain)), *source]
        unique: dict[Any, Row] = {}
        for row in source:
            unique.setdefault(tuple(row[name] for name in kind.key), row)
        source = list(unique.values()) or [self._row(columns, self._new_key())]
        alias = random.choice((None, None, "u", "t"))
        theirs = alias or random.choice(("source", "s"))
        ours = "target" if alias == "t" else random.choice(("target", "t", "TARGET"))
        both = [
            *columns_of(columns, f"{ours}.", "target."),
            *columns_of(columns, f"{theirs}.", "source."),
        ]
        of_source = columns_of(columns, f"{theirs}.", "source.")
        of_target = columns_of(columns, f"{ours}.", "target.")
        on = self._on(ours, theirs, both)
        changed = _changed_at_all(ours, theirs)
        matched = self._clauses(
            both,
            lambda: self._update(columns, ours, theirs),
            (Deed.UPDATE, Deed.UPDATE, Deed.UPDATE_ALL, Deed.DELETE),
        )
        unmatched = self._clauses(
            of_source, lambda: self._insert(columns, theirs), (Deed.INSERT, Deed.INSERT_ALL)
        )
        left: tuple[Clause, ...] = ()
        if random.random() < 0.3:
            left = self._clauses(
                of_target, lambda: self._update(columns, ours, None), (Deed.UPDATE, Deed.DELETE)
            )
        if matched and random.random() < 0.15:
            first = replace(matched[0], condition=changed)
            matched = (first, *(one for one in matched[1:] if one.condition is not None))
        if not (matched or unmatched or left):
            unmatched = (Clause(deed=Deed.INSERT_ALL),)
        return Step(
            do=Do.MERGE,
            rows=tuple(source),
            on=on,
            alias=alias,
            matched=matched,
            unmatched=unmatched,
            left=left,
        )

    def _on(self, ours: str, theirs: str, both: Sequence[Named]) -> On:
        random, kind = self._random, self._kind
        # Where the source is called `t`, something has to name the table in full.
        drawn = random.uniform(0.55 if theirs == "t" else 0, 1)
        if drawn < 0.3:
            return On()
        if drawn < 0.45:
            return On(names=kind.key)
        if drawn < 0.55 and kind.partition:
            return On(names=(*kind.key, *kind.partition))
        equal = [f"{ours}.{name} = {theirs}.{name}" for name in kind.key]
        if drawn < 0.75:
            return On(names=kind.key, text=" AND ".join(equal))
        also = condition(random, both, 1)
        pieces = [*equal, also.sql]
        random.shuffle(pieces)
        return On(names=kind.key, text=" AND ".join(pieces), also=also)

    def _clauses(
        self, names: Sequence[Named], make: Any, deeds: Sequence[Deed]
    ) -> tuple[Clause, ...]:
        random = self._random
        found = []
        for number in range(random.choice((0, 1, 1, 2))):
            deed = random.choice(deeds)
            is_bare = number == 0 and random.random() < 0.3
            when = None if is_bare else condition(random, names, 1)
            values = make() if deed in (Deed.UPDATE, Deed.INSERT) else None
            found.append(Clause(deed=deed, condition=when, values=values))
            if is_bare:
                break
        return tuple(found)

    def _update(self, columns: Columns, ours: str, theirs: str | None) -> Mapping[str, Expression]:
        random = self._random
        names = self._settable(columns)
        chosen = random.sample(names, random.randint(1, 3))
        found = self._literals(columns, chosen)
        for name in chosen:
            drawn = random.random()
            if theirs is not None and drawn < 0.5:
                found[name] = _column(f"{theirs}.{name}", f"source.{name}")
            elif drawn < 0.6:
                found[name] = _column(f"{ours}.{name}", f"target.{name}")
        return found

    def _insert(self, columns: Columns, theirs: str) -> Mapping[str, Expression]:
        kind = self._kind
        always = {*kind.key, *kind.partition, *kind.ordering, "id", "p"}
        return {
            name: _column(f"{theirs}.{name}", f"source.{name}")
            for name in columns
            if name in always or self._random.random() < 0.6
        }


def _changed_at_all(ours: str, theirs: str) -> Expression:
    """Return whether two rows differ in any column; nulls are left out of JSON, names are not."""

    def holds(scope: Mapping[str, Any]) -> bool:
        names = [key.partition(".")[2] for key in scope if key.startswith("target.")]
        ours, theirs = ({n: scope[f"{side}.{n}"] for n in names} for side in ("target", "source"))
        return as_values(ours, names) != as_values(theirs, names)

    return Expression(f"to_json(struct({ours}.*)) <> to_json(struct({theirs}.*))", holds)


def _column(sql: str, key: str) -> Expression:
    return Expression(sql, lambda row: row[key])
