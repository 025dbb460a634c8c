"""The table's columns as a write finds them, and what they become by it.

Others may change them twice while a write is on its way: between its look at the table and its
begin, and until it commits. Both times RFC-82 decides what becomes of that.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Protocol

from tidelake.config import ConcurrencyMode, WriteOperation, WriteOptions
from tidelake.config.options.concurrency_options import merges_schema
from tidelake.errors import SchemaConflictError, SchemaError, UnsupportedTableError
from tidelake.operations.table_samples import newest_commits
from tidelake.records import Fill, MergeSpec
from tidelake.records.schema import top_level
from tidelake.state.table_state import TableSchema, TableState
from tidelake.timeline.table_schema import (
    commit_with_schema,
    writes_in_order,
)
from tidelake.txn import Transaction
from tidelake.txn.concurrency import SchemaResolver
from tidelake.write.schema_conflict import (
    SchemasClashError,
    differing,
    refuse_hidden,
    resolve,
    same,
    told_changes,
)
from tidelake.write.schema_evolution import (
    WriteSchema,
    evolve,
    fixed_columns,
    refuse_other_past,
    refuse_other_spelling,
    without_meta_columns,
)

#: Operations whose rows have no columns that could differ from the table's.
_WITHOUT_SCHEMA = frozenset({WriteOperation.DELETE, WriteOperation.DELETE_PARTITION})


class RowColumns(Protocol):
    """The columns of the rows that a write brings, whatever kind of frame they are in."""

    @property
    def names(self) -> Sequence[str]:
        """Return the names of the columns."""

    def only(self, names: Sequence[str]) -> RowColumns:
        """Return those of the columns that have one of `names`."""

    def renamed(self, names: Mapping[str, str]) -> RowColumns:
        """Return those of the columns that `names` has, under the names that it gives them."""

    def avro_schema(self, table_name: str) -> str:
        """Return the schema that a table of these columns has.

        Raises `SchemaError` for a column that Hudi does not store.
        """


class WriteSchemas:
    """The columns of one table, by its state and the options of one write."""

    def __init__(self, state: TableState, options: WriteOptions, merge: MergeSpec) -> None:
        self._state = state
        self._options = options
        self._merge = merge

    @cached_property
    def stored(self) -> TableSchema | None:
        """Return the table's columns as they are, or None before the first write."""
        if self._state.config.create_schema is None and not self._state.timeline.writes():
            return None
        return self._state.schema()

    def table(self) -> TableSchema:
        """Return the table's columns as they are; raise `SchemaError` when it has none yet."""
        return self.stored or self._state.schema()

    def fitted(self, operation: WriteOperation, columns: RowColumns) -> WriteSchema:
        """Return the table's schema after the write."""
        if operation is WriteOperation.DELETE:
            return WriteSchema(avro=without_meta_columns(self.table().avro))
        stored = self.stored
        found = evolve(
            None if stored is None else stored.avro,
            columns.avro_schema(self._state.config.name),
            fill_missing=self._options.fill_missing_columns
            or self._options.partial_columns is not None
            or self._merge.fill is Fill.IGNORE_DEFAULTS,
            drop_missing=self._options.drop_missing_columns
            and self._options.partial_columns is None
            and not self._state.config.column_groups,
            fixed=fixed_columns(self._state.config),
        )
        if found.is_evolved and stored is not None:
            past = (m.schema for m in newest_commits(self._state) if m.schema)
            refuse_other_past(stored.avro, found.avro, past)
        if operation is WriteOperation.UPSERT:
            for field in self._merge.ordering_fields:
                if field.partition(".")[0] not in columns.names:
                    raise SchemaError(
                        f"the rows have no column {field}, by which the table tells newer rows",
                        next_step=f"add the ordering column {field} to the rows",
                    )
        if found.is_evolved and stored is not None and stored.history is not None:
            raise UnsupportedTableError(
                "the table follows its columns by id, and tidelake does not add or widen columns "
                "of such a table",
                next_step="change the schema with Apache Hudi's ALTER TABLE, then write",
            )
        return found

    def refuse_other_spelling(self, columns: RowColumns) -> None:
        """Raise `SchemaError` for rows whose types would give a key of the table another text."""
        config = self._state.config
        fields = (*config.record_key_fields, *config.partition_fields)
        tops = {name.lower(): name for name in top_level(fields)}
        own = {name: tops[name.lower()] for name in columns.names if name.lower() in tops}
        if self.stored is not None and own:
            incoming = columns.renamed(own).avro_schema(config.name)
            refuse_other_spelling(self.stored.avro, incoming, fields)

    def at_begin(self, txn: Transaction, writer: str) -> tuple[str | None, str]:
        """Return the table's schema as the write began, and the one to write with.

        Others may have changed the table's since the session looked at it. Base files that are
        written anew then hold columns that the rows of this write do not have, and keep them.
        """
        stored = self.stored
        start = None if stored is None else without_meta_columns(stored.avro)
        known = {i.requested_time for i in self._state.timeline.writes()}
        writes = writes_in_order(txn.config.table_version, txn.timeline)
        is_new = any(i.requested_time not in known for i in writes)
        if not (is_new and self._options.concurrency.checks_schema):
            return start, writer
        found = commit_with_schema(writes, self._state.contents)
        if found is None:
            return start, writer
        by, now = found[0].requested_time, without_meta_columns(found[1])
        if stored is not None and stored.history is not None and not same(stored.avro, now):
            clash = SchemasClashError(
                6,
                "another write changed the schema of a table that follows its columns by id",
                differing(stored.avro, now),
            )
            raise _schema_conflict(txn, clash, start, now, by, writer)
        return now, self.resolver(txn, start, writer)(now, by)

    def resolver(self, txn: Transaction, start: str | None, writer: str) -> SchemaResolver:
        """Return what decides at the commit which schema the table gets."""

        def resolve_now(now: str | None, by: str) -> str:
            if txn.operation in _WITHOUT_SCHEMA:
                return writer if now is None else without_meta_columns(now)
            current = None if now is None else without_meta_columns(now)
            try:
                made = resolve(start, current, writer, merges=self.merges)
                if current is not None and self._is_hidden_behind(txn, by):
                    refuse_hidden(current, made)
            except SchemasClashError as clash:
                raise _schema_conflict(txn, clash, start, current, by, writer) from clash
            return made

        return resolve_now

    @property
    def merges(self) -> bool:
        """Return whether columns that others added may stand beside ours.

        A writer that never gives way writes whole rows under keys that others changed, too: columns
        that it does not know would become null, unless what is absent keeps its value.
        """
        merges = self._options.concurrency.merges_schema
        if merges is None:
            merges = merges_schema(self._state.config.properties)
        if self._options.concurrency.mode is not ConcurrencyMode.NON_BLOCKING:
            return merges
        keeps_absent = (
            self._options.partial_columns is not None or self._merge.fill is not Fill.NONE
        )
        return merges and keeps_absent

    def _is_hidden_behind(self, txn: Transaction, newest: str) -> bool:
        """Return whether readers take the table's schema from another commit than this one."""
        return not self._state.by_completion_time and newest > txn.instant_time


def _schema_conflict(
    txn: Transaction,
    clash: SchemasClashError,
    start: str | None,
    now: str | None,
    by: str,
    writer: str,
) -> SchemaConflictError:
    return SchemaConflictError(
        ours=txn.instant_time,
        theirs=by,
        overlap=clash.columns,
        rule=str(clash),
        facts={
            "case of RFC-82": str(clash.case),
            **_told_changes(start, now, writer),
            "schema at the start": start or "none",
            "schema now": now or "none",
            "schema of this write": writer,
        },
        next_step="run the write again: it starts from the schema as it is now; "
        "hoodie.write.num.retries.on.conflict.failures does so by itself",
    )


def _told_changes(start: str | None, now: str | None, writer: str) -> dict[str, str]:
    if now is None:
        return {}
    if start is None:
        return {"this write differs": told_changes(now, writer)}
    return {
        "the other changed": told_changes(start, now),
        "this write changed": told_changes(start, writer),
    }
