"""The columns that Hudi puts in front of the user's: their schema, and their values in new rows."""

from __future__ import annotations

import json
from collections.abc import Collection
from functools import lru_cache

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tidelake.records.schema import META_COLUMNS, parse_avro


@lru_cache(maxsize=64)
def with_meta_columns(schema: str, without: Collection[str] = ()) -> str:
    """Return an Avro record schema as it stands in files: meta columns first, `without` left out.

    Raises `Malformed` for a broken schema.
    """
    node = parse_avro(schema)
    meta = [
        {"name": name, "type": ["null", "string"], "doc": "", "default": None}
        for name in META_COLUMNS
    ]
    hidden = {*META_COLUMNS, *without}
    fields = [field for field in node["fields"] if field["name"] not in hidden]
    return json.dumps({**node, "fields": meta + fields}, separators=(",", ":"))


def sequence_numbers(
    instant_time: str, task: int, numbers: npt.NDArray[np.int64]
) -> pa.StringArray:
    """Return `_hoodie_commit_seqno` of the rows that are `numbers` in their file."""
    return pc.binary_join_element_wise(
        f"{instant_time}_{task}_", pa.array(numbers).cast(pa.string()), ""
    )


def constant(value: str | None, rows: int) -> pa.DictionaryArray:
    """Return a column that holds `value` in each of `rows` rows, stored once."""
    if value is None:
        return pa.nulls(rows, CONSTANT)
    return pa.DictionaryArray.from_arrays(
        pa.array(np.zeros(rows, np.int32)), pa.array([value], pa.string())
    )


#: The type of columns that hold few different texts.
CONSTANT = pa.dictionary(pa.int32(), pa.string())
