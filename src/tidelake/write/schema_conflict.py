"""Two writers and one schema (RFC-82): what the table's schema becomes when both changed it.

`start` is the table's schema when a write began, `now` the one it finds when it commits, `writer`
the one it wrote with. The cases are numbered as in the RFC; `docs/concurrency.md` tells where
tidelake goes beyond it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tidelake.formats.table_schema import parse_avro
from tidelake.records import META_COLUMNS
from tidelake.write.avro_nodes import WIDER, core, digits, is_nullable, kind, shown

Node = Any
#: Type in which every value of both types has its place, by their names.
_JOINS = {
    frozenset({"int", "long"}): "long",
    frozenset({"int", "double"}): "double",
    frozenset({"float", "double"}): "double",
    frozenset({"int", "float"}): "double",
}


class SchemasClashError(Exception):
    """Two changes of one schema do not go together; the text says what and why."""

    def __init__(self, case: int, why: str, columns: frozenset[str]) -> None:
        super().__init__(why)
        self.case = case
        self.columns = columns


def resolve(start: str | None, now: str | None, writer: str, *, merges: bool = False) -> str:
    """Return the schema to commit, or raise `SchemasClashError`.

    With `merges`, changes that do not contradict each other are put together instead of refused.
    """
    if now is None or same(writer, now):
        return writer if now is None else now  # cases 1, 2, 4, 7
    if start is None:
        return _merged_or_refused(None, now, writer, 3, merges=merges)
    if same(start, now):
        return writer  # case 5
    if same(writer, start):
        if extends(start, now):
            return now  # case 6
        raise SchemasClashError(
            6,
            "another write renamed, dropped or moved columns that this one wrote under their old "
            "names",
            differing(start, now),
        )
    return _merged_or_refused(start, now, writer, 8, merges=merges)


def refuse_hidden(now: str, made: str) -> None:
    """Raise when a commit would change a schema that readers take from a later one.

    Up to table version 7 that is the commit that was requested last, whenever it completed.
    """
    if not same(now, made):
        raise SchemasClashError(
            5,
            "a write that was requested later has committed, and tables of this version take their "
            "schema from it",
            differing(now, made),
        )


def same(one: str, other: str) -> bool:
    """Return whether two schemas have the same columns: names, types, nullability and order."""
    return bool(_shape(parse_avro(one)) == _shape(parse_avro(other)))


def extends(old: str, new: str) -> bool:
    """Return whether files of schema `old` read rightly, by name, under schema `new`."""
    return _extends(parse_avro(old), parse_avro(new))


def differing(one: str, other: str) -> frozenset[str]:
    """Return the names of the columns that are not the same in both."""
    first, second = (
        {f["name"]: _shape(f["type"]) for f in _fields(parse_avro(text))} for text in (one, other)
    )
    names = {*first, *second}
    return frozenset(n for n in names if first.get(n) != second.get(n))


def told_changes(old: str, new: str) -> str:
    """Return in words what of a schema became of another."""
    found = list(_told(parse_avro(old), parse_avro(new), ""))
    return "; ".join(found) or "nothing"


def _told(old: Node, new: Node, path: str) -> Iterator[str]:
    before, after = core(old), core(new)
    kinds = (kind(before), kind(after))
    if kinds == ("record", "record"):
        yield from _told_record(before, after, f"{path}." if path else "")
    elif kinds == ("array", "array"):
        yield from _told(before["items"], after["items"], f"{path}[]")
    elif kinds == ("map", "map"):
        yield from _told(before["values"], after["values"], f"{path}{{}}")
    elif _shape(before) != _shape(after):
        yield f"{path} is {shown(after)}, was {shown(before)}"
    if is_nullable(old) != is_nullable(new):
        yield f"{path} may {'' if is_nullable(new) else 'not '}be null"


def _told_record(old: Node, new: Node, prefix: str) -> Iterator[str]:
    before = {f["name"]: f["type"] for f in _fields(old)}
    after = {f["name"]: f["type"] for f in _fields(new)}
    for name, node in after.items():
        if name in before:
            yield from _told(before[name], node, f"{prefix}{name}")
        else:
            yield f"{prefix}{name} {shown(node)} is new"
    yield from (f"{prefix}{name} is gone" for name in before if name not in after)
    if [n for n in before if n in after] != [n for n in after if n in before]:
        yield f"the order of {prefix or 'the '}columns"


def merge(start: str | None, now: str, writer: str) -> str:
    """Return a schema with the changes of both, `now`'s columns first.

    Raises `SchemasClashError` when one of them is more than added columns and widened types, or
    when they want different types that no third holds without loss.
    """
    began = None if start is None else parse_avro(start)
    current, ours = parse_avro(now), parse_avro(writer)
    for name, changed in (("the table's", current), ("this write's", ours)):
        if began is not None and not _extends(began, changed):
            raise SchemasClashError(
                8,
                f"{name} change is more than added columns and widened types",
                differing(start or "", now if changed is current else writer),
            )
    merged = _merged_record(began, current, ours, "")
    return json.dumps(merged, separators=(",", ":"))


def _merged_or_refused(start: str | None, now: str, writer: str, case: int, *, merges: bool) -> str:
    if merges:
        return merge(start, now, writer)
    columns = differing(now, writer)
    raise SchemasClashError(
        case, "another write changed the table's schema, and so does this one", columns
    )


def _merged_record(start: Node | None, now: Node, writer: Node, path: str) -> Node:
    began = {} if start is None else {f["name"]: f for f in _fields(start)}
    current = {f["name"]: f for f in _fields(now)}
    ours = {f["name"]: f for f in _fields(writer)}
    lowered = {name.lower(): name for name in current}
    fields = []
    for name, field in current.items():
        if name not in ours:
            if name not in began:
                _refuse_required(field, path)
            fields.append(field)
            continue
        before = began[name]["type"] if name in began else None
        merged = _merged(before, field["type"], ours[name]["type"], f"{path}{name}")
        fields.append(field if merged is field["type"] else {**field, "type": merged})
    for name, field in ours.items():
        if name in current:
            continue
        if name.lower() in lowered:
            raise SchemasClashError(
                8,
                f"columns {lowered[name.lower()]} and {name} differ only by the case of their "
                "letters",
                frozenset({name}),
            )
        _refuse_required(field, path)
        fields.append(field)
    return now if fields == list(current.values()) else {**now, "fields": fields}


def _refuse_required(field: Mapping[str, Any], path: str) -> None:
    """Raise for a column that one writer brings, and that rows of the other cannot be null in."""
    if not is_nullable(field["type"]):
        name = f"{path}{field['name']}"
        raise SchemasClashError(8, f"column {name} is new and may not be null", frozenset({name}))


def _merged(start: Node | None, now: Node, writer: Node, path: str) -> Node:
    wanted, given = _shape(now), _shape(writer)
    if wanted == given or (start is not None and _shape(start) == given):
        return now
    if start is not None and _shape(start) == wanted:
        return writer
    joined = _joined(None if start is None else core(start), core(now), core(writer), path)
    if not (is_nullable(now) or is_nullable(writer)):
        return joined
    like = now if is_nullable(now) else writer
    return ["null", joined] if like[0] == "null" else [joined, "null"]


def _joined(start: Node | None, now: Node, writer: Node, path: str) -> Node:
    kinds = (kind(now), kind(writer))
    if kinds[0] == kinds[1]:
        if kinds[0] == "record":
            return _merged_record(start, now, writer, f"{path}.")
        if kinds[0] in ("array", "map"):
            inner = "items" if kinds[0] == "array" else "values"
            before = None if start is None else start[inner]
            return {**now, inner: _merged(before, now[inner], writer[inner], f"{path}[]")}
        if kinds[0] == "decimal" and digits(writer)[1] == digits(now)[1]:
            return max(now, writer, key=digits)
        if _shape(now) == _shape(writer):
            return now
    joined = _JOINS.get(frozenset(kinds))
    if joined is None:
        raise SchemasClashError(
            8,
            f"column {path} is {shown(now)} in the table by now and {shown(writer)} in this "
            "write, and no type holds both without loss",
            frozenset({path}),
        )
    return joined


def _extends(old: Node, new: Node) -> bool:
    if is_nullable(old) and not is_nullable(new):
        return False
    before, after = core(old), core(new)
    kinds = (kind(before), kind(after))
    if kinds[0] != kinds[1]:
        return kinds[1] in WIDER.get(kinds[0], ())
    if kinds[0] == "record":
        return _record_extends(before, after)
    if kinds[0] == "array":
        return _extends(before["items"], after["items"])
    if kinds[0] == "map":
        return _extends(before["values"], after["values"])
    if kinds[0] == "decimal":
        (whole, scale), (new_whole, new_scale) = digits(before), digits(after)
        return new_scale == scale and new_whole >= whole
    return bool(_shape(before) == _shape(after))


def _record_extends(old: Node, new: Node) -> bool:
    before = {f["name"]: f for f in _fields(old)}
    after = {f["name"]: f for f in _fields(new)}
    kept = [name for name in after if name in before]
    return (
        kept == list(before)
        and all(_extends(before[name]["type"], after[name]["type"]) for name in kept)
        and all(is_nullable(f["type"]) for name, f in after.items() if name not in before)
    )


def _shape(node: Node) -> Any:
    """Return what of a type counts: not its names for records, its docs, aliases and defaults."""
    if isinstance(node, list):
        cores = [_shape(branch) for branch in node if branch != "null"]
        return ("nullable" if "null" in node else "union", *cores)
    name = kind(node)
    if name == "record":
        return ("record", *((f["name"], _shape(f["type"])) for f in _fields(node)))
    if name == "array":
        return "array", _shape(node["items"])
    if name == "map":
        return "map", _shape(node["values"])
    if name == "decimal":
        return "decimal", *digits(node)
    if name == "enum":
        return "enum", *node["symbols"]
    return name


def _fields(node: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    return [f for f in node["fields"] if f["name"] not in META_COLUMNS]
