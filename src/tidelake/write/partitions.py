"""Partitions as people name them."""

from __future__ import annotations

from collections.abc import Sequence

from tidelake.config import TableConfig
from tidelake.errors import ConfigError
from tidelake.formats.partition_path import format_path, parse_path


def named_partitions(config: TableConfig, wanted: Sequence[str], known: Sequence[str]) -> list[str]:
    """Return the partitions of `known` that `wanted` names.

    Both the path and `field=value/...` are taken, whichever way the table spells its folders; `*`
    stands for any text. Raises `ConfigError` for a name that fits no partition.
    """
    found: list[str] = []
    for text in wanted:
        stripped = text.strip("/")
        chosen = [p for p in known if p == stripped] or _by_value(config, stripped, known)
        if not chosen and "*" in stripped:
            chosen = [p for p in known if _fits(p, stripped)]
        if not chosen:
            shown = ", ".join(known[:5]) + (", ..." if len(known) > 5 else "")
            raise ConfigError(
                f"the table has no partition {text!r}",
                next_step=f"its partitions are {shown}" if known else "the table has none",
            )
        found += chosen
    return sorted(set(found))


def _by_value(config: TableConfig, text: str, known: Sequence[str]) -> list[str]:
    fields = config.partition_fields
    values = parse_path(text, fields, hive_style=True, url_encode=False)
    if values is None:
        return []
    path = format_path(
        fields,
        values,
        hive_style=config.hive_style_partitioning,
        url_encode=config.url_encode_partitioning,
    )
    return [p for p in known if p == path]


def _fits(path: str, pattern: str) -> bool:
    first, *rest = pattern.split("*")
    if not path.startswith(first):
        return False
    at = len(first)
    for piece in rest[:-1]:
        at = path.find(piece, at)
        if at < 0:
            return False
        at += len(piece)
    return path.endswith(rest[-1]) and len(path) - len(rest[-1]) >= at
