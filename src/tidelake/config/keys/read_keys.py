"""Every configuration key tidelake reads, declared once."""

from __future__ import annotations

from tidelake.config.keys.key import Declare, Key, Kind, Scope, spelled
from tidelake.config.words import (
    CdcMode,
    HollowCommitPolicy,
    IncrementalFormat,
    KeyGeneratorType,
    MergePath,
    QueryType,
    TimeBasis,
    UndoneCommits,
)
from tidelake.model import MergeMode, TableType

_table = Declare(Scope.TABLE)
_read = Declare(Scope.READ)
TABLE_NAME = _table("hoodie.table.name", Kind.TEXT, "Name of the table; feeds the checksum.")
DATABASE_NAME = _table("hoodie.database.name", Kind.TEXT, "Database of the table.")
TABLE_TYPE = _table(
    "hoodie.table.type",
    Kind.WORD,
    "Whether updates rewrite base files or append to log files.",
    default=TableType.COPY_ON_WRITE.value,
    choices=spelled(TableType),
)
TABLE_VERSION = _table("hoodie.table.version", Kind.INTEGER, "Version of the table's format.")
INITIAL_VERSION = _table(
    "hoodie.table.initial.version", Kind.INTEGER, "Version with which the table was created."
)
CHECKSUM = _table(
    "hoodie.table.checksum",
    Kind.INTEGER,
    "Checksum of database and table name: shows that the file was written to its end.",
)
LAYOUT_VERSION = _table(
    "hoodie.timeline.layout.version",
    Kind.INTEGER,
    "Layout of the timeline: 1 keeps instants in `.hoodie`, 2 in a folder of their own.",
)
TABLE_FORMAT = _table(
    "hoodie.table.format",
    Kind.TEXT,
    "Table format behind the table; anything but `native` needs a plug-in of Apache Hudi.",
    default="native",
)
TIMELINE_PATH = _table(
    "hoodie.timeline.path",
    Kind.TEXT,
    "Timeline folder below `.hoodie`, in layout 2.",
    default="timeline",
)
HISTORY_PATH = _table(
    "hoodie.timeline.history.path",
    Kind.TEXT,
    "Folder of the archived timeline below the timeline folder, in layout 2.",
    default="history",
)
ARCHIVE_FOLDER = _table(
    "hoodie.archivelog.folder",
    Kind.TEXT,
    "Folder of the archived timeline below `.hoodie`, in layout 1.",
    default="archived",
)
RECORD_KEY_FIELDS = _table(
    "hoodie.table.recordkey.fields", Kind.LIST, "Columns that make up the record key."
)
PARTITION_FIELDS = _table(
    "hoodie.table.partition.fields",
    Kind.LIST,
    "Columns that make up the partition path, each with `:TYPE` under a custom key generator.",
)
ORDERING_FIELDS = _table(
    "hoodie.table.ordering.fields",
    Kind.LIST,
    "Columns whose values decide which of two records of a key is newer.",
    aliases=("hoodie.table.precombine.field",),
)
KEY_GENERATOR_TYPE = _table(
    "hoodie.table.keygenerator.type",
    Kind.WORD,
    "Kind of key generator.",
    choices=spelled(KeyGeneratorType),
)
KEY_GENERATOR_CLASS = _table(
    "hoodie.table.keygenerator.class", Kind.WORD, "Java class of the key generator."
)
POPULATE_META_FIELDS = _table(
    "hoodie.populate.meta.fields",
    Kind.BOOLEAN,
    "Whether base files carry the five `_hoodie_*` columns with values.",
    default="true",
)
CREATE_SCHEMA = _table(
    "hoodie.table.create.schema", Kind.TEXT, "Avro schema of the table as it was created."
)
DROP_PARTITION_COLUMNS = _table(
    "hoodie.datasource.write.drop.partition.columns",
    Kind.BOOLEAN,
    "Whether base files leave out the partition columns.",
    default="false",
)
HIVE_STYLE_PARTITIONING = _table(
    "hoodie.datasource.write.hive_style_partitioning",
    Kind.BOOLEAN,
    "Whether partition folders are named `column=value`.",
    default="false",
)
URL_ENCODE_PARTITIONING = _table(
    "hoodie.datasource.write.partitionpath.urlencode",
    Kind.BOOLEAN,
    "Whether special characters of partition values are percent-encoded.",
    default="false",
)
BASE_FILE_FORMAT = _table(
    "hoodie.table.base.file.format",
    Kind.WORD,
    "Format of base files.",
    default="PARQUET",
    aliases=("hoodie.table.ro.file.format",),
    choices=("PARQUET", "HFILE"),
)
TIMELINE_TIMEZONE = _table(
    "hoodie.table.timeline.timezone",
    Kind.TEXT,
    "Time zone of instant times: `UTC`, or `LOCAL` for the zone of the writer.",
    default="LOCAL",
)
CDC_ENABLED = _table(
    "hoodie.table.cdc.enabled", Kind.BOOLEAN, "Whether writers log changes.", default="false"
)
CDC_LOGGING_MODE = _table(
    "hoodie.table.cdc.supplemental.logging.mode",
    Kind.WORD,
    "How much of a change writers log.",
    default=CdcMode.DATA_BEFORE_AFTER.value,
    choices=spelled(CdcMode),
)
METADATA_PARTITIONS = _table(
    "hoodie.table.metadata.partitions",
    Kind.LIST,
    "Partitions of the metadata table that are ready for readers.",
)
METADATA_PARTITIONS_INFLIGHT = _table(
    "hoodie.table.metadata.partitions.inflight",
    Kind.LIST,
    "Partitions of the metadata table that are being built.",
)
PAYLOAD_CLASS = _table(
    "hoodie.compaction.payload.class", Kind.TEXT, "Java class that merges records."
)
LEGACY_PAYLOAD_CLASS = _table(
    "hoodie.table.legacy.payload.class",
    Kind.TEXT,
    "Payload class the table was created with, before version 9 replaced it by a merge mode.",
)
RECORD_MERGE_MODE = _table(
    "hoodie.record.merge.mode",
    Kind.WORD,
    "Which of two records of a key wins.",
    choices=spelled(MergeMode),
)
MERGE_STRATEGY_ID = _table(
    "hoodie.record.merge.strategy.id",
    Kind.TEXT,
    "Identity of the merger.",
    aliases=("hoodie.compaction.record.merger.strategy",),
)
PARTIAL_UPDATE_MODE = _table(
    "hoodie.table.partial.update.mode", Kind.TEXT, "How partial records are completed on merge."
)
PARTIAL_UPDATE_ORDERING = _table(
    "hoodie.table.partial.update.ordering",
    Kind.TEXT,
    "Columns that go by an ordering column of their own, as `ts1:a,b;ts2:c`; all others go by the "
    "time of the commit.",
    ours=True,
)
BOOTSTRAP_BASE_PATH = _table(
    "hoodie.bootstrap.base.path", Kind.TEXT, "Data set that a bootstrapped table refers to."
)
INDEX_DEFINITIONS_PATH = _table(
    "hoodie.table.index.defs.path",
    Kind.TEXT,
    "File with the index definitions, relative to the table.",
)

