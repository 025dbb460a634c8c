"""A sink for `writeStream.foreachBatch` that writes every batch exactly once."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from tidelake.config import WriteOptions, write_keys
from tidelake.errors import ConfigError, TableExistsError
from tidelake.formats.commit_metadata import CommitMetadata
from tidelake.read.state import TableState
from tidelake.storage import open_storage
from tidelake.table import Table, load_state
from tidelake.txn import WRITE_ID

_log = logging.getLogger(__name__)

_PREFIX = "stream:"
#: Where Spark tells code that runs for a streaming query which one that is.
_QUERY_ID = "sql.streaming.queryId"
#: What Hudi calls a stream without a name.
_ONLY_STREAM = "default_single_writer"

Sink = Callable[[DataFrame, int], None]


@dataclass(frozen=True, slots=True)
class Batch:
    """A batch of a stream that was committed; `query` is empty where nobody said which it was."""

    number: int
    query: str = ""


def sink(path: str, options: Mapping[str, str] | None = None) -> Sink:
    """Return a function for `writeStream.foreachBatch` that writes batches to the table at `path`.

    `options` are those of a write; `hoodie.datasource.write.operation` says what is done with the
    rows, an upsert unless given. The first batch creates a table that is not there. A batch that
    Spark hands over again, after a crash or a restart, is not written again: its number and the
    stream's name are part of its commit. Raises `ConfigError` when a stream of that name has
    written before with another checkpoint, so that the numbers of its batches mean something else.
    """
    given = dict(options or {})
    written = WriteOptions.from_options(given)
    named = write_keys.STREAM_IDENTIFIER.text(written.settings)

    def write(rows: DataFrame, batch_id: int) -> None:
        spark = rows.sparkSession
        query = _query_id(spark, is_named=named is not None)
        stream = named or query or _ONLY_STREAM
        if not Table.exists(spark, path, given):
            # Of several streams that begin at once, one creates the table.
            with suppress(TableExistsError):
                Table.create(spark, path, rows, options=given)
        state = load_state(open_storage(path, given), given)
        last = last_batch(state, stream)
        if last is not None:
            _refuse_other_query(stream, query, last)
            if last.number >= batch_id:
                _log.info("batch %d of stream %s is in %s already", batch_id, stream, path)
                return
        table = Table.open(spark, path, given)
        by = f"@{query}" if query and named else ""
        table.write(rows, write_id=f"{_prefix(stream)}{batch_id}{by}")

    return write


def last_batch(state: TableState, stream: str) -> Batch | None:
    """Return the last batch of a stream that was committed, or None.

    Batches come in order, so the newest commit of the stream tells. Only a stream that the active
    timeline does not know of is looked for in the history.
    """
    for commits in (_active(state), _archived(state, stream)):
        found = max(_batches(commits, stream), key=lambda batch: batch.number, default=None)
        if found is not None:
            return found
    return None


def _refuse_other_query(stream: str, query: str, last: Batch) -> None:
    if query and last.query and query != last.query:
        raise ConfigError(
            f"stream {stream} has written {last.number + 1} batches with another checkpoint (query "
            f"{last.query}, and this is {query}), so that nobody can tell which of them are new",
            next_step="start it with the checkpoint that it had; or, to write what it brings in "
            f"any case, give {write_keys.STREAM_IDENTIFIER.name} a name that was not used before",
        )


def _active(state: TableState) -> Iterator[CommitMetadata]:
    writes = state.timeline.writes()
    state.contents.load_commit_metadata(writes)
    return (state.contents.commit_metadata(i) for i in writes)


def _archived(state: TableState, stream: str) -> Iterator[CommitMetadata]:
    writes = state.history.writes_holding(_prefix(stream))
    return (state.history.commit_metadata(i) for i in writes)


def _prefix(stream: str) -> str:
    return f"{_PREFIX}{stream}:"


def _batches(commits: Iterator[CommitMetadata], stream: str) -> Iterator[Batch]:
    prefix = _prefix(stream)
    for commit in commits:
        write_id = commit.extra_metadata.get(WRITE_ID) or ""
        number, _, query = write_id[len(prefix) :].partition("@")
        if write_id.startswith(prefix) and number.isdigit():
            yield Batch(int(number), query)


def _query_id(spark: SparkSession, *, is_named: bool) -> str:
    """Return the id of the streaming query, empty when none is running here."""
    try:
        return spark.sparkContext.getLocalProperty(_QUERY_ID) or ""
    except (AttributeError, PySparkException) as cause:
        if is_named:
            return ""
        # Spark Connect has no context to ask, and two streams must not pass for one.
        raise ConfigError(
            "the stream has no name by which its batches could be told from those of others",
            next_step=f"set {write_keys.STREAM_IDENTIFIER.name} to a name that stays the same "
            "when the stream is started again",
        ) from cause
