"""The table's key generator over Arrow columns, where no Spark is at hand."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import date, datetime, timezone, tzinfo
from functools import reduce
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidelake.config import NullPartitionPolicy, PartitionFieldType
from tidelake.errors import ConfigError, SchemaError
from tidelake.formats.partition_path import format_path, unreadable
from tidelake.records.java_hashes import buckets
from tidelake.records.keys import bucket_of, split_record_key
from tidelake.records.schema import field_column
from tidelake.records.text import key_text
from tidelake.write.key_spec import UNIT_MS, KeySpec, input_unit

_STRPTIME = {
    "yyyy": "%Y",
    "yy": "%y",
    "MM": "%m",
    "dd": "%d",
    "HH": "%H",
    "mm": "%M",
    "ss": "%S",
    "SSS": "%f",
    "Z": "%z",
    "ZZ": "%z",
}
_TOKEN = re.compile(r"'([^']*)'|([A-Za-z])\2*|.")


def record_keys(spec: KeySpec, rows: pa.Table) -> pa.ChunkedArray | None:
    """Return the record keys, or None where they are made up; raise `SchemaError` without one."""
    if spec.is_made_up:
        return None
    parts = key_parts(spec, rows)
    lacking = [pc.fill_null(pc.equal(part, ""), fill_value=True) for part in parts]
    bad = lacking[0]
    for other in lacking[1:]:
        bad = pc.and_(bad, other)
    count = pc.sum(bad).as_py() or 0
    if count:
        raise SchemaError(
            f"{count} rows have no value in the record key ({', '.join(spec.fields)})",
            next_step="correct or leave out these rows",
        )
    if not spec.named:
        return parts[0]
    named = []
    for name, part in zip(spec.fields, parts, strict=True):
        text = pc.if_else(pc.equal(part, ""), "__empty__", part)
        named.append(pc.binary_join_element_wise(name, pc.fill_null(text, "__null__"), ":"))
    return pc.binary_join_element_wise(*named, ",") if len(named) > 1 else named[0]


def key_parts(spec: KeySpec, rows: pa.Table) -> list[pa.ChunkedArray]:
    """Return the values of the key fields as text."""
    return [_text(rows, name, "record key") for name in spec.fields]


def bucket_words(
    spec: KeySpec, rows: pa.Table, keys: pa.ChunkedArray, fields: Sequence[str], count: int
) -> pa.Array:
    """Return the number of each row's bucket as eight digits."""
    hashed = [keys]
    odd = pc.match_substring(keys, ",")
    if len(spec.fields) > 1:
        parts = dict(zip(spec.fields, key_parts(spec, rows), strict=True))
        # What looks like a placeholder is taken for one.
        placeholders = pa.array(["__null__", "__empty__"])
        hashed = [
            pc.if_else(pc.is_in(parts[name], placeholders), None, parts[name]) for name in fields
        ]
        commas = [
            pc.fill_null(pc.match_substring(p, ","), fill_value=False) for p in parts.values()
        ]
        odd = reduce(pc.or_, commas)
    numbers = buckets(hashed, count)
    # Hudi hashes what it finds in the text of the key, where a comma may look like an end.
    for row in pc.indices_nonzero(odd).to_pylist():
        numbers[row] = bucket_of(split_record_key(keys[row].as_py(), fields), count)
    words = pa.array([f"{number:08d}" for number in range(count)], pa.string())
    return words.take(pa.array(numbers))


def partition_paths(spec: KeySpec, rows: pa.Table) -> pa.DictionaryArray:
    """Return the partition paths, each text once; raise `SchemaError` for a row without a value."""
    if not spec.partition:
        return pa.DictionaryArray.from_arrays(
            pa.array(np.zeros(rows.num_rows, np.int32)), pa.array([""])
        )
    codes = np.zeros(rows.num_rows, np.int64)
    columns = []
    for field in spec.partition:
        column = _column(rows, field.name, "partition")
        if column.null_count and spec.null_partition is NullPartitionPolicy.FAIL:
            raise SchemaError(
                f"{column.null_count} rows have no value in the partition field {field.name}",
                next_step="correct or leave out these rows",
            )
        if field.kind is not PartitionFieldType.TIMESTAMP:
            column = key_text(column)
        coded = column.combine_chunks().dictionary_encode(null_encoding="encode")
        coded = coded.combine_chunks() if isinstance(coded, pa.ChunkedArray) else coded
        codes = codes * max(1, len(coded.dictionary)) + coded.indices.to_numpy(zero_copy_only=False)
        columns.append((field, coded))
    _, first, inverse = np.unique(codes, return_index=True, return_inverse=True)
    paths = []
    for row in first.tolist():
        values = []
        for field, coded in columns:
            value = coded.dictionary[coded.indices[row].as_py()].as_py()
            if field.kind is PartitionFieldType.TIMESTAMP:
                value = _formatted(spec, value)
            values.append(value)
        paths.append(_readable_path(spec, [f.name for f, _ in columns], values))
    return pa.DictionaryArray.from_arrays(
        pa.array(inverse.reshape(-1).astype(np.int32)), pa.array(paths, pa.string())
    )


