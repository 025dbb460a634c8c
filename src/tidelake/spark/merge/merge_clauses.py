"""A merge as it is asked for: what happens to rows that match, and to those that do not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from pyspark.sql import Column, DataFrame
from typing_extensions import override

from tidelake.errors import ConfigError
from tidelake.model import Commit, Word

Expression = str | Column


class Side(Word):
    """Which rows a clause is for."""

    MATCHED = "matched"
    NOT_MATCHED = "not matched"
    NOT_MATCHED_BY_SOURCE = "not matched by source"


class Deed(Word):
    """What a clause does."""

    UPDATE = "update"
    DELETE = "delete"
    INSERT = "insert"


@dataclass(frozen=True, slots=True, kw_only=True)
class Clause:
    """One clause of a merge; without `values` it takes every column from the source."""

    side: Side
    deed: Deed
    condition: Expression | None = None
    values: Mapping[str, Expression] | None = None

    def told(self) -> str:
        """Return the clause as people know it."""
        return f"when {self.side} {self.deed}"

    def described(self) -> str:
        """Return the clause with its condition and the columns that it sets."""
        condition = "" if self.condition is None else f" and {self.condition}"
        columns = ""
        if self.deed is not Deed.DELETE:
            columns = " all" if self.values is None else f" {', '.join(self.values)}"
        return f"when {self.side}{condition} {self.deed}{columns}"


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeRequest:
    """All that a merge is told."""

    source: DataFrame
    on: Expression | Sequence[str] | None
    clauses: tuple[Clause, ...] = ()
    evolves: bool = False

    def of(self, side: Side) -> tuple[Clause, ...]:
        """Return the clauses for some rows, in the order in which they are tried."""
        return tuple(clause for clause in self.clauses if clause.side is side)

    def expressions(self) -> list[Expression]:
        """Return every expression that the caller wrote."""
        found: list[Expression] = [self.on] if isinstance(self.on, str | Column) else []
        for clause in self.clauses:
            found += [] if clause.condition is None else [clause.condition]
            found += list((clause.values or {}).values())
        return found

    @property
    def may_match_twice(self) -> bool:
        """Return whether it is fine that several source rows match one row of the table.

        It is when nothing depends on which of them counts.
        """
        matched = self.of(Side.MATCHED)
        return not matched or (
            len(matched) == 1 and matched[0].deed is Deed.DELETE and matched[0].condition is None
        )


class RunMerge(Protocol):
    """Whoever carries a merge out."""

    def __call__(
        self, request: MergeRequest, options: Mapping[str, str] | None, write_id: str | None
    ) -> Commit:
        """Write the merge as one commit."""


@dataclass(frozen=True, slots=True, repr=False)
class MergeBuilder:
    """A merge in the making; every call returns a new one, and `execute` runs it.

    Expressions are SQL texts or Columns. They name columns as `target.x` and `source.x`, in short
    `t.x` and `s.x`; an alias of the source DataFrame works too, and so does the bare name of a
    column that only one of the two has. Of the clauses for a row the first whose condition is true
    applies; a condition that is null is not true.
    """

    _request: MergeRequest
    _run: RunMerge

    def when_matched_update(
        self, values: Mapping[str, Expression], condition: Expression | None = None
    ) -> MergeBuilder:
        """Give columns of the table's row new values, made from both rows."""
        return self._with(Side.MATCHED, Deed.UPDATE, condition, values)

    def when_matched_update_all(self, condition: Expression | None = None) -> MergeBuilder:
        """Give every column of the table's row the value of the source column with its name."""
        return self._with(Side.MATCHED, Deed.UPDATE, condition)

    def when_matched_delete(self, condition: Expression | None = None) -> MergeBuilder:
        """Delete the table's row."""
        return self._with(Side.MATCHED, Deed.DELETE, condition)

    def when_not_matched_insert(
        self, values: Mapping[str, Expression], condition: Expression | None = None
    ) -> MergeBuilder:
        """Insert a row made from the source row; columns without a value are null."""
        return self._with(Side.NOT_MATCHED, Deed.INSERT, condition, values)

    def when_not_matched_insert_all(self, condition: Expression | None = None) -> MergeBuilder:
        """Insert the source row."""
        return self._with(Side.NOT_MATCHED, Deed.INSERT, condition)

    def when_not_matched_by_source_update(
        self, values: Mapping[str, Expression], condition: Expression | None = None
    ) -> MergeBuilder:
        """Give columns of rows that no source row matches new values, made from these rows."""
        return self._with(Side.NOT_MATCHED_BY_SOURCE, Deed.UPDATE, condition, values)

    def when_not_matched_by_source_delete(
        self, condition: Expression | None = None
    ) -> MergeBuilder:
        """Delete rows that no source row matches."""
        return self._with(Side.NOT_MATCHED_BY_SOURCE, Deed.DELETE, condition)

    def with_schema_evolution(self) -> MergeBuilder:
        """Add columns that only the source has to the table, and widen types."""
        return replace(self, _request=replace(self._request, evolves=True))

    def execute(
        self, options: Mapping[str, str] | None = None, *, write_id: str | None = None
    ) -> Commit:
        """Write the merge as one commit; the same `write_id` twice commits once.

        Raises `SchemaError` when an expression does not fit, when several source rows match one
        row of the table, when a row would get another key or partition, and when a row to insert
        has no key or one that the table has; nothing is written then.
        """
        if not self._request.clauses:
            raise ConfigError(
                "the merge has no clause, so it would do nothing",
                next_step="add one, such as .when_matched_update_all()",
            )
        return self._run(self._request, options, write_id)

    @override
    def __repr__(self) -> str:
        on = self._request.on
        if on is None:
            on = "the record key"
        elif not isinstance(on, str | Column):
            on = ", ".join(on)
        evolves = ["with schema evolution"] if self._request.evolves else []
        clauses = [clause.described() for clause in self._request.clauses] or ["no clause yet"]
        return "\n  ".join([f"merge on {on}, which execute() writes", *clauses, *evolves])

    def _with(
        self,
        side: Side,
        deed: Deed,
        condition: Expression | None,
        values: Mapping[str, Expression] | None = None,
    ) -> MergeBuilder:
        clause = Clause(
            side=side,
            deed=deed,
            condition=condition,
            values=None if values is None else dict(values),
        )
        if values is not None and not values:
            raise ConfigError(
                f"{clause.told()} sets no column", next_step="name columns and their values"
            )
        before = self._request.of(side)
        if before and before[-1].condition is None:
            raise ConfigError(
                f"{clause.told()} follows a clause for the same rows that has no condition, so it "
                "would never apply",
                next_step="put the clause without condition last",
            )
        clauses = (*self._request.clauses, clause)
        return replace(self, _request=replace(self._request, clauses=clauses))
