"""The columns of a write against those of the table."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tidelake.config import TableConfig
from tidelake.errors import SchemaError, reading
from tidelake.formats.table_schema import parse_avro
from tidelake.records import META_COLUMNS
from tidelake.write.avro_nodes import WIDER, core, digits, is_nullable, kind, shown

#: Types whose values have the same text.
_ALIKE = ({"int", "long"}, {"float", "double"})


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteSchema:
    """The table's columns after a write, as Avro JSON without meta columns.

    `required` are columns of the write in which no row may be null, though its own schema would
    allow it.
    """

    avro: str
    required: tuple[str, ...] = ()
    is_evolved: bool = False


def evolve(
    table: str | None,
    incoming: str,
    *,
    fill_missing: bool = True,
    drop_missing: bool = False,
    fixed: Mapping[str, str] | None = None,
) -> WriteSchema:
    """Return what the table's schema becomes when rows of schema `incoming` are written.

    New columns are added at the end and may be null; types become the wider of the two. With
    `fill_missing`, columns that the rows lack are left null; with `drop_missing` they leave the
    table. `fixed` are paths of columns that stay as they are, with what each of them is for. Raises
    `SchemaError` for anything else that does not fit. `table` is None for a table that has no
    schema yet.
    """
    new = parse_avro(incoming)
    _refuse_clashes([f["name"] for f in new["fields"]])
    if table is None:
        return WriteSchema(avro=incoming, is_evolved=True)
    with reading("the table's schema"):
        old = parse_avro(table)
    given = {f["name"]: f for f in new["fields"]}
    known = {f["name"] for f in old["fields"]}
    _refuse_clashes([*known, *(name for name in given if name not in known)])
    fields = []
    required = []
    for field in old["fields"]:
        name = field["name"]
        if name in META_COLUMNS:
            continue
        if name not in given:
            if drop_missing and name not in {path.partition(".")[0] for path in fixed or ()}:
                continue
            _refuse_missing(field, fill_missing=fill_missing or drop_missing)
            fields.append(field)
            continue
        merged = _merged(field["type"], given[name]["type"], name)
        if not is_nullable(field["type"]):
            if is_nullable(given[name]["type"]):
                required.append(name)
            merged = core(merged)
        fields.append(field if merged == field["type"] else {**field, "type": merged})
    added = [f for name, f in given.items() if name not in known]
    fields += [_nullable_field(f) for f in added]
    for path, purpose in (fixed or {}).items():
        _refuse_other_type(path, purpose, old["fields"], fields)
    if fields == [f for f in old["fields"] if f["name"] not in META_COLUMNS]:
        if len(fields) < len(old["fields"]):
            table = without_meta_columns(table)
        return WriteSchema(avro=table, required=tuple(required))
    made = json.dumps({**old, "fields": fields}, separators=(",", ":"))
    return WriteSchema(avro=made, required=tuple(required), is_evolved=True)


def refuse_other_past(table: str, made: str, past: Iterable[str]) -> None:
    """Raise `SchemaError` for a new column whose name had another type in an earlier schema.

    Files of that time may still hold it, and nobody could read them as the new type.
    """
    known = {f["name"] for f in parse_avro(table)["fields"]}
    new = {f["name"]: f["type"] for f in parse_avro(made)["fields"] if f["name"] not in known}
    if not new:
        return
    for schema in past:
        for field in parse_avro(schema)["fields"]:
            name = field["name"]
            if name in new and not _holds(new[name], field["type"]):
                raise SchemaError(
                    f"column {name} is {shown(new[name])} in the rows and was "
                    f"{shown(field['type'])} before it left the table, and files still hold it",
                    next_step="give the column another name",
                )


def _holds(wide: Any, narrow: Any) -> bool:
    try:
        return bool(_merged(wide, narrow, "") is wide)
    except SchemaError:
        return False


def refuse_other_spelling(table: str, incoming: str, paths: Iterable[str]) -> None:
    """Raise `SchemaError` where a field of key or partition is spelled as the table never does.

    The whole number 1 is "1" and would be another key than the 1.0 of the table. Texts are taken as
    they are, and fields that the rows lack are somebody else's matter.
    """
    old, new = parse_avro(table)["fields"], parse_avro(incoming)["fields"]
    for path in paths:
        before, after = _at(path, old), _at(path, new)
        if before is None or after is None or _is_spelled_alike(before, after):
            continue
        raise SchemaError(
            f"column {path} is {shown(before)} in the table and {shown(after)} in the rows, whose "
            "keys or partitions would be spelled in another way",
            next_step=f"cast the column {path} to {shown(before)}",
        )


def _is_spelled_alike(one: Any, other: Any) -> bool:
    kinds = {kind(one), kind(other)}
    if len(kinds) == 1:
        return kinds != {"decimal"} or digits(one)[1] == digits(other)[1]
    return not kinds.isdisjoint(("string", "enum")) or any(kinds <= alike for alike in _ALIKE)


def fixed_columns(config: TableConfig) -> dict[str, str]:
    """Return the columns that neither change their types nor leave, with what each is for."""
    orderings = (*config.ordering_fields, *(group.ordering for group in config.column_groups))
    return {
        **dict.fromkeys(orderings, "an ordering column"),
        **dict.fromkeys(config.partition_fields, "a partition column"),
        **dict.fromkeys(config.record_key_fields, "a key column"),
    }


def without_meta_columns(avro: str) -> str:
    """Return a schema without the columns that Hudi adds, which some commits of Hudi list too."""
    node = parse_avro(avro)
    fields = [f for f in node["fields"] if f["name"] not in META_COLUMNS]
    if len(fields) == len(node["fields"]):
        return avro
    return json.dumps({**node, "fields": fields}, separators=(",", ":"))


def field_names(avro: str) -> list[str]:
    """Return the names of a schema's fields, fields of structs as dotted paths."""
    found: list[str] = []

    def walk(node: Mapping[str, Any], prefix: str) -> None:
        for field in node["fields"]:
            path = f"{prefix}{field['name']}"
            found.append(path)
            inner = core(field["type"])
            if kind(inner) == "record":
                walk(inner, f"{path}.")

    walk(parse_avro(avro), "")
    return found


