"""What can be done to a table, as values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tests.machine.conditions import Expression
from tests.machine.rows import Columns, Row
from tidelake.model import Word


class Do(Word):
    """An operation."""

    INSERT = "insert"
    INSERT_NEW = "insert, without duplicates"
    BULK_INSERT = "bulk insert"
    UPSERT = "upsert"
    PARTIAL = "partial upsert"
    DELETE = "delete"
    MERGE = "merge"
    UPDATE_WHERE = "update where"
    DELETE_WHERE = "delete where"
    OVERWRITE = "overwrite"
    OVERWRITE_TABLE = "overwrite table"
    DELETE_PARTITIONS = "delete partitions"
    SINK = "sink"
    SCHEDULE = "schedule a compaction"
    COMPACT = "compact"
    CLEAN = "clean"
    ARCHIVE = "archive"
    SAVEPOINT = "savepoint"
    RESTORE = "restore"
    ROLLBACK = "rollback"


#: Operations whose rows come through a DataFrame or a data source.
BRINGING = frozenset(
    {
        Do.INSERT,
        Do.INSERT_NEW,
        Do.BULK_INSERT,
        Do.UPSERT,
        Do.PARTIAL,
        Do.DELETE,
        Do.OVERWRITE,
        Do.OVERWRITE_TABLE,
        Do.SINK,
    }
)
SERVICES = frozenset(
    {
        Do.SCHEDULE,
        Do.COMPACT,
        Do.CLEAN,
        Do.ARCHIVE,
        Do.SAVEPOINT,
        Do.RESTORE,
        Do.ROLLBACK,
    }
)


class Door(Word):
    """The way by which an operation is asked for."""

    QUICK = "data source, here"
    TABLE = "Table"
    FORMAT = "data source"


class Deed(Word):
    """What a clause of a merge does."""

    UPDATE = "update"
    UPDATE_ALL = "update all"
    DELETE = "delete"
    INSERT = "insert"
    INSERT_ALL = "insert all"


@dataclass(frozen=True, slots=True, kw_only=True)
class Clause:
    """One clause of a merge."""

    deed: Deed
    condition: Expression | None = None
    values: Mapping[str, Expression] | None = None

    @property
    def told(self) -> str:
        """Return the clause as a person reads it."""
        when = "" if self.condition is None else f" if {self.condition.sql}"
        what = "" if self.values is None else f" { ({n: e.sql for n, e in self.values.items()}) }"
        return f"{self.deed.value}{what}{when}"


@dataclass(frozen=True, slots=True, kw_only=True)
class On:
    """What a merge matches by: None, names, or a text with its meaning."""

    names: tuple[str, ...] = ()
    text: str | None = None
    also: Expression | None = None
    """What else has to be true, besides the names being equal."""

    @property
    def is_identity(self) -> bool:
        """Return whether rows match that an upsert takes for the same."""
        return not self.names and self.text is None


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One thing to do."""

    do: Do
    door: Door = Door.TABLE
    rows: tuple[Row, ...] = ()
    columns: Columns | None = None
    """The columns of the rows, where they are not all of the table's."""
    where: Expression | None = None
    values: Mapping[str, Expression] | None = None
    partitions: tuple[str, ...] = ()
    on: On = On()
    alias: str | None = None
    matched: tuple[Clause, ...] = ()
    unmatched: tuple[Clause, ...] = ()
    left: tuple[Clause, ...] = ()
    """Clauses for rows of the table that no row of the source matches."""
    number: int = 0
    """The batch of a sink, or how many commits a service keeps."""
    is_again: bool = False
    """Whether the batch of a sink is one that was brought before."""

    @property
    def told(self) -> str:
        """Return the step as a person reads it."""
        parts = [self.do.value if self.do in SERVICES else f"{self.do.value} ({self.door.value})"]
        if self.columns is not None:
            parts.append(f"columns={dict(self.columns)}")
        if self.rows:
            parts.append("\n      " + "\n      ".join(str(dict(row)) for row in self.rows))
        if self.where is not None:
            parts.append(self.where.sql)
        if self.values is not None:
            parts.append(str({name: one.sql for name, one in self.values.items()}))
        if self.partitions:
            parts.append(str(self.partitions))
        if self.do is Do.MERGE:
            parts.append(f"on={self.on.text or self.on.names or None} alias={self.alias}")
            for name, clauses in (
                ("matched", self.matched),
                ("not matched", self.unmatched),
                ("by source", self.left),
            ):
                parts += [f"\n      {name}: {clause.told}" for clause in clauses]
        if self.number:
            parts.append(f"[{self.number}]")
        return " ".join(parts)
