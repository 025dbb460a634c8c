"""JSON text in the layout of Jackson's default pretty printer, which Hudi uses for its files."""

from __future__ import annotations

import json
import re
from typing import Any

from tidelake.errors import Malformed

#: How halves of pairs begin when they are written as an escape; others make no UTF-8.
_HALF_A_CHARACTER = re.compile(rb"\\u[dD][89a-fA-F]")


def decode(data: bytes) -> dict[str, Any]:
    """Return the JSON object in `data`."""
    try:
        value = json.loads(data)
        if _HALF_A_CHARACTER.search(data):
            # Half of a pair alone is no text: it could be read, and never be written again.
            _scalar(value).encode()
    except (ValueError, RecursionError) as cause:
        raise Malformed(f"this is no JSON: {cause}") from cause
    if not isinstance(value, dict):
        raise Malformed("the JSON holds no object")
    return value


def encode(value: Any) -> bytes:
    """Return `value` as UTF-8 text without a newline at the end."""
    return _text(value, "").encode()


def _text(value: Any, indent: str) -> str:
    if isinstance(value, dict):
        if not value:
            return "{ }"
        deeper = indent + "  "
        members = (f"{deeper}{_scalar(k)} : {_text(v, deeper)}" for k, v in value.items())
        return "{\n" + ",\n".join(members) + f"\n{indent}}}"
    if isinstance(value, list):
        if not value:
            return "[ ]"
        return "[ " + ", ".join(_text(item, indent) for item in value) + " ]"
    return _scalar(value)


def _scalar(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
