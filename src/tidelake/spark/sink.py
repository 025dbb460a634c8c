"""A sink for `writeStream.foreachBatch` that writes every batch exactly once."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from tidelake.config import WriteOptions, write_keys
from tidelake.errors import ConfigError, TableExistsError
from tidelake.formats.commit_metadata import CommitMetadata
from tidelake.read.state import TableState
from tidelake.storage import open_storage
from tidelake.table import Table, load_state
from tidelake.txn import WRITE_ID

_PREFIX = "stream:"
#: Where Spark tells code that runs for a streaming query which one that is.
_QUERY_ID = "sql.streaming.queryId"

Sink = Callable[[DataFrame, int], None]


def sink(path: str, options: Mapping[str, str] | None = None) -> Sink:
    """Return a function for `writeStream.foreachBatch` that writes batches to the table at `path`.

    `options` are those of a write; `hoodie.datasource.write.operation` says what is done with the
    rows, an upsert unless given. The first batch creates a table that is not there. A batch that
    Spark hands over again, after a crash or a restart, is not written again: its number and the
    stream's name are part of its commit.
    """
    given = dict(options or {})
    written = WriteOptions.from_options(given)
    named = write_keys.STREAM_IDENTIFIER.text(written.settings)

    def write(rows: DataFrame, batch_id: int) -> None:
        spark = rows.sparkSession
        stream = named or _query_id(spark)
        if not Table.exists(spark, path, given):
            # Of several streams that begin at once, one creates the table.
            with suppress(TableExistsError):
                Table.create(spark, path, rows, options=given)
        state = load_state(open_storage(path, given), given)
        if last_batch(state, stream) >= batch_id:
            return
        table = Table.open(spark, path, given)
        table.write(rows, write_id=f"{_prefix(stream)}{batch_id}")

    return write


def last_batch(state: TableState, stream: str) -> int:
    """Return the number of the last batch of a stream that was committed, or -1.

    Batches come in order, so the newest commit of the stream tells. Only a stream that the active
    timeline does not know of is looked for in the history.
    """
    active = max(_batches(_active(state), stream), default=-1)
    return active if active >= 0 else max(_batches(_archived(state, stream), stream), default=-1)


def _active(state: TableState) -> Iterator[CommitMetadata]:
    writes = state.timeline.writes()
    state.contents.load_commit_metadata(writes)
    return (state.contents.commit_metadata(i) for i in writes)


def _archived(state: TableState, stream: str) -> Iterator[CommitMetadata]:
    writes = state.history.writes_holding(_prefix(stream))
    return (state.history.commit_metadata(i) for i in writes)


def _prefix(stream: str) -> str:
    return f"{_PREFIX}{stream}:"


def _batches(commits: Iterator[CommitMetadata], stream: str) -> Iterator[int]:
    prefix = _prefix(stream)
    for commit in commits:
        write_id = commit.extra_metadata.get(WRITE_ID) or ""
        number = write_id[len(prefix) :]
        if write_id.startswith(prefix) and number.isdigit():
            yield int(number)


def _query_id(spark: SparkSession) -> str:
    try:
        found = spark.sparkContext.getLocalProperty(_QUERY_ID)
    except (AttributeError, PySparkException):
        found = None  # Spark Connect has no context to ask.
    if not found:
        raise ConfigError(
            "the stream has no name by which its batches could be told from those of others",
            next_step=f"set {write_keys.STREAM_IDENTIFIER.name} to a name that stays the same "
            "when the stream is started again",
        )
    return found
