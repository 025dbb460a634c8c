"""Partition paths: how the values of partition fields become folders, and back.

The escaping is Hive's and not that of URLs, so a URL library gives other folders.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

#: Stands for a null or empty value.
DEFAULT_PARTITION = "__HIVE_DEFAULT_PARTITION__"
#: What Hudi wrote for the same before 0.12.
_OLD_DEFAULT_PARTITION = "default"

#: A path that some engine takes for another one, or does not find: an empty folder name, a dot or
#: two, a hidden folder, a backslash, a control character. Java's expressions read it the same way.
UNREADABLE_PATH = "^/|//|/$|(^|/)[.]|[\\\\\\x00-\\x1f\\x7f]"
#: Text that readers decode although the table does not encode.
ENCODED_TEXT = "%[0-9a-fA-F]{2}"
#: No common file system takes a longer name of a folder.
MOST_NAME_BYTES = 255

_UNREADABLE_PATH = re.compile(UNREADABLE_PATH)
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


def unreadable(
    fields: Sequence[str],
    values: Sequence[str | None],
    path: str,
    *,
    hive_style: bool,
    url_encode: bool,
) -> str | None:
    """Return why rows under `path`, made of `values`, would not be found again, or None.

    Some engine would take the path for another one, or read another value from it.
    """
    if fields and _UNREADABLE_PATH.search(path):
        return "gives a folder that is hidden, empty, above another, or has a control character"
    if any(len(name.encode("utf-8", "replace")) > MOST_NAME_BYTES for name in path.split("/")):
        return f"gives the name of a folder more than {MOST_NAME_BYTES} bytes"
    for value in values:
        if value == DEFAULT_PARTITION:
            return "stands for a row without a value"
        if value and not url_encode:
            if re.search(ENCODED_TEXT, value):
                return "looks like an encoded one"
            if hive_style and len(fields) > 1 and any(f"/{name}=" in value for name in fields):
                return "looks like several partition fields"
    return None


def folders_above(path: str) -> Iterator[str]:
    """Return the folders between the table and a partition, the outermost first."""
    at = path.find("/")
    while at >= 0:
        yield path[:at]
        at = path.find("/", at + 1)


def nested(paths: Iterable[str]) -> tuple[str, str] | None:
    """Return a partition and one that lies inside of it, which no listing would find."""
    known = frozenset(paths)
    for path in sorted(known):
        for above in folders_above(path):
            if above in known:
                return above, path
    return None


def is_old_default(path: str) -> bool:
    """Return whether a part of the path is a null of old tables, or a value that reads like it."""
    return any(p.rpartition("=")[2] == _OLD_DEFAULT_PARTITION for p in path.split("/"))


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
