"""Avro schemas as Arrow schemas, and files of older schemas brought to the table's."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from tidelake.errors import SchemaError
from tidelake.formats.table_schema import avro_fields
from tidelake.records.text import java_text

COMMIT_TIME = "_hoodie_commit_time"
SEQUENCE_NUMBER = "_hoodie_commit_seqno"
RECORD_KEY = "_hoodie_record_key"
PARTITION_PATH = "_hoodie_partition_path"
FILE_NAME = "_hoodie_file_name"
OPERATION = "_hoodie_operation"
IS_DELETED = "_hoodie_is_deleted"
#: The columns that Hudi puts in front of the user's.
META_COLUMNS = (COMMIT_TIME, SEQUENCE_NUMBER, RECORD_KEY, PARTITION_PATH, FILE_NAME)
#: Those that say where a row is; one that the table has says it already.
PLACE_COLUMNS = (SEQUENCE_NUMBER, PARTITION_PATH, FILE_NAME)


def arrow_schema(
    text: str, columns: Sequence[str] | None = None, *, meta: bool = False
) -> pa.Schema:
    """Return the Arrow schema of an Avro record schema.

    With `meta` Hudi's five columns come first. `columns` selects and orders; any of them may be a
    meta column. Raises `SchemaError` for an unknown column and `Malformed` for a broken schema.
    """
    found = {f.name: pa.field(f.name, f.type) for f in avro_fields(text)}
    fields = {name: pa.field(name, pa.string()) for name in META_COLUMNS}
    if columns is None:
        fields = {**fields, **found} if meta else found
        return pa.schema(list(fields.values()))
    fields = {OPERATION: pa.field(OPERATION, pa.string()), **fields, **found}
    for name in columns:
        if name not in fields:
            raise SchemaError(
                f"the table has no column {name}",
                next_step=f"its columns are {', '.join(found)}",
            )
    return pa.schema([fields[name] for name in columns])


@dataclass(frozen=True, slots=True)
class Source:
    """Where a field of the table lies in an older file: under which name, if at all."""

    name: str | None
    inner: Mapping[str, Source] | None = None


def conform(
    table: pa.Table, target: pa.Schema, sources: Mapping[str, Source] | None = None
) -> pa.Table:
    """Return `table` with exactly the columns and types of `target`.

    Columns are matched by name, or as `sources` says; a column that `table` lacks is null.
    Types widen as Hudi widens them. Raises `SchemaError` when a type cannot become the other.
    """
    present = set(table.column_names)
    columns = []
    for wanted in target:
        name, inner = _source_of(wanted.name, sources)
        if name is None or name not in present:
            columns.append(pa.chunked_array([pa.nulls(table.num_rows, wanted.type)]))
            continue
        columns.append(_cast(table.column(name), wanted.type, wanted.name, inner))
    return pa.Table.from_arrays(columns, schema=target)


def _source_of(
    name: str, sources: Mapping[str, Source] | None
) -> tuple[str | None, Mapping[str, Source] | None]:
    if sources is None or name in META_COLUMNS:
        return name, None
    found = sources.get(name)
    return (None, None) if found is None else (found.name, found.inner)


def _cast(
    column: pa.ChunkedArray, target: pa.DataType, path: str, inner: Mapping[str, Source] | None
) -> pa.ChunkedArray:
    if column.type == target and inner is None:
        return column
    try:
        return pa.chunked_array(
            [_cast_array(chunk, target, inner) for chunk in column.chunks], type=target
        )
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, SchemaError) as cause:
        raise SchemaError(
            f"column {path} is {column.type} in a file, which cannot be read as {target}",
            next_step="Hudi widens int to long to float to double to string, and string to bytes; "
            "rewrite the file's partition with the table's schema",
        ) from cause


def _cast_array(
    array: pa.Array, target: pa.DataType, inner: Mapping[str, Source] | None
) -> pa.Array:
    kind = array.type
    if kind == target and inner is None:
        return array
    if isinstance(array, pa.DictionaryArray):
        return _cast_array(array.dictionary_decode(), target, inner)
    if pa.types.is_null(kind):
        return pa.nulls(len(array), target)
    if pa.types.is_struct(target) and pa.types.is_struct(kind):
        return _cast_struct(array, target, inner)
    if pa.types.is_map(target):
        return _cast_map(array, target, inner)
    if pa.types.is_list(target) and (pa.types.is_list(kind) or pa.types.is_large_list(kind)):
        values = _cast_array(array.flatten(), target.value_type, _element(inner))
        return pa.ListArray.from_arrays(_offsets(array), values, type=target)
    if pa.types.is_nested(kind) or pa.types.is_nested(target):
        raise SchemaError("one type is nested, the other is not", next_step="see above")
    return _cast_flat(array, target)


def _cast_flat(array: pa.Array, target: pa.DataType) -> pa.Array:
    kind = array.type
    if pa.types.is_float32(kind) and pa.types.is_float64(target):
        # Hudi widens through the text, so that 0.1 stays 0.1.
        return array.cast(pa.string()).cast(target)
    if pa.types.is_string(target) and not pa.types.is_large_string(kind):
        if pa.types.is_timestamp(kind):
            return array.cast(target)
        return java_text(pa.chunked_array([array])).combine_chunks()
    if pa.types.is_floating(kind) and pa.types.is_decimal(target):
        return array.cast(pa.string()).cast(target)
    if pa.types.is_time(kind):
        micros = array.cast(pa.time64("us"))
        if target == pa.int32():
            return pc.divide(micros.cast(pa.int64()), 1000).cast(target)
        return micros.cast(target)
    if pa.types.is_timestamp(target) or pa.types.is_floating(target):
        return array.cast(target, safe=False)
    return array.cast(target)


def _cast_struct(
    array: pa.StructArray, target: pa.StructType, inner: Mapping[str, Source] | None
) -> pa.Array:
    children = []
    for index in range(target.num_fields):
        wanted = target.field(index)
        name, deeper = _source_of(wanted.name, inner)
        at = -1 if name is None else array.type.get_field_index(name)
        if at < 0:
            children.append(pa.nulls(len(array), wanted.type))
        else:
            children.append(_cast_array(array.field(at), wanted.type, deeper))
    return pa.StructArray.from_arrays(children, fields=list(target), mask=array.is_null())


def _cast_map(array: pa.Array, target: pa.MapType, inner: Mapping[str, Source] | None) -> pa.Array:
    if isinstance(array, pa.MapArray):
        array = array.cast(
            pa.list_(pa.struct([("key", array.type.key_type), ("value", array.type.item_type)]))
        )
    entries = array.flatten()
    if not pa.types.is_struct(entries.type):
        raise SchemaError("a list is no map", next_step="see above")
    keys = _cast_array(entries.field(0), target.key_type, None)
    items = _cast_array(entries.field(1), target.item_type, _element(inner))
    made = pa.MapArray.from_arrays(_offsets(array), keys, items)
    return made if made.type == target else made.cast(target)


def _element(inner: Mapping[str, Source] | None) -> Mapping[str, Source] | None:
    return None if inner is None else inner[ELEMENT].inner


#: The name under which `Source.inner` describes what a list or map holds.
ELEMENT = "element"


def _offsets(array: pa.Array) -> pa.Array:
    """Return the offsets of a list array's flattened values, null where the list is null."""
    lengths = pc.fill_null(pc.list_value_length(array), 0).cast(pa.int32())
    ends = pc.cumulative_sum(lengths)
    offsets = pa.concat_arrays([pa.array([0], pa.int32()), ends])
    if array.null_count == 0:
        return offsets
    valid = pa.concat_arrays([array.is_valid(), pa.array([True])])
    return pc.if_else(valid, offsets, pa.scalar(None, pa.int32()))


def constant_column(value: str | None, target: pa.DataType, rows: int) -> pa.ChunkedArray:
    """Return a column that holds the partition value `value` in every row."""
    single = pa.chunked_array([pa.array([value], pa.string())])
    found = _cast(single, target, "of the partition path", None)
    return pa.chunked_array([pa.repeat(found[0], rows)])


def field_column(table: pa.Table, path: str) -> pa.ChunkedArray:
    """Return the column, or the field of a struct column, at a dotted path."""
    name, *inner = path.split(".")
    column = table.column(name)
    return pc.struct_field(column, inner) if inner else column


def top_level(names: Iterable[str]) -> list[str]:
    """Return the columns that hold the (possibly dotted) fields `names`."""
    return list(dict.fromkeys(name.partition(".")[0] for name in names))