def nullable_columns(avro: str) -> frozenset[str]:
    """Return the top-level columns that may be null."""
    return frozenset(f["name"] for f in parse_avro(avro)["fields"] if is_nullable(f["type"]))


def _refuse_clashes(names: list[str]) -> None:
    seen: dict[str, str] = {}
    for name in names:
        other = seen.setdefault(name.lower(), name)
        if other != name:
            raise SchemaError(
                f"columns {other} and {name} differ only by the case of their letters",
                next_step="rename one; Spark takes the two for the same column",
            )
    if len(seen) < len(names):
        twice = next(n for n in names if names.count(n) > 1)
        raise SchemaError(
            f"there are two columns named {twice}", next_step="rename or drop one of them"
        )


def _refuse_missing(field: Mapping[str, Any], *, fill_missing: bool) -> None:
    name = field["name"]
    if not is_nullable(field["type"]):
        raise SchemaError(
            f"the rows have no column {name}, and the table requires a value in it",
            next_step=f"add the column {name} to the rows",
        )
    if not fill_missing:
        raise SchemaError(
            f"the rows have no column {name}, which the table has",
            next_step=f"add the column {name}, or let it become null with "
            "hoodie.write.set.null.for.missing.columns=true",
        )


def _refuse_other_type(
    path: str, purpose: str, old: Sequence[Mapping[str, Any]], new: Sequence[Mapping[str, Any]]
) -> None:
    before, after = _at(path, old), _at(path, new)
    if before is None or after is None or shown(before) == shown(after):
        return
    raise SchemaError(
        f"column {path} is {shown(before)} in the table and {shown(after)} in the rows, and the "
        f"type of {purpose} cannot change",
        next_step=f"cast the column {path} to {shown(before)}",
    )