def _readable_path(spec: KeySpec, fields: Sequence[str], values: Sequence[str | None]) -> str:
    how = {"hive_style": spec.hive_style, "url_encode": spec.url_encode}
    path = format_path(fields, values, **how)
    reason = unreadable(fields, values, path, **how)
    if reason is not None:
        shown = ", ".join(f"{n}={v!r}" for n, v in zip(fields, values, strict=True))
        raise unreadable_partition(f"the partition value {shown} {reason}")
    return path


def unreadable_partition(problem: str) -> SchemaError:
    """Return the error for rows whose partition could not be read back."""
    return SchemaError(
        f"{problem}: it could not be read back",
        next_step="correct or leave out these rows, or create the table with "
        "hoodie.datasource.write.partitionpath.urlencode=true and "
        "hoodie.datasource.write.hive_style_partitioning=true; nothing was written",
    )


def _text(rows: pa.Table, name: str, role: str) -> pa.ChunkedArray:
    return key_text(_column(rows, name, role))


def _column(rows: pa.Table, name: str, role: str) -> pa.ChunkedArray:
    if name.partition(".")[0] not in rows.column_names:
        raise SchemaError(
            f"{role} field {name} is no column of the rows",
            next_step=f"the rows have {', '.join(rows.column_names)}",
        )
    return field_column(rows, name)


def _formatted(spec: KeySpec, value: object) -> str:
    """Return a partition value as the time that the timestamp key generator makes of it."""
    settings = spec.timebased
    output = settings.get("output.dateformat")
    if output is None:
        raise ConfigError(
            "a partition field is a formatted time, but there is no format",
            next_step="set hoodie.keygen.timebased.output.dateformat",
        )
    moment = _moment(spec, value)
    zone = settings.get("output.timezone") or settings.get("timezone")
    try:
        moment = moment.astimezone(_zone(zone)) if zone else moment
    except OverflowError as cause:
        raise SchemaError(
            f"the partition value {value!r} is in no year from 1 to 9999 in {zone}",
            next_step="correct the rows, or hoodie.keygen.timebased.output.timezone",
        ) from cause
    made = []
    for found in _TOKEN.finditer(output):
        token = found[0]
        if token.startswith("'"):
            made.append(found[1] or "'")
        elif token == "SSS":
            made.append(f"{moment.microsecond // 1000:03d}")
        elif token in _STRPTIME:
            made.append(moment.strftime(_STRPTIME[token]))
        elif token.isalpha():
            raise ConfigError(
                f"the date format {output} has {token!r}, which only Table.upsert and its like "
                "understand",
                next_step="write with the methods of Table",
            )
        else:
            made.append(token)
    return "".join(made)


def _moment(spec: KeySpec, value: object) -> datetime:
    settings = spec.timebased
    if isinstance(value, datetime):
        return value if value.tzinfo else value.replace(tzinfo=timezone.utc)
    unit = input_unit(settings)
    if isinstance(value, str) and unit is None:
        zone = settings.get("input.timezone") or settings.get("timezone")
        for pattern in settings.get("input.dateformat", "").split(","):
            try:
                found = datetime.strptime(value, _strptime(pattern))  # noqa: DTZ007 - see below
            except ValueError:
                continue
            return found if found.tzinfo else found.replace(tzinfo=_zone(zone))
        raise SchemaError(
            f"the partition value {value!r} does not fit hoodie.keygen.timebased.input.dateformat",
            next_step="correct the rows or the format",
        )
    try:
        # Hudi takes a null for the first moment after the epoch.
        number = 1.0 if value is None else _number(value)
        millis = int(number * UNIT_MS[unit or "SECONDS"])
        return datetime.fromtimestamp(millis / 1000, timezone.utc)
    except (ValueError, OverflowError, OSError) as cause:
        raise SchemaError(
            f"the partition value {value!r} is no number of {(unit or 'SECONDS').lower()} since "
            "1970 that a calendar has",
            next_step="correct the rows, or hoodie.keygen.timebased.timestamp.type",
        ) from cause


def _number(value: object) -> float:
    if isinstance(value, date):
        return float(value.toordinal() - date(1970, 1, 1).toordinal())
    return float(str(value))


def _strptime(joda: str) -> str:
    made = []
    for found in _TOKEN.finditer(joda):
        if found[0].startswith("'"):
            made.append(found[1].replace("%", "%%"))
        else:
            made.append(_STRPTIME.get(found[0], found[0]))
    return "".join(made)


def _zone(name: str | None) -> tzinfo:
    return timezone.utc if name is None or name.upper() in ("UTC", "GMT") else ZoneInfo(name)
