"""Partition paths: how the values of partition fields become folders, and back.

The escaping is Hive's and not that of URLs, so a URL library gives other folders.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

#: Stands for a null or empty value.
DEFAULT_PARTITION = "__HIVE_DEFAULT_PARTITION__"
#: What Hudi wrote for the same before 0.12.
_OLD_DEFAULT_PARTITION = "default"

_UNSAFE = re.compile("[\x00-\x1f\x7f\"#%'*/:=?\\\\{[\\]^]")
_ESCAPE = re.compile("%([0-9a-fA-F]{2})")


def escape(value: str) -> str:
    """Return `value` with every character that Hive escapes in paths as `%XX`."""
    return _UNSAFE.sub(lambda found: f"%{ord(found[0]):02X}", value)


def unescape(text: str) -> str:
    """Return the value that `escape` turned into `text`; a stray percent sign stands for itself."""
    return _ESCAPE.sub(lambda found: chr(int(found[1], 16)), text)


def format_path(
    fields: Sequence[str], values: Sequence[str | None], *, hive_style: bool, url_encode: bool
) -> str:
    """Return the partition path of a row with `values`; empty for a table without partitions."""
    parts = []
    for name, value in zip(fields, values, strict=True):
        text = value or DEFAULT_PARTITION
        if url_encode:
            text = escape(text)
        parts.append(f"{name}={text}" if hive_style else text)
    return "/".join(parts)


def parse_path(
    path: str, fields: Sequence[str], *, hive_style: bool, url_encode: bool
) -> tuple[str | None, ...] | None:
    """Take a partition path apart, one value for each field and None for the default partition.

    A single field keeps the slashes inside its value. Return None when the path does not have the
    parts that the fields call for.
    """
    parts = [path] if len(fields) == 1 else path.split("/") if path else []
    if len(parts) != len(fields):
        return None
    values: list[str | None] = []
    for name, part in zip(fields, parts, strict=True):
        text = part
        if hive_style:
            if not part.startswith(f"{name}="):
                return None
            text = part[len(name) + 1 :]
        is_null = text in (DEFAULT_PARTITION, _OLD_DEFAULT_PARTITION)
        values.append(None if is_null else unescape(text) if url_encode else text)
    return tuple(values)
