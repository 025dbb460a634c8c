"""One base file, read in batches and brought to the table's schema."""

from __future__ import annotations

import errno
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import orc

from tidelake.errors import (
    CorruptFileError,
    MissingFileError,
    StorageError,
    UnsupportedTableError,
)
from tidelake.files.task import ReadSpec, SliceTask
from tidelake.records.schema import conform, constant_column
from tidelake.records.schema_versions import column_sources
from tidelake.storage import Storage

BATCH_ROWS = 1 << 17
_REPETITIVE_BYTES = 3
#: What the system says of a disk or a network, and not of what the file holds.
_UNREADABLE = frozenset({errno.EIO, errno.ESTALE, errno.ETIMEDOUT})


class BaseFile:
    """The base file of a slice."""

    def __init__(
        self,
        storage: Storage,
        task: SliceTask,
        spec: ReadSpec,
        *,
        with_dictionaries: bool = False,
    ) -> None:
        """Open the file and read its footer.

        `with_dictionaries` lets `repetitive` columns be asked for in dictionary form.
        """
        assert task.base_path is not None
        self._path = task.base_path
        self._partition_values = dict(task.partition_values)
        instant = task.base_instant
        history = spec.history
        self._sources = (
            None if history is None or instant is None else column_sources(history, instant)
        )
        extension = self._path.rpartition(".")[2]
        if extension not in ("parquet", "orc"):
            raise UnsupportedTableError(
                f"{self._path} is a base file of a format that tidelake does not read",
                next_step="rewrite the table with Parquet base files",
            )
        with readable(self._path):
            source = source_of(storage, self._path)
            self._file = (
                _Parquet(source, with_dictionaries=with_dictionaries)
                if extension == "parquet"
                else _Orc(source)
            )
        self._names = frozenset(self._file.names)

    @property
    def num_rows(self) -> int:
        """Return the number of rows in the file."""
        return self._file.num_rows

    @property
    def repetitive(self) -> frozenset[str]:
        """Return the text columns of few different values, by their names in the file."""
        return self._file.repetitive

    def highest(self, name: str) -> int | None:
        """Return the highest value of a column of whole numbers, or None where nothing tells.

        A column that lacks a value anywhere tells nothing either.
        """
        stored = self._stored(name)
        return None if stored is None else self._file.highest(stored)

    def spell_the_same(self, name: str, other: str) -> bool:
        """Return whether two columns that name the same thing do so in the same words.

        The footer tells: in every row group both have the same first and the same last text.
        """
        one, two = self._stored(name), self._stored(other)
        return one is not None and two is not None and self._file.spell_the_same(one, two)

    def require(self, names: Iterable[str]) -> None:
        """Raise `CorruptFileError` unless the file holds the columns `names`."""
        for name in names:
            if self._stored(name) is None and name not in self._partition_values:
                raise CorruptFileError(self._path, f"it has no column {name}")

    def _stored(self, name: str) -> str | None:
        source = None if self._sources is None else self._sources.get(name)
        stored = name if source is None else source.name
        return stored if stored in self._names else None

    def batches(self, schema: pa.Schema) -> Iterator[pa.Table]:
        """Return the file's rows in order, as tables of `schema`."""
        names = [stored for name in schema.names if (stored := self._stored(name)) is not None]
        with readable(self._path):
            for table in self._file.batches(names):
                yield self._conform(table, schema)

    def read(self, schema: pa.Schema) -> pa.Table:
        """Return all rows as one table of `schema`."""
        tables = list(self.batches(schema))
        return pa.concat_tables(tables).combine_chunks() if tables else schema.empty_table()

    def _conform(self, table: pa.Table, schema: pa.Schema) -> pa.Table:
        made = conform(table, schema, self._sources)
        for name, value in self._partition_values.items():
            at = schema.get_field_index(name)
            if at >= 0 and name not in table.column_names:
                column = constant_column(value, schema.field(at).type, table.num_rows)
                made = made.set_column(at, schema.field(at), column)
        return made


