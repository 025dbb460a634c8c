"""Where the tasks of a write say which file groups keys are in."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexTarget:
    """Where tasks say which file groups keys are in: the file groups of the record index.

    `folder` is the metadata table's, `partition` that of the index in it, and `instant_ms` the
    time of the write at `instant_time` since the epoch.
    """

    folder: str
    partition: str
    file_ids: tuple[str, ...]
    instant_time: str
    instant_ms: int
    table_version: int