def _at(path: str, fields: Sequence[Mapping[str, Any]]) -> Any:
    """Return the type at a dotted path; None when it leads nowhere."""
    name, _, rest = path.partition(".")
    found = next((core(f["type"]) for f in fields if f["name"] == name), None)
    if not rest or found is None:
        return found
    return _at(rest, found["fields"]) if kind(found) == "record" else None


def _merged(old: Any, new: Any, path: str) -> Any:
    """Return the type that holds the values of both; `old` itself when it does."""
    made = _merged_core(core(old), core(new), path)
    if made is core(old):
        return old
    return _with_null(old, made)


def _merged_core(old: Any, new: Any, path: str) -> Any:
    before, after = kind(old), kind(new)
    if before != after:
        return _widened(old, new, path)
    if before == "decimal":
        return _merged_decimal(old, new, path)
    if before == "record":
        return _merged_record(old, new, path)
    if before == "array":
        items = _merged_inner(old["items"], new["items"], f"{path}[]")
        return old if items is old["items"] else {**old, "items": items}
    if before == "map":
        values = _merged_inner(old["values"], new["values"], f"{path}{{}}")
        return old if values is old["values"] else {**old, "values": values}
    return old


def _widened(old: Any, new: Any, path: str) -> Any:
    before, after = kind(old), kind(new)
    if before in WIDER.get(after, ()):
        return old
    if after in WIDER.get(before, ()):
        return new
    if before == "enum" and after == "string":
        return old
    raise SchemaError(
        f"column {path} is {shown(old)} in the table and {shown(new)} in the rows, and neither "
        "holds the values of the other",
        next_step=f"cast the column {path} to {shown(old)}",
    )


def _merged_decimal(old: Mapping[str, Any], new: Mapping[str, Any], path: str) -> Any:
    (whole, scale), (new_whole, new_scale) = digits(old), digits(new)
    if new_whole <= whole and new_scale <= scale:
        return old
    if new_whole >= whole and new_scale == scale:
        return new
    raise SchemaError(
        f"column {path} is {shown(old)} in the table and {shown(new)} in the rows, and neither "
        "holds the values of the other; a decimal may become wider, but keeps its scale",
        next_step=f"cast the column {path} to {shown(old)}",
    )


def _merged_record(old: Mapping[str, Any], new: Mapping[str, Any], path: str) -> Any:
    given = {f["name"]: f for f in new["fields"]}
    known = {f["name"] for f in old["fields"]}
    _refuse_clashes([*known, *(name for name in given if name not in known)])
    fields = []
    for field in old["fields"]:
        name, at = field["name"], f"{path}.{field['name']}"
        if name not in given:
            # A struct may lack what the table has only where the table can do without.
            fields.append(field if is_nullable(field["type"]) else _nullable_field(field))
            continue
        merged = _merged_inner(field["type"], given[name]["type"], at)
        fields.append(field if merged is field["type"] else {**field, "type": merged})
    fields += [_nullable_field(f) for name, f in given.items() if name not in known]
    return old if fields == old["fields"] else {**old, "fields": fields}


def _merged_inner(old: Any, new: Any, path: str) -> Any:
    """Return the merged type of something inside a column, where nulls are not counted first."""
    made = _merged(old, new, path)
    if is_nullable(new) and not is_nullable(old):
        return ["null", core(made)]
    return made


def _nullable_field(field: Mapping[str, Any]) -> dict[str, Any]:
    return {**field, "type": ["null", core(field["type"])], "default": None}


def _with_null(like: Any, core: Any) -> Any:
    if not is_nullable(like):
        return core
    return ["null", core] if like[0] == "null" else [core, "null"]
