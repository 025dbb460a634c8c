"""A sink for `writeStream.foreachBatch` that writes every batch exactly once."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain
from os import PathLike, fspath

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from tidelake.config import WriteOperation, WriteOptions
from tidelake.config.keys import write_keys
from tidelake.env import Env
from tidelake.errors import ConfigError, TableExistsError
from tidelake.formats.commit_metadata import WRITE_ROWS, CommitMetadata
from tidelake.model.numbers import whole_number
from tidelake.operations.open_table import create_table_of, load_state, table_exists
from tidelake.spark.types.to_avro import FrameColumns
from tidelake.spark.write.writer import Writer, committed
from tidelake.state.table_state import TableState
from tidelake.storage import open_storage
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
    """A batch of a stream that was committed.

    `query` is empty where nobody said which it was, and `rows` where the commit does not say which
    rows it brought.
    """

    number: int
    query: str = ""
    rows: str = ""


def sink(path: str | PathLike[str], options: Mapping[str, str] | None = None) -> Sink:
    """Return a function for `writeStream.foreachBatch` that writes batches to the table at `path`.

        rows.writeStream.foreachBatch(tidelake.sink("lake/trips", options)).start()

    `options` are those of a write; `hoodie.datasource.write.operation` says what is done with the
    rows, an upsert unless given. The first batch creates a table that is not there. A batch that
    Spark hands over again, after a crash or a restart, is not written again: the stream's name, the
    operation, its number and a checksum of its rows are part of its commit. Raises `ConfigError`
    for a batch that may be another one of the same name and number.
    """
    path = fspath(path)
    given = dict(options or {})
    written = WriteOptions.from_options(given)
    named = write_keys.STREAM_IDENTIFIER.text(written.settings)

    def write(rows: DataFrame, batch_id: int) -> None:
        spark = rows.sparkSession
        query = _query_id(spark, is_named=named is not None)
        stream = named or query or _ONLY_STREAM
        env = Env(open_storage(path, given))
        if not table_exists(env.storage):
            # Of several streams that begin at once, one creates the table.
            with suppress(TableExistsError):
                create_table_of(env, FrameColumns.of_any_rows(rows.schema), written)
        state = load_state(env.storage, given)
        prefix = _prefix(stream, written.operation)
        known = committed_batches(state, prefix, batch_id)
        if known:
            last = known[max(known)]
            _refuse_other_query(stream, query, last)
            same = known.get(batch_id)
            if same is not None:
                if same.rows:
                    writer = Writer(spark, env, state, written)
                    _refuse_other_rows(stream, same, writer.content(written.operation, rows))
                _log.info("batch %d of stream %s is in %s already", batch_id, stream, path)
                return
            if last.number > batch_id:
                raise _unknown(
                    stream,
                    f"batch {batch_id} after its batch {last.number}, and nothing of batch "
                    f"{batch_id} is in the table",
                )
        write_id = f"{prefix}{batch_id}{f'@{query}' if query and named else ''}"
        # What was read of the table is known to the first attempt; each further one looks anew.
        states = chain([state], iter(lambda: load_state(env.storage, given), None))
        committed(
            spark,
            env,
            written,
            lambda: next(states),
            lambda writer, _: writer.write_as_told(rows, write_id),
        )

    return write


def committed_batches(state: TableState, prefix: str, number: int) -> Mapping[int, Batch]:
    """Return batches of a stream that were committed, the last and that of a number among them.

    Batches come in order, so the newest commits tell of most. Only a stream that the active
    timeline does not know of, and an old batch, are looked for in the history.
    """
    found = {batch.number: batch for batch in _batches(_active(state), prefix)}
    if not found or (number not in found and number < max(found)):
        found = {b.number: b for b in _batches(_archived(state, prefix), prefix)} | found
    return found


def _refuse_other_query(stream: str, query: str, last: Batch) -> None:
    if query and last.query and query != last.query:
        raise ConfigError(
            f"stream {stream} has written {last.number + 1} batches with another checkpoint (query "
            f"{last.query}, and this is {query}), so that nobody can tell which of them are new",
            next_step="start it with the checkpoint that it had; or, to write what it brings in "
            f"any case, give {write_keys.STREAM_IDENTIFIER.name} a name that was not used before",
        )


def _refuse_other_rows(stream: str, same: Batch, rows: str) -> None:
    if rows != same.rows:
        ours, theirs = (text.partition(":")[0] for text in (rows, same.rows))
        raise _unknown(
            stream,
            f"batch {same.number} again with other rows ({ours}, and {theirs} were written)",
        )


def _unknown(stream: str, problem: str) -> ConfigError:
    return ConfigError(
        f"stream {stream} brings {problem}, so that nobody can tell whether the rows are new",
        next_step=f"give every sink of one query a {write_keys.STREAM_IDENTIFIER.name} of its own, "
        "every query a checkpoint of its own, and rows keys that are the same when a batch is made "
        "again; to write the rows in any case, give a name that was not used before",
    )


def _active(state: TableState) -> Iterator[CommitMetadata]:
    writes = state.timeline.writes()
    state.contents.load_commit_metadata(writes)
    return (state.contents.commit_metadata(i) for i in writes)


def _archived(state: TableState, prefix: str) -> Iterator[CommitMetadata]:
    writes = state.history.writes_holding(prefix)
    return (state.history.commit_metadata(i) for i in writes)


def _prefix(stream: str, operation: WriteOperation) -> str:
    return f"{_PREFIX}{stream}:{operation}:"


def _batches(commits: Iterator[CommitMetadata], prefix: str) -> Iterator[Batch]:
    for commit in commits:
        write_id = commit.extra_metadata.get(WRITE_ID) or ""
        text, _, query = write_id[len(prefix) :].partition("@")
        number = whole_number(text)
        if write_id.startswith(prefix) and number is not None:
            yield Batch(number, query, commit.extra_metadata.get(WRITE_ROWS) or "")


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
