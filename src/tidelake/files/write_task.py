"""What an executor is told to write: how the table's files look, and where one run of rows goes."""

from __future__ import annotations

import zlib
from dataclasses import dataclass, field, replace
from enum import IntEnum

from tidelake.config import CdcMode
from tidelake.formats.bloom_filter import BloomKind
from tidelake.formats.schema_history import SchemaHistory
from tidelake.model import Word
from tidelake.model.index_target import IndexTarget
from tidelake.records.keys import KeyRule
from tidelake.records.merge_spec import MergeSpec
from tidelake.storage.protocol import StorageSpec

#: A file id, or the number of a bucket as eight digits; null as long as no group is chosen.
GROUP = "_tidelake_group"
#: A number in the place of partition path and group, where the groups of a write are numbered.
PLACE = "_tidelake_place"
#: A hash of the key and the partition path, by which a second evaluation is held to the first.
CHECK = "_tidelake_check"
#: The column of incoming rows that holds a `Change`, as an integer of any width.
CHANGE = "_tidelake_change"
#: An optional column of incoming rows: the row number of the key in the group's base file, or null.
POSITION = "_tidelake_position"
#: An optional column of incoming rows: which of `WriteSpec.column_sets` a row brings; null: all.
COLUMNS = "_tidelake_columns"
#: An optional column of incoming rows: the sequence number of the table's row that became this one.
ROW = "_tidelake_row"


class Change(IntEnum):
    """What an incoming row does, as far as the index knows.

    Inserts and updates differ in the counts alone. A `DELETE` needs no more than its key and wins
    over whatever the table holds; rows that say of themselves that they are deletes (such as by
    `_hoodie_is_deleted`) come as inserts or updates and obey their ordering values.
    """

    INSERT = 0
    UPDATE = 1
    DELETE = 2


class WriteKind(Word):
    """How rows enter a file group."""

    #: Into base files of a new file group; more groups follow when `rolls` and the file is full.
    CREATE = "CREATE"
    #: Into a new version of the base file, merged with the rows that have the same key.
    MERGE = "MERGE"
    #: Into a new version of the base file, behind its rows, whatever their keys.
    CONCAT = "CONCAT"
    #: Into a log file.
    APPEND = "APPEND"


class LogFormat(Word):
    """How the records of a log block are encoded; the words are Hudi's."""

    AVRO = "avro"
    PARQUET = "parquet"


@dataclass(frozen=True, slots=True, kw_only=True)
class BloomSettings:
    """The bloom filter in the footer of a base file."""

    kind: BloomKind = BloomKind.DYNAMIC_V0
    entries: int = 60_000
    false_positives: float = 1e-9
    max_entries: int = 100_000


@dataclass(frozen=True, slots=True, kw_only=True)
class ParquetSettings:
    """How base files and Parquet log blocks are written; `bloom` is for base files alone.

    `codec` is a word of Hudi's option: uncompressed, snappy, gzip, lz4, lz4_raw or zstd. Hudi's
    default is gzip; zstd at its quickest level takes less room and a fraction of the time.
    """

    codec: str = "zstd"
    block_size_bytes: int = 120 << 20
    page_size_bytes: int = 1 << 20
    max_file_size_bytes: int = 120 << 20
    dictionary: bool = True
    bloom: BloomSettings | None = field(default_factory=BloomSettings)


@dataclass(frozen=True, slots=True, kw_only=True)
class LogSettings:
    """How log files are written."""

    format: LogFormat = LogFormat.AVRO
    max_file_size_bytes: int = 1 << 30
    max_block_size_bytes: int = 256 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnSet:
    """The columns that a partial row brings; of all others the table's row keeps its values.

    A column that is brought may be null, which then is its value. `is_known` promises that the
    table has the row, so that nobody needs to be told where it is.
    """

    names: tuple[str, ...]
    is_known: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteSpec:
    """How one write lays its rows down, the same for every file group.

    `schema` is the Avro JSON of the table's columns without meta columns; `marker_folder` is the
    folder of the instant's markers, relative to the table. `dropped_columns` are left out of data
    files. With `combine`, incoming rows of one key are merged among themselves first, in the order
    in which they come; a `MERGE` always does so. `positions` allows record positions in log blocks.
    `cdc` is set for tables that log their changes. `column_sets` are those of partial rows; with
    `completes_new`, partial rows whose key a file group does not have are logged whole, and null
    where they bring nothing. `owner` is what the heartbeat says when others might take the instant
    over. An instant that `waits` is sealed by the process that runs the tasks, once all have ended.
    """

    storage: StorageSpec
    schema: str
    table_version: int
    instant_time: str
    marker_folder: str
    merge: MergeSpec
    keys: KeyRule
    populate_meta_fields: bool = True
    dropped_columns: tuple[str, ...] = ()
    history: SchemaHistory | None = None
    combine: bool = False
    positions: bool = True
    cdc: CdcMode | None = None
    bounded_columns: tuple[str, ...] = ()
    """The columns whose bounds the stats of files are to tell."""
    record_index: IndexTarget | None = None
    column_sets: tuple[ColumnSet, ...] = ()
    completes_new: bool = False
    owner: str | None = None
    waits: bool = False
    parquet: ParquetSettings = field(default_factory=ParquetSettings)
    log: LogSettings = field(default_factory=LogSettings)


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteToken:
    """One attempt of one task; no two attempts of a write share it."""

    task: int
    stage: int
    attempt: int

    def format(self) -> str:
        """Return the token as it stands in file names."""
        return f"{self.task}-{self.stage}-{self.attempt}"

    def of_owner(self, owner: str | None) -> WriteToken:
        """Return the token of an attempt at a plan that others may take over.

        Two processes count their stages alike, and a file of one must not be the other's.
        """
        if owner is None:
            return self
        return replace(self, stage=zlib.crc32(owner.encode()) & 0x7FFFFFFF)


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupTarget:
    """The file group that a run of rows goes to.

    `base_path` and `base_instant` name the base file of the latest slice, if it has one. The rest
    of the slice matters to an `APPEND` on table version 6, and to any with `cdc`: `slice_instant`
    is the instant that version 6 has in the names of its logs (None: this write opens the slice),
    and `log_names` are the logs it has; `log_version` is the first that is free. With `rolls`, a
    `CREATE` goes on in another file group once a file has its size; `file_id` must then end in
    `-0`. `partition_known` says that the folder is a partition already.
    """

    partition: str
    file_id: str
    kind: WriteKind
    base_path: str | None = None
    base_instant: str | None = None
    slice_instant: str | None = None
    log_names: tuple[str, ...] = ()
    log_version: int = 1
    rolls: bool = False
    partition_known: bool = False

    def __post_init__(self) -> None:
        if (self.base_path is None) != (self.base_instant is None):
            raise ValueError(f"a base file has a path and an instant: {self!r}")
        if self.kind in (WriteKind.MERGE, WriteKind.CONCAT) and self.base_path is None:
            raise ValueError(f"a {self.kind} needs a base file: {self!r}")
        if self.kind is WriteKind.CREATE and self.base_path is not None:
            raise ValueError(f"a new file group has no base file: {self!r}")
        if self.rolls and not self.file_id.endswith("-0"):
            raise ValueError(f"a file group that rolls counts from -0: {self!r}")