#: Prefix of table properties that travel to whoever merges records.
MERGE_PROPERTY_PREFIX = "hoodie.record.merge.property."
#: Prefixes of the timestamp-based key generator's properties, the best first.
TIMEBASED_PREFIXES = ("hoodie.keygen.timebased.", "hoodie.deltastreamer.keygen.timebased.")

QUERY_TYPE = _read(
    "hoodie.datasource.query.type",
    Kind.WORD,
    "What to read: the latest rows, the latest base files only, or a window of changes.",
    default=QueryType.SNAPSHOT.value,
    aliases=("hoodie.datasource.view.type",),
    choices=spelled(QueryType),
)
INCREMENTAL_FORMAT = _read(
    "hoodie.datasource.query.incremental.format",
    Kind.WORD,
    "What an incremental query returns: changed rows as they are now, or every change.",
    default=IncrementalFormat.LATEST_STATE.value,
    choices=spelled(IncrementalFormat),
)
BEGIN_TIME = _read(
    "hoodie.datasource.read.begin.instanttime",
    Kind.TEXT,
    "Start of an incremental window, exclusive.",
    aliases=("hoodie.read.start.timestamp",),
)
END_TIME = _read(
    "hoodie.datasource.read.end.instanttime",
    Kind.TEXT,
    "End of an incremental window, inclusive.",
    aliases=("hoodie.read.end.timestamp",),
)
AS_OF = _read(
    "as.of.instant",
    Kind.TEXT,
    "Show the table as of this time.",
    aliases=("hoodie.read.as.of.timestamp",),
)
METADATA_ENABLE = _read(
    "hoodie.metadata.enable",
    Kind.BOOLEAN,
    "Whether to list files through the metadata table where the table has one.",
    default="true",
)
DATA_SKIPPING = _read(
    "hoodie.enable.data.skipping",
    Kind.BOOLEAN,
    "Whether column statistics of the metadata table may rule out files.",
    default="true",
)
SCHEMA_ON_READ = _read(
    "hoodie.schema.on.read.enable",
    Kind.BOOLEAN,
    "Whether renamed, dropped and reordered columns follow the table's schema history.",
    default="false",
)
PARTITION_VALUES_FROM_PATH = _read(
    "hoodie.datasource.read.extract.partition.values.from.path",
    Kind.BOOLEAN,
    "Whether partition columns come from folder names rather than from the files.",
    default="false",
)
USE_RECORD_POSITIONS = _read(
    "hoodie.merge.use.record.positions",
    Kind.BOOLEAN,
    "Whether positions in log block headers may stand in for keys.",
    default="true",
)
HOLLOW_COMMIT_POLICY = _read(
    "hoodie.read.timeline.holes.resolution.policy",
    Kind.WORD,
    "What an incremental query does about a pending instant older than a completed one.",
    default=HollowCommitPolicy.FAIL.value,
    choices=spelled(HollowCommitPolicy),
)
STREAM_START = _read(
    "hoodie.datasource.streaming.startOffset",
    Kind.TEXT,
    "Where a stream without a checkpoint starts: `earliest`, `latest` or a time.",
    default="earliest",
    aliases=("hoodie.datasource.streaming.startoffset",),
)
STREAM_UNDONE = _read(
    "tidelake.stream.undone.commits",
    Kind.WORD,
    "What a stream does when the last commit that it has brought was taken off the table, by a "
    "restore or a rollback: `FAIL`, or `GO_ON` with later commits although its rows are gone.",
    default=UndoneCommits.FAIL.value,
    choices=spelled(UndoneCommits),
    ours=True,
)
MAX_FILES_PER_TRIGGER = _read(
    "maxFilesPerTrigger",
    Kind.INTEGER,
    "Files of the commits that one micro-batch of a stream takes in; it is at least one commit.",
    aliases=("maxfilespertrigger",),
    ours=True,
)
MAX_BYTES_PER_TRIGGER = _read(
    "maxBytesPerTrigger",
    Kind.INTEGER,
    "Bytes of the commits that one micro-batch of a stream takes in; it is at least one commit.",
    aliases=("maxbytespertrigger",),
    ours=True,
)
READ_PAYLOAD_CLASS = _read(
    "hoodie.datasource.write.payload.class",
    Kind.TEXT,
    "Payload class to merge with where the table does not store one.",
    aliases=("hoodie.compaction.payload.class",),
)
READ_MERGE_MODE = _read(
    "hoodie.write.record.merge.mode",
    Kind.WORD,
    "Merge mode to use where the table does not store one.",
    aliases=("hoodie.record.merge.mode",),
    choices=spelled(MergeMode),
)
LOG_MERGE_ORDER = _read(
    "hoodie.read.log.merge.order",
    Kind.WORD,
    "Which time orders the log files of a slice; Apache Hudi orders by `requested`.",
    default=TimeBasis.COMPLETION.value,
    choices=spelled(TimeBasis),
    ours=True,
)
TIME_TRAVEL_BASIS = _read(
    "hoodie.read.timetravel.basis",
    Kind.WORD,
    "Which time `as.of.instant` is compared with from table version 8 on; "
    "Apache Hudi compares `requested`.",
    default=TimeBasis.COMPLETION.value,
    choices=spelled(TimeBasis),
    ours=True,
)
MERGE_PATH = _read(
    "hoodie.read.merge.path",
    Kind.WORD,
    "How file slices with logs are read: `mask` leaves untouched base rows to Spark's reader, "
    "`rows` sends all rows through Python workers, `auto` chooses for each slice.",
    default=MergePath.AUTO.value,
    choices=spelled(MergePath),
    ours=True,
)
# Other values of these two would change the answer, so they are refused rather than ignored.
MERGE_TYPE = _read(
    "hoodie.datasource.merge.type",
    Kind.WORD,
    "Whether a snapshot merges logs into base rows; only merging is supported.",
    default="payload_combine",
    choices=("payload_combine",),
)
SCHEMA_OF_END_TIME = _read(
    "hoodie.datasource.read.schema.use.end.instanttime",
    Kind.WORD,
    "Whether an incremental query takes the schema of its end; only the latest is supported.",
    default="false",
    choices=("false",),
)

#: Options that narrow a read in ways tidelake does not offer, with what to use instead.
REFUSED = {
    "hoodie.datasource.read.paths": "filter on the partition columns instead",
    "hoodie.datasource.read.incr.path.glob": "filter on the partition columns instead",
    "hoodie.datasource.read.incr.filters": "filter the DataFrame, or pass where=... to the read",
}

#: Options given under these prefixes travel to whoever merges records, under their own name.
MERGE_OPTION_PREFIXES = ("hoodie.payload.", "hoodie.write.partial.update.")

#: Options that belong to the storage, not to the read.
STORAGE_PREFIXES = ("fs.", "aws_", "google_", "azure_", "spark.hadoop.fs.")

#: Option names that Spark's reader adds by itself.
SPARK_OPTIONS = frozenset({"path", "paths"})

ALL: tuple[Key, ...] = tuple(value for value in list(globals().values()) if isinstance(value, Key))
