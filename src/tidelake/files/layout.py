"""Which columns a read needs from files besides those it returns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import pyarrow as pa

from tidelake.errors import Malformed, SchemaError
from tidelake.files.task import ReadSpec
from tidelake.formats.table_schema import avro_fields
from tidelake.model import MergeMode
from tidelake.records._polars import polars as pl
from tidelake.records.merge import Ordering
from tidelake.records.merge_spec import Fill, MergeSpec
from tidelake.records.schema import (
    COMMIT_TIME,
    IS_DELETED,
    OPERATION,
    PLACE_COLUMNS,
    RECORD_KEY,
    arrow_schema,
    field_column,
    top_level,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """The columns of one read: `output` is returned, `rows` is carried through the merge.

    `keys`, `ordering` and `deletes` are what the merge itself looks at.
    """

    output: pa.Schema
    rows: pa.Schema
    keys: pa.Schema
    ordering: pa.Schema
    ordering_fields: tuple[str, ...]
    deletes: pa.Schema
    merge: MergeSpec
    defaults: Mapping[str, object]

    @classmethod
    def of(cls, spec: ReadSpec) -> Layout:
        """Work the columns out; raise `SchemaError` for a column that the table does not have."""
        try:
            table = {f.name: f for f in avro_fields(spec.schema)}
            output = arrow_schema(spec.schema, spec.columns)
        except Malformed as cause:
            raise SchemaError(
                f"the table's schema cannot be read: {cause}",
                next_step="check the schema in the newest commit of the timeline",
            ) from cause
        merge = replace(
            spec.merge, groups=tuple(g for g in spec.merge.groups if g.ordering in table)
        )
        fields = tuple(f for f in merge.ordering_fields if f.partition(".")[0] in table)
        if not fields:
            # Without the column every ordering value is the default, so the later record wins.
            merge = replace(merge, mode=MergeMode.COMMIT_TIME)
        ordering = top_level(fields) if merge.mode is MergeMode.EVENT_TIME else []
        key_columns = [RECORD_KEY] if spec.populate_meta_fields else top_level(spec.keys.fields)
        deletes = [OPERATION, *([IS_DELETED] if IS_DELETED in table else [])]
        if merge.delete_field is not None and merge.delete_field.partition(".")[0] in table:
            deletes += top_level([merge.delete_field])
        carried = dict.fromkeys(spec.columns)
        if spec.keep_instants is not None:
            carried[COMMIT_TIME] = None
        if spec.populate_meta_fields and not carried.keys().isdisjoint(PLACE_COLUMNS):
            carried |= dict.fromkeys((COMMIT_TIME, RECORD_KEY))
        for group in merge.groups:
            if not carried.keys().isdisjoint(group.columns):
                carried[group.ordering] = None
        return cls(
            output=output,
            rows=arrow_schema(spec.schema, list(carried)),
            keys=arrow_schema(spec.schema, key_columns),
            ordering=arrow_schema(spec.schema, ordering),
            ordering_fields=fields if merge.mode is MergeMode.EVENT_TIME else (),
            deletes=arrow_schema(spec.schema, deletes),
            merge=merge,
            defaults={
                f.name: f.default
                for f in table.values()
                if merge.fill is Fill.IGNORE_DEFAULTS and isinstance(f.default, str | int | float)
            },
        )

    def with_rows(self, *others: pa.Schema) -> pa.Schema:
        """Return the schema of `rows` and the columns of `others`, each once."""
        fields = {f.name: f for schema in (self.rows, *others) for f in schema}
        return pa.schema(list(fields.values()))

    def ordering_of(self, table: pa.Table) -> Ordering:
        """Return the ordering values of a table that holds the columns of `ordering`."""
        return tuple(as_series(field_column(table, name)) for name in self.ordering_fields)


def as_series(column: pa.ChunkedArray) -> pl.Series:
    """Return an Arrow column as polars holds it."""
    made = pl.from_arrow(column)
    assert isinstance(made, pl.Series)
    return made
