"""Rows as JSON text the way Spark's `to_json` writes them, where no Spark is at hand."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from datetime import date, datetime
from decimal import Decimal


def row_json(value: object) -> str:
    """Return a Python value of an Arrow column as JSON; null fields are left out."""
    if isinstance(value, Mapping):
        return _object([(name, of) for name, of in value.items() if of is not None])
    if isinstance(value, list):
        if value and all(isinstance(entry, tuple) for entry in value):
            return _object(value)
        return "[" + ",".join(map(row_json, value)) + "]"
    if isinstance(value, Decimal):
        return format(value, "f")
    if isinstance(value, datetime):
        text = value.isoformat(timespec="milliseconds")
        return json.dumps(text.replace("+00:00", "Z"))
    if isinstance(value, date):
        return json.dumps(value.isoformat())
    if isinstance(value, bytes):
        return json.dumps(base64.b64encode(value).decode())
    return json.dumps(value, ensure_ascii=False)


def _object(entries: list[tuple[object, object]]) -> str:
    texts = (f"{json.dumps(str(key), ensure_ascii=False)}:{row_json(of)}" for key, of in entries)
    return "{" + ",".join(texts) + "}"