class _Parquet:
    def __init__(self, source: Any, *, with_dictionaries: bool) -> None:
        metadata = pq.read_metadata(source) if with_dictionaries else None
        self.repetitive = frozenset() if metadata is None else _repetitive(metadata)
        self._file = pq.ParquetFile(
            source,
            metadata=metadata,
            coerce_int96_timestamp_unit="us",
            read_dictionary=sorted(self.repetitive),
            # It makes fewer requests, but of a file at hand it only holds more in memory.
            pre_buffer=not isinstance(source, str),
        )
        self.num_rows: int = self._file.metadata.num_rows
        self.names: list[str] = self._file.schema_arrow.names

    def highest(self, name: str) -> int | None:
        found = [_highest(column) for column in self._columns(name)]
        known = [each for each in found if each is not None]
        return max(known, default=None) if len(known) == len(found) else None

    def spell_the_same(self, name: str, other: str) -> bool:
        found = [_reach(column) for column in self._columns(name)]
        return bool(found) and None not in found and found == [*map(_reach, self._columns(other))]

    def _columns(self, name: str) -> list[pq.ColumnChunkMetaData]:
        metadata = self._file.metadata
        paths = [metadata.schema.column(at).path for at in range(metadata.num_columns)]
        groups = map(metadata.row_group, range(metadata.num_row_groups))
        return [group.column(paths.index(name)) for group in groups] if name in paths else []

    def batches(self, names: Sequence[str]) -> Iterator[pa.Table]:
        if not names:
            # Arrow gives no batches for no columns, but the rows still count.
            for start in range(0, self.num_rows, BATCH_ROWS):
                yield _without_columns(min(BATCH_ROWS, self.num_rows - start))
            return
        for batch in self._file.iter_batches(BATCH_ROWS, columns=names, use_threads=False):
            yield pa.Table.from_batches([batch])


def _highest(column: pq.ColumnChunkMetaData) -> int | None:
    found = column.statistics
    if found is None or not (found.has_min_max and found.has_null_count) or found.null_count:
        return None
    return found.max if type(found.max) is int else None


def _reach(column: pq.ColumnChunkMetaData) -> tuple[str, str] | None:
    found = column.statistics
    if found is None or not (found.has_min_max and found.has_null_count) or found.null_count:
        return None
    return (found.min, found.max) if isinstance(found.min, str) else None


def _repetitive(metadata: pq.FileMetaData) -> frozenset[str]:
    sizes: dict[str, int] = {}
    for group in range(metadata.num_row_groups):
        found = metadata.row_group(group)
        for at in range(found.num_columns):
            column = found.column(at)
            if column.physical_type == "BYTE_ARRAY":
                name = column.path_in_schema
                sizes[name] = sizes.get(name, 0) + column.total_uncompressed_size
    texts = {f.name for f in metadata.schema.to_arrow_schema() if pa.types.is_string(f.type)}
    # So little a value is the number of an entry and no text.
    most = metadata.num_rows * _REPETITIVE_BYTES
    return frozenset(name for name, size in sizes.items() if name in texts and size <= most)


class _Orc:
    repetitive: frozenset[str] = frozenset()

    def __init__(self, source: Any) -> None:
        self._file = orc.ORCFile(source)
        self.num_rows: int = self._file.nrows
        self.names: list[str] = self._file.schema.names

    def highest(self, name: str) -> int | None:  # noqa: ARG002 - its footer is not asked
        return None

    def spell_the_same(self, name: str, other: str) -> bool:  # noqa: ARG002
        return False

    def batches(self, names: Sequence[str]) -> Iterator[pa.Table]:
        for stripe in range(self._file.nstripes):
            batch = self._file.read_stripe(stripe, columns=list(names))
            yield pa.Table.from_batches([batch])


def _without_columns(rows: int) -> pa.Table:
    return pa.table({"": pa.nulls(rows)}).select([])


@contextmanager
def readable(path: str) -> Iterator[None]:
    """Raise what goes wrong while a base file is read as an error that names the file."""
    try:
        yield
    except FileNotFoundError as cause:
        raise MissingFileError(path) from cause
    except PermissionError as cause:
        raise StorageError(path, cause.strerror or str(cause)) from cause
    except (pa.ArrowException, OSError, ValueError) as cause:
        if getattr(cause, "errno", None) in _UNREADABLE:
            raise StorageError(path, str(cause)) from cause
        raise CorruptFileError(path, str(cause)) from cause


def source_of(storage: Storage, path: str) -> Any:
    """Return what Arrow opens a file by; a path of its own is the quickest, if a file is there."""
    local = storage.local_path(path)
    if local is None:
        return storage.open(path)
    storage.stat(path)  # raises for a pipe or a device, which Arrow would wait for
    return local
