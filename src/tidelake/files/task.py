"""What an executor is told: which slice to read, and how the table's rows are to be understood."""

from __future__ import annotations

from dataclasses import dataclass, field

from tidelake.formats.schema_history import SchemaHistory
from tidelake.records.keys import KeyRule
from tidelake.records.merge_spec import MergeSpec
from tidelake.storage.protocol import StorageSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class SliceTask:
    """One file slice to read; `log_paths` are in merge order and hold no `.cdc` file.

    `committed_log_bytes` says for each log at which size it was committed, where that is known.
    `partition_values` are set only for tables whose files leave the partition columns out.
    """

    partition: str
    file_id: str
    base_path: str | None
    base_instant: str | None
    log_paths: tuple[str, ...] = ()
    base_size_bytes: int = 0
    log_size_bytes: int = 0
    committed_log_bytes: tuple[int | None, ...] = ()
    partition_values: tuple[tuple[str, str | None], ...] = ()
    archived_instants: frozenset[str] = frozenset()
    """Archived writes whose log blocks count, although they are not older than the timeline."""

    @property
    def base_name(self) -> str:
        """Return the base file's name without its partition; empty without a base file."""
        return (self.base_path or "").rpartition("/")[2]


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockFilter:
    """Which log blocks of a slice a query sees; by default all of them.

    `latest_instant` cuts blocks of later requested times. With `committed` (table version 6, where
    one log file may hold blocks of several instants) a block is seen when its instant is listed or
    older than `archived_before`. `only` narrows to the instants of a window.
    """

    latest_instant: str | None = None
    committed: frozenset[str] | None = None
    archived_before: str | None = None
    only: frozenset[str] | None = None

    def is_visible(self, instant_time: str) -> bool:
        """Return whether blocks that `instant_time` wrote belong to the table."""
        if self.committed is None or instant_time in self.committed:
            return True
        return self.archived_before is not None and instant_time < self.archived_before

    def in_range(self, instant_time: str) -> bool:
        """Return whether the query asks for blocks of `instant_time`."""
        return self.only is None or instant_time in self.only


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadSpec:
    """How to read any slice of one table for one query.

    `schema` is the Avro JSON of the table's columns without meta columns; `columns` are the output
    columns in output order and may name meta columns. `keep_instants` keeps only rows whose
    `_hoodie_commit_time` is listed. A task whose logs exceed `log_budget_bytes` is read in shares.
    With `names_places` rows and log blocks of the table always name the file that they are in.
    """

    storage: StorageSpec
    schema: str
    columns: tuple[str, ...]
    merge: MergeSpec
    keys: KeyRule
    blocks: BlockFilter = field(default_factory=BlockFilter)
    populate_meta_fields: bool = True
    history: SchemaHistory | None = None
    keep_instants: frozenset[str] | None = None
    log_budget_bytes: int = 256 << 20
    names_places: bool = False
