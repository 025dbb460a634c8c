"""Column values as the text that Java makes of them."""

from __future__ import annotations

import math

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidelake.errors import SchemaError


def java_float(value: float, *, single: bool = False) -> str:
    """Return Java's `Double.toString`, or `Float.toString` for a `single` value."""
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    shortest = str(np.float32(value)) if single else repr(float(value))
    mantissa, _, exponent = shortest.partition("e")
    if not exponent and (value == 0 or 1e-3 <= abs(value) < 1e7):
        return mantissa
    sign = "-" if shortest.startswith("-") else ""
    whole, _, part = mantissa.lstrip("-").partition(".")
    digits = (whole + part).lstrip("0")
    # The exponent of the first significant digit: what stands before the point, less leading zeros.
    power = int(exponent or 0) + len(whole) - 1 - (len(whole + part) - len(digits))
    digits = digits.rstrip("0") or "0"
    return f"{sign}{digits[0]}.{digits[1:] or '0'}E{power}"


def java_text(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return the values as Java prints them; bytes are read as UTF-8."""
    kind = column.type
    if pa.types.is_string(kind):
        return column
    if pa.types.is_floating(kind):
        return _mapped(column, single=pa.types.is_float32(kind))
    if pa.types.is_timestamp(kind):
        # The default of Hudi's key generators: the stored number, not the formatted time.
        return column.cast(pa.int64()).cast(pa.string())
    if pa.types.is_nested(kind):
        raise SchemaError(
            f"a value of type {kind} has no text form", next_step="use a column of a simple type"
        )
    return column.cast(pa.string())


def key_text(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return the values as they appear in record keys."""
    if pa.types.is_binary(column.type) or pa.types.is_fixed_size_binary(column.type):
        texts = [None if v is None else v.hex() for v in column.to_pylist()]
        return pa.chunked_array([pa.array(texts, pa.string())])
    return java_text(column)


def _mapped(column: pa.ChunkedArray, *, single: bool) -> pa.ChunkedArray:
    coded = column.combine_chunks().dictionary_encode()
    texts = [
        None if v is None else java_float(v, single=single) for v in coded.dictionary.to_pylist()
    ]
    return pa.chunked_array([pc.take(pa.array(texts, pa.string()), coded.indices)])
