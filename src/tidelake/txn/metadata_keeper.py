"""What a change of a table owes the table's metadata table.

Apache Hudi's readers list files through the metadata table whenever the table's properties name it,
so a change that it does not know of is hidden, and later written twice. Whoever changes the table
does this around it:

1. `prepare`, before anything else: what earlier writers left out is made good, and the properties
   keep only the names of what will be kept.
2. `undo` for every instant that is taken off the table, before its data files go.
3. `record` with what an instant did to files, once they are on storage, and **before the instant
   completes**: the metadata table is then ahead, and readers pass over what it says of instants
   that are pending. The other way round rows would be hidden.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from tidelake.config import TableConfig
from tidelake.config.keys import read_keys as keys
from tidelake.env import Env
from tidelake.formats.column_bounds import ColumnBounds
from tidelake.formats.commit_metadata import NO_PREVIOUS_COMMIT, WriteStat
from tidelake.model.index_target import IndexTarget
from tidelake.timeline import Timeline, update_table_config
from tidelake.txn.protocol.instant_times import InstantTimes

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class FileChanges:
    """What one instant does to the files of a table, by partition path.

    `written` gives the size in bytes of each file by its name. `deleted` are names of files that
    are gone from storage, `gone` partitions without any file left. Files of the file ids in
    `replaced` stay where they are, but hold no rows of the table any more. `bounds` are those of
    the columns of a file, by its path. In the partitions of `begun` all files that are written are
    of new file groups.
    """

    written: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    deleted: Mapping[str, Sequence[str]] = field(default_factory=dict)
    gone: Sequence[str] = ()
    replaced: Mapping[str, Sequence[str]] = field(default_factory=dict)
    bounds: Mapping[str, Mapping[str, ColumnBounds]] = field(default_factory=dict)
    begun: frozenset[str] = frozenset()
    index_logs: Sequence[WriteStat] = ()
    """Log files of the record index that tasks have written, by paths in the metadata table."""
    is_indexed: bool = False
    """Whether these tell of all keys that came into file groups, or were in replaced ones."""

    def __bool__(self) -> bool:
        return bool(self.written or self.deleted or self.gone or self.replaced)


def changes_of(
    stats: Iterable[WriteStat],
    replaced: Mapping[str, Sequence[str]] | None = None,
    *,
    moves_keys: bool = True,
    forgets_replaced: bool = False,
) -> FileChanges:
    """Return what a write with these stats does to files.

    Without `moves_keys` every key stays in its file group. `forgets_replaced` says that those of
    the stats that tell of the record index take the keys of `replaced` out of it.
    """
    stats = list(stats)
    logs = tuple(stat for stat in stats if stat.is_index)
    stats = [stat for stat in stats if not stat.is_index]
    written: dict[str, dict[str, int]] = {}
    bounds: dict[str, Mapping[str, ColumnBounds]] = {}
    grown: set[str] = set()
    for stat in stats:
        if stat.prev_commit not in (None, NO_PREVIOUS_COMMIT):
            grown.add(stat.partition_path or "")
        files = dict(stat.cdc_stats or {})
        if stat.path is not None:
            files[stat.path] = stat.file_size_in_bytes or 0
            if stat.column_bounds is not None:
                bounds[stat.path] = stat.column_bounds
        for path, size_bytes in files.items():
            partition, _, name = path.rpartition("/")
            written.setdefault(partition, {})[name] = size_bytes
    return FileChanges(
        written=written,
        replaced=dict(replaced or {}),
        bounds=bounds,
        begun=frozenset(written) - grown,
        index_logs=logs,
        is_indexed=not moves_keys
        or (all(stat.is_indexed for stat in stats) and (forgets_replaced or not replaced)),
    )


class MetadataKeeper(Protocol):
    """Keeps the metadata table of one table true."""

    def prepare(
        self,
        config: TableConfig,
        timeline: Timeline,
        times: InstantTimes,
        *,
        is_fresh: bool = False,
    ) -> TableConfig:
        """Make good what earlier writers left out, and return the table's settings from then on.

        `is_fresh` says that `config` was loaded under the lock that is held.
        """

    def bounded_columns(self, config: TableConfig) -> Sequence[str]:
        """Return the columns whose bounds `record` is to be told, once `prepare` has run."""

    def begin_index_logs(self, config: TableConfig, instant_time: str) -> IndexTarget | None:
        """Let the tasks of a write tell the record index where keys are, and return where they do.

        Whoever rolls the write back finds what they wrote. Return None where no index is kept.
        """

    def record(self, instant_time: str, changes: FileChanges, times: InstantTimes) -> bool:
        """Write down what the instant did to files; it completes after this call and not before.

        Return whether the last thing done was a look at the lock.
        """

    def undo(self, instant_time: str, times: InstantTimes) -> bool:
        """Forget an instant that is being taken off the table.

        Return False when what it wrote cannot be told from the rest any more: the files that go
        then have to be recorded as deleted by the instant that takes them off.
        """

    def reconcile(self, instant_time: str, times: InstantTimes) -> None:
        """Write down, for an instant that completes after this, how files differ from the list.

        For who does not know what became of files, because others began the work.
        """


class NoMetadataTable:
    """Keeps none: its names leave the table's properties, and readers list storage instead.

    Its folder stays: without the names nobody reads it, and Apache Hudi builds it anew.
    """

    def __init__(self, env: Env) -> None:
        self._env = env

    def prepare(
        self,
        config: TableConfig,
        timeline: Timeline,  # noqa: ARG002 - what was written does not matter here
        times: InstantTimes,
        *,
        is_fresh: bool = False,  # noqa: ARG002 - an update reads the properties anew
    ) -> TableConfig:
        """Take the metadata table's partitions out of the properties."""
        names = (keys.METADATA_PARTITIONS, keys.METADATA_PARTITIONS_INFLIGHT)
        if not any(key.items(config.properties) for key in names):
            return config
        _log.warning(
            "the metadata table of %s is switched off: this write does not keep it. Readers list "
            "storage instead, and Apache Hudi's next write builds it anew",
            self._env.storage.spec.uri,
        )
        return update_table_config(self._env, {key.name: "" for key in names}, times.ensure)

    def bounded_columns(
        self,
        config: TableConfig,  # noqa: ARG002 - nobody asks for any
    ) -> Sequence[str]:
        """Return none."""
        return ()

    def begin_index_logs(
        self,
        config: TableConfig,  # noqa: ARG002 - there is no index
        instant_time: str,  # noqa: ARG002
    ) -> IndexTarget | None:
        """Return None."""
        return None

    def record(
        self,
        instant_time: str,  # noqa: ARG002 - there is nothing to write down
        changes: FileChanges,  # noqa: ARG002
        times: InstantTimes,  # noqa: ARG002
    ) -> bool:
        """Do nothing."""
        return False

    def undo(
        self,
        instant_time: str,  # noqa: ARG002 - there is nothing to forget
        times: InstantTimes,  # noqa: ARG002
    ) -> bool:
        """Return True: nothing is left of it."""
        return True

    def reconcile(self, instant_time: str, times: InstantTimes) -> None:
        """Do nothing."""
