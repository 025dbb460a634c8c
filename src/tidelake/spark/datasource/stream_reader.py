"""A table as a stream: `spark.readStream.format("tidelake")` follows what is committed to it.

An offset is the time up to which commits were read: a completion time from table version 8 on, so
that a write that began early and ended late is not passed over; a requested time before, where the
stream waits in front of a write that is still pending.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import pyarrow as pa
from pyspark.sql import types as T  # noqa: N812 - the customary name
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxFiles,
    SupportsTriggerAvailableNow,
)
from typing_extensions import override

from tidelake.config import HollowCommitPolicy, QueryType, UndoneCommits
from tidelake.config.keys import read_keys as keys
from tidelake.errors import ConfigError, IncrementalRangeError
from tidelake.files import read_slice
from tidelake.operations.bins import pack
from tidelake.operations.open_table import open_state
from tidelake.read.changes import plan_changes
from tidelake.read.incremental import plan_incremental
from tidelake.read.query import is_changes_query
from tidelake.read.scan import Selection
from tidelake.read.stream_progress import (
    START_ANEW,
    Limits,
    last_commit,
    latest_time,
    next_end,
    refuse_undone,
)
from tidelake.records import conform
from tidelake.spark.datasource.shares import PARALLELISM, Share, json_changes, path_of
from tidelake.state.table_state import TableState

_TIME = "time"
_COMMIT = "commit"
_EARLIEST = "earliest"
_LATEST = "latest"


class TidelakeStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Follows one table; every micro-batch is a window of commits."""

    def __init__(self, options: dict[str, str], schema: T.StructType) -> None:
        self._options = {
            # A stream that goes by requested times must not pass a write that is still pending.
            keys.HOLLOW_COMMIT_POLICY.name: HollowCommitPolicy.BLOCK.value,
            **options,
        }
        _refuse_windows(self._settings)
        self._columns = schema.names
        self._target = to_arrow_schema(schema, timezone="UTC")
        self._until: str | None = None
        self._limits = Limits(
            files=keys.MAX_FILES_PER_TRIGGER.count(self._settings, least=1),
            size_bytes=keys.MAX_BYTES_PER_TRIGGER.count(self._settings, least=1),
        )

    @property
    def _settings(self) -> dict[str, str]:
        return {name.lower(): value for name, value in self._options.items()}

    @override
    def initialOffset(self) -> dict[str, Any]:
        """Return where a new stream starts, by `hoodie.datasource.streaming.startOffset`."""
        given = keys.STREAM_START.text(self._settings) or _EARLIEST
        if given.lower() == _EARLIEST:
            return {_TIME: ""}
        state = self._state()
        if given.lower() == _LATEST:
            return _offset(state, latest_time(state) or "")
        return {_TIME: state.instant(given)}

    @override
    def getDefaultReadLimit(self) -> ReadLimit:
        """Return the limit that the options set."""
        if self._limits.files is not None:
            return ReadMaxFiles(self._limits.files)
        if self._limits.size_bytes is not None:
            return ReadMaxBytes(self._limits.size_bytes)
        return ReadAllAvailable()

    @override
    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        """Return where the next micro-batch ends."""
        began = start[_TIME]
        if self._until is not None and began >= self._until:
            return start
        state = self._state()
        self._refuse_undone(state, start)
        end = next_end(state, began or None, self._wanted(limit))
        if end is None:
            return start
        return _offset(state, end if self._until is None else min(end, self._until))

    @override
    def prepareForTriggerAvailableNow(self) -> None:
        """Remember how far the table is now: the stream goes no further."""
        self._until = latest_time(self._state()) or ""

    @override
    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """Return the shares of one window."""
        state = self._state()
        for offset in (start, end):
            self._refuse_undone(state, offset)
        try:
            return self._shares(state, start, end)
        except IncrementalRangeError as cause:
            raise IncrementalRangeError(cause.problem, next_step=START_ANEW) from cause

    def _shares(
        self, state: TableState, start: dict[str, Any], end: dict[str, Any]
    ) -> Sequence[InputPartition]:
        began, until = start[_TIME] or None, end[_TIME] or None
        shares: list[Share] = []
        if is_changes_query(state):
            changes = plan_changes(state, start=began, end=until)
            shares = [[partial(json_changes, task, changes.spec)] for task in changes.tasks]
        else:
            rows = plan_incremental(state, Selection(columns=self._columns), start=began, end=until)
            bins = pack(rows.tasks, PARALLELISM)
            shares = [[partial(read_slice, task, rows.spec) for task in of] for of in bins]
        return [InputPartition(share) for share in shares or [[]]]

    @override
    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Return the rows of one share."""
        for batches in partition.value:
            for batch in batches():
                yield from conform(pa.Table.from_batches([batch]), self._target).to_batches()

    def _refuse_undone(self, state: TableState, offset: dict[str, Any]) -> None:
        if keys.STREAM_UNDONE.word(self._settings, UndoneCommits) is not UndoneCommits.GO_ON:
            refuse_undone(state, offset.get(_COMMIT))

    def _wanted(self, limit: ReadLimit) -> Limits:
        if isinstance(limit, ReadAllAvailable):
            return Limits()
        return self._limits

    def _state(self) -> TableState:
        state = open_state(path_of(self._options), self._options)
        if not state.config.populate_meta_fields:
            raise ConfigError(
                "the table keeps no meta columns, so nobody can tell when a row changed",
                next_step="read it as a whole, with spark.read",
            )
        return state


def _offset(state: TableState, time: str) -> dict[str, Any]:
    commit = last_commit(state, time)
    return {_TIME: time} if commit is None else {_TIME: time, _COMMIT: commit}


def _refuse_windows(settings: dict[str, str]) -> None:
    """Raise `ConfigError` for options that say when or what to read once and for all."""
    for key in (keys.AS_OF, keys.BEGIN_TIME, keys.END_TIME):
        given = key.given(settings)
        if given is not None:
            raise ConfigError(
                f"{given[0]} is {given[1]}, but a stream goes by the offsets in its checkpoint",
                next_step=f"leave it out; {keys.STREAM_START.name} says where a new stream starts",
            )
    if keys.QUERY_TYPE.word(settings, QueryType) is QueryType.READ_OPTIMIZED:
        raise ConfigError(
            f"{keys.QUERY_TYPE.name} is {QueryType.READ_OPTIMIZED}, but a stream brings what "
            "changed, logs included",
            next_step="leave it out",
        )
