"""A merge held against its table: what its rows become, before any is looked at."""

from __future__ import annotations

from dataclasses import replace

from pyspark.sql import DataFrame
from pyspark.sql import types as T  # noqa: N812 - the customary name

from tidelake.config import PartitionFieldType, WriteOperation
from tidelake.model import MergeMode, TableType
from tidelake.operations.write_session import Choice, WriteSession
from tidelake.records import META_COLUMNS, Fill, arrow_schema
from tidelake.spark.merge.merge_clauses import MergeRequest
from tidelake.spark.merge.merge_plan import (
    TableShape,
    added_columns,
    plan_merge,
    plan_on,
    read_columns,
    takes_all,
)
from tidelake.spark.merge.merge_rows import MergeRows
from tidelake.spark.types.fitting import always_fits
from tidelake.spark.types.from_arrow import spark_schema
from tidelake.spark.types.to_avro import FrameColumns
from tidelake.spark.write.incoming_rows import user_columns
from tidelake.write.partial import logs_changed_columns


def set_up(
    session: WriteSession, request: MergeRequest, source: DataFrame, write_id: str | None
) -> tuple[Choice, MergeRows, list[str] | None]:
    """Return how a merge is written, what makes its rows, and the columns of the table it reads.

    Raises `SchemaError` when its clauses do not fit the table and the source.
    """
    config, merge = session.config, session.merge
    stored = spark_schema(arrow_schema(session.schemas.table().avro))
    brought = T.StructType([f for f in source.schema.fields if f.name not in META_COLUMNS])
    own = {f.name.lower(): f.dataType for f in brought.fields}
    if request.on is None:
        session.schemas.refuse_other_spelling(FrameColumns(brought))
    widens = request.evolves and takes_all(request)
    fields = [
        T.StructField(f.name, own.get(f.name.lower(), f.dataType) if widens else f.dataType)
        for f in stored.fields
        if f.name not in META_COLUMNS
    ]
    new = added_columns(request, brought, [f.name for f in fields])
    fields += [T.StructField(name, own[name.lower()]) for name in new]
    names = [f.name for f in fields]
    schema = T.StructType(fields)
    choice = session.choose(WriteOperation.UPSERT, FrameColumns(schema), write_id, by_key=False)
    times = {f.name for f in choice.keys.partition if f.kind is PartitionFieldType.TIMESTAMP}
    may_leave_out = session.options.logs_changed_columns or (
        config.table_type is TableType.COPY_ON_WRITE
    )
    shape = TableShape(
        columns=tuple(names),
        key=config.record_key_fields,
        partition=config.partition_fields,
        fixed=frozenset((*config.record_key_fields, *config.partition_fields)) - times,
        ordering=merge.ordering_fields if merge.mode is MergeMode.EVENT_TIME else (),
        required=frozenset(choice.schema.required),
        is_partial=may_leave_out and logs_changed_columns(config, merge),
        is_global=choice.index.type.is_global,
        recast=frozenset(
            f.name
            for f in fields
            if not always_fits(own.get(f.name.lower(), f.dataType), f.dataType)
        ),
    )
    theirs = user_columns(source)
    plan = plan_merge(request, theirs, shape)
    on = plan_on(request.on, theirs, shape, request.expressions())
    rows = MergeRows(
        request=request,
        plan=plan,
        on=on,
        columns=T.StructType(
            [
                f
                for f in spark_schema(arrow_schema(choice.schema.avro)).fields
                if f.name not in META_COLUMNS
            ]
        ),
        required=shape.required,
        keys=choice.keys,
        index=choice.index,
        merge=merge,
        stale_by=shape.ordering if merge.fill is Fill.NONE else (),
    )
    looked_at = read_columns(request, plan, on, shape)
    if looked_at is not None:
        looked_at = [name for name in looked_at if name not in new]
    return replace(choice, column_sets=plan.column_sets), rows, looked_at
