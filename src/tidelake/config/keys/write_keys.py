"""Every option of a write that tidelake knows, declared once."""

from __future__ import annotations

from tidelake.config.keys import concurrency_keys
from tidelake.config.keys.key import Declare, Key, Kind, Scope, spelled
from tidelake.config.words import (
    BucketEngine,
    CdcMode,
    CleanPolicy,
    CompactionStrategy,
    CompactionTrigger,
    DuplicatePolicy,
    FailedWritesPolicy,
    IndexType,
    NullPartitionPolicy,
    ProgressStyle,
    SortMode,
    WriteOperation,
)
from tidelake.model import MergeMode, TableType

_write = Declare(Scope.WRITE)
# What the table is; on a table that exists these must agree with its properties.
TABLE_NAME = _write(
    "hoodie.table.name",
    Kind.TEXT,
    "Name of a table that the write creates.",
    aliases=("hoodie.datasource.write.table.name",),
)
DATABASE_NAME = _write("hoodie.database.name", Kind.TEXT, "Database of a table to create.")
TABLE_TYPE = _write(
    "hoodie.datasource.write.table.type",
    Kind.WORD,
    "Type of a table that the write creates.",
    aliases=("hoodie.table.type",),
    choices=spelled(TableType),
)
TABLE_VERSION = _write(
    "hoodie.write.table.version",
    Kind.INTEGER,
    "Version of a table that the write creates: 6, 8 or 9.",
    aliases=("hoodie.table.version",),
)
RECORD_KEY_FIELDS = _write(
    "hoodie.datasource.write.recordkey.field",
    Kind.LIST,
    "Columns that make up the record key; without any, keys are made up.",
    aliases=("hoodie.table.recordkey.fields",),
)
PARTITION_FIELDS = _write(
    "hoodie.datasource.write.partitionpath.field",
    Kind.LIST,
    "Columns that make up the partition path, each with `:SIMPLE` or `:TIMESTAMP` under a custom "
    "key generator.",
    aliases=("hoodie.table.partition.fields",),
)
ORDERING_FIELDS = _write(
    "hoodie.datasource.write.precombine.field",
    Kind.LIST,
    "Columns whose values decide which of two records of a key is newer.",
    aliases=(
        "hoodie.table.ordering.fields",
        "hoodie.table.precombine.field",
        "hoodie.datasource.write.ordering.fields",
    ),
)
KEY_GENERATOR_CLASS = _write(
    "hoodie.datasource.write.keygenerator.class",
    Kind.TEXT,
    "Java class of the key generator.",
    aliases=("hoodie.table.keygenerator.class",),
)
KEY_GENERATOR_TYPE = _write(
    "hoodie.datasource.write.keygenerator.type",
    Kind.TEXT,
    "Kind of key generator.",
    aliases=("hoodie.table.keygenerator.type",),
)
HIVE_STYLE_PARTITIONING = _write(
    "hoodie.datasource.write.hive_style_partitioning",
    Kind.BOOLEAN,
    "Whether partition folders are named `column=value`; tables that tidelake creates do so.",
)
URL_ENCODE_PARTITIONING = _write(
    "hoodie.datasource.write.partitionpath.urlencode",
    Kind.BOOLEAN,
    "Whether special characters of partition values are percent-encoded.",
)
DROP_PARTITION_COLUMNS = _write(
    "hoodie.datasource.write.drop.partition.columns",
    Kind.BOOLEAN,
    "Whether base files leave out the partition columns.",
)
POPULATE_META_FIELDS = _write(
    "hoodie.populate.meta.fields",
    Kind.BOOLEAN,
    "Whether base files carry the five `_hoodie_*` columns with values.",
)
MERGE_MODE = _write(
    "hoodie.write.record.merge.mode",
    Kind.WORD,
    "Which of two records of a key wins.",
    aliases=("hoodie.record.merge.mode",),
    choices=spelled(MergeMode),
)
MERGE_STRATEGY_ID = _write(
    "hoodie.write.record.merge.strategy.id",
    Kind.TEXT,
    "Identity of the merger.",
    aliases=("hoodie.record.merge.strategy.id",),
)
PAYLOAD_CLASS = _write(
    "hoodie.datasource.write.payload.class",
    Kind.TEXT,
    "Java class that stands for how records are merged.",
    aliases=("hoodie.compaction.payload.class",),
)
CDC_ENABLED = _write(
    "hoodie.table.cdc.enabled", Kind.BOOLEAN, "Whether writers log changes, on a table to create."
)
CDC_LOGGING_MODE = _write(
    "hoodie.table.cdc.supplemental.logging.mode",
    Kind.WORD,
    "How much of a change writers log, on a table to create.",
    choices=spelled(CdcMode),
)
BASE_FILE_FORMAT = _write(
    "hoodie.table.base.file.format",
    Kind.WORD,
    "Format of base files.",
    default="PARQUET",
    aliases=("hoodie.base.file.format",),
    choices=("PARQUET",),
)

# What the write does.
OPERATION = _write(
    "hoodie.datasource.write.operation",
    Kind.WORD,
    'What `df.write.format("tidelake")` does; the methods of `Table` say it by their name.',
    default=WriteOperation.UPSERT.value,
    choices=spelled(WriteOperation),
)
PARTITIONS_TO_DELETE = _write(
    "hoodie.datasource.write.partitions.to.delete",
    Kind.LIST,
    "Partition paths that the operation delete_partition removes.",
)
COMBINE_BEFORE_UPSERT = _write(
    "hoodie.combine.before.upsert",
    Kind.BOOLEAN,
    "Whether rows of one key are merged among themselves before an upsert.",
    default="true",
)
COMBINE_BEFORE_INSERT = _write(
    "hoodie.combine.before.insert",
    Kind.BOOLEAN,
    "Whether rows of one key are merged among themselves before an insert or bulk insert.",
    default="false",
)
INSERT_DUPLICATES = _write(
    "hoodie.datasource.insert.dup.policy",
    Kind.WORD,
    "What an insert does about keys that the table or the insert has already.",
    default=DuplicatePolicy.NONE.value,
    choices=spelled(DuplicatePolicy),
)
DROP_DUPLICATES = _write(
    "hoodie.datasource.write.insert.drop.duplicates",
    Kind.BOOLEAN,
    "Whether an insert leaves out rows whose key the table has already.",
    default="false",
)
INSERT_MODE = _write(
    "hoodie.sql.insert.mode",
    Kind.WORD,
    "`strict` lets an insert fail on keys that the table has already.",
    default="upsert",
    choices=("upsert", "strict", "non-strict"),
)
KEEP_DUPLICATES = _write(
    "hoodie.merge.allow.duplicate.on.inserts",
    Kind.BOOLEAN,
    "Whether an insert into a file that has the key keeps both rows rather than merging them.",
    default="true",
)
NULL_PARTITION = _write(
    "hoodie.write.partition.null.policy",
    Kind.WORD,
    "What to do about a null partition value; `default` files it under "
    "`__HIVE_DEFAULT_PARTITION__`, as Apache Hudi does.",
    default=NullPartitionPolicy.FAIL.value,
    choices=spelled(NullPartitionPolicy),
    ours=True,
)
RECONCILE_SCHEMA = _write(
    "hoodie.datasource.write.reconcile.schema",
    Kind.BOOLEAN,
    "Whether a write whose columns are fewer or narrower than the table's is fitted to the table; "
    "tidelake does so unless this is `false`.",
    default="true",
)
SET_NULL_FOR_MISSING = _write(
    "hoodie.write.set.null.for.missing.columns",
    Kind.BOOLEAN,
    "Whether columns that the write lacks become null even when the schema is not reconciled.",
    default="false",
)
DROP_MISSING_COLUMNS = _write(
    "hoodie.datasource.write.schema.allow.auto.evolution.column.drop",
    Kind.BOOLEAN,
    "Whether columns that the write lacks leave the table instead of becoming null. Those of the "
    "key, the partition path and the ordering stay; so do fields of structs.",
    default="false",
)
PARTIAL_UPDATE_SCHEMA = _write(
    "hoodie.write.partial.update.schema",
    Kind.TEXT,
    "The columns that an upsert changes, as an Avro record schema, as names separated by commas, "
    "or `*` for those that the rows have; the table's rows keep their values in all others. Key, "
    "partition and ordering columns always belong to it.",
)
MERGE_PARTIAL_UPDATES = _write(
    "hoodie.spark.sql.merge.into.partial.updates",
    Kind.BOOLEAN,
    "Whether a merge into a merge-on-read table of version 8 or newer, or an update by condition, "
    "logs the changed columns alone, where that is possible.",
    default="true",
)
PARTIAL_UPDATE_MODE = _write(
    "hoodie.table.partial.update.mode",
    Kind.TEXT,
    "For a table of version 9 to create: `IGNORE_DEFAULTS` when a null in a row of an upsert means "
    "that the column keeps its value, `FILL_UNAVAILABLE` when a text does.",
)
PARTIAL_UPDATE_ORDERING = _write(
    "hoodie.table.partial.update.ordering",
    Kind.TEXT,
    "For a table of version 8 or 9 to create: columns that go by an ordering column of their own, "
    "as `ts1:a,b;ts2:c`. Such a table has no other ordering columns.",
    ours=True,
)
CONSISTENT_TIMESTAMPS = _write(
    "hoodie.datasource.write.keygenerator.consistent.logical.timestamp.enabled",
    Kind.BOOLEAN,
    "Whether timestamps in keys and partition paths are spelled as times rather than numbers.",
    default="false",
)
COMPLEX_KEY_NEW_ENCODING = _write(
    "hoodie.write.complex.keygen.new.encoding",
    Kind.BOOLEAN,
    "Whether a complex key of one field leaves out the field's name, below table version 9; rows "
    "that are there already decide first.",
    default="false",
)
COMMIT_METADATA_PREFIX = _write(
    "hoodie.datasource.write.commitmeta.key.prefix",
    Kind.TEXT,
    "Options that begin with this are kept in the commit.",
    default="_",
)

# Where rows go.
INDEX_TYPE = _write(
    "hoodie.index.type",
    Kind.WORD,
    "How the file group of a key is found; tables with bucket file names are always BUCKET. "
    "`RECORD_INDEX` asks the metadata table where each key is; without such an index, which "
    "`hoodie.metadata.record.index.enable` makes, every partition is looked through.",
    choices=spelled(IndexType),
)
BUCKET_ENGINE = _write(
    "hoodie.index.bucket.engine",
    Kind.WORD,
    "How the bucket index divides keys.",
    default=BucketEngine.SIMPLE.value,
    choices=spelled(BucketEngine),
)
BUCKET_COUNT = _write(
    "hoodie.bucket.index.num.buckets",
    Kind.INTEGER,
    "Buckets of a partition; a table that has files is asked first and must agree.",
    default="256",
)
BUCKET_HASH_FIELDS = _write(
    "hoodie.bucket.index.hash.field",
    Kind.LIST,
    "Record key columns that choose the bucket; by default all.",
)
SIMPLE_MOVES_PARTITION = _write(
    "hoodie.simple.index.update.partition.path",
    Kind.BOOLEAN,
    "Whether a key that arrives with another partition moves there, with the global simple index.",
    default="true",
)
BLOOM_MOVES_PARTITION = _write(
    "hoodie.bloom.index.update.partition.path",
    Kind.BOOLEAN,
    "Whether a key that arrives with another partition moves there, with the global bloom index.",
    default="true",
)
RECORD_INDEX_MOVES_PARTITION = _write(
    "hoodie.record.index.update.partition.path",
    Kind.BOOLEAN,
    "Whether a key that arrives with another partition moves there, with the record index.",
    default="false",
)
FAILED_WRITES_POLICY = _write(
    "hoodie.clean.failed.writes.policy",
    Kind.WORD,
    "Whether a write first rolls back writes that failed. `EAGER`, the default of a single writer, "
    "does; `LAZY` leaves them to a clean, and so it is as soon as others write at the same time.",
    aliases=("hoodie.cleaner.policy.failed.writes",),
    choices=spelled(FailedWritesPolicy),
)
ROLLBACK_USING_MARKERS = _write(
    "hoodie.rollback.using.markers",
    Kind.BOOLEAN,
    "Whether a rollback finds files by their markers rather than by listing the table.",
    default="true",
)

# How rows are arranged.
SORT_MODE = _write(
    "hoodie.bulkinsert.sort.mode",
    Kind.WORD,
    "How a bulk insert arranges rows before it writes them.",
    default=SortMode.NONE.value,
    choices=spelled(SortMode),
)
BULK_PARALLELISM = _write(
    "hoodie.bulkinsert.shuffle.parallelism",
    Kind.INTEGER,
    "Tasks of a bulk insert that arranges rows; 0 leaves it to tidelake.",
    default="0",
)
UPSERT_PARALLELISM = _write(
    "hoodie.upsert.shuffle.parallelism",
    Kind.INTEGER,
    "Tasks of an insert, upsert or delete; 0 leaves it to tidelake.",
    default="0",
    aliases=("hoodie.insert.shuffle.parallelism", "hoodie.delete.shuffle.parallelism"),
)
MAX_FILE_SIZE = _write(
    "hoodie.parquet.max.file.size",
    Kind.INTEGER,
    "Bytes at which a base file is full.",
    default=str(120 << 20),
)
SMALL_FILE_LIMIT = _write(
    "hoodie.parquet.small.file.limit",
    Kind.INTEGER,
    "Base files below this many bytes take up inserts; 0 for none.",
    default=str(100 << 20),
)
RECORD_SIZE = _write(
    "hoodie.copyonwrite.record.size.estimate",
    Kind.INTEGER,
    "Bytes of a row in a base file, as long as no commit tells better.",
    default="1024",
)
INSERT_AUTO_SPLIT = _write(
    "hoodie.copyonwrite.insert.auto.split",
    Kind.BOOLEAN,
    "Whether the size of earlier rows decides how many inserts go to a new file.",
    default="true",
)
INSERT_SPLIT = _write(
    "hoodie.copyonwrite.insert.split.size",
    Kind.INTEGER,
    "Inserts that go to a new file when their size does not decide.",
    default="500000",
)

# How files are written.
PARQUET_CODEC = _write(
    "hoodie.parquet.compression.codec",
    Kind.WORD,
    "Codec of base files and Parquet log blocks. Apache Hudi's default is gzip, which takes "
    "several times as long.",
    default="zstd",
    choices=("uncompressed", "snappy", "gzip", "lz4", "lz4_raw", "zstd"),
)
PARQUET_BLOCK_SIZE = _write(
    "hoodie.parquet.block.size", Kind.INTEGER, "Bytes of a row group.", default=str(120 << 20)
)
PARQUET_PAGE_SIZE = _write(
    "hoodie.parquet.page.size", Kind.INTEGER, "Bytes of a page.", default=str(1 << 20)
)
PARQUET_DICTIONARY = _write(
    "hoodie.parquet.dictionary.enabled",
    Kind.BOOLEAN,
    "Whether repeated values are written once.",
    default="true",
)
BLOOM_ENABLED = _write(
    "hoodie.parquet.bloom.filter.enabled",
    Kind.BOOLEAN,
    "Whether base files carry a bloom filter of their keys, which Apache's bloom index needs.",
    default="true",
)
BLOOM_KIND = _write(
    "hoodie.bloom.index.filter.type",
    Kind.WORD,
    "Kind of bloom filter.",
    default="DYNAMIC_V0",
    choices=("SIMPLE", "DYNAMIC_V0"),
)
BLOOM_ENTRIES = _write(
    "hoodie.index.bloom.num_entries",
    Kind.INTEGER,
    "Keys for which a bloom filter is made.",
    default="60000",
)
BLOOM_FPP = _write(
    "hoodie.index.bloom.fpp",
    Kind.NUMBER,
    "Share of keys that a bloom filter may take for its own by mistake.",
    default="0.000000001",
)
BLOOM_MAX_ENTRIES = _write(
    "hoodie.bloom.index.filter.dynamic.max.entries",
    Kind.INTEGER,
    "Keys up to which a dynamic bloom filter grows.",
    default="100000",
)
LOG_FORMAT = _write(
    "hoodie.logfile.data.block.format",
    Kind.WORD,
    "How records are encoded in log blocks.",
    default="avro",
    choices=("avro", "parquet"),
)
LOG_MAX_SIZE = _write(
    "hoodie.logfile.max.size",
    Kind.INTEGER,
    "Bytes at which a log file is full.",
    default=str(1 << 30),
)
LOG_BLOCK_SIZE = _write(
    "hoodie.logfile.data.block.max.size",
    Kind.INTEGER,
    "Bytes at which a log block is full.",
    default=str(256 << 20),
)
RECORD_POSITIONS = _write(
    "hoodie.write.record.positions",
    Kind.BOOLEAN,
    "Whether log blocks say which rows of the base file they change, from table version 8 on.",
    default="true",
)
STREAM_IDENTIFIER = _write(
    "hoodie.datasource.write.streaming.checkpoint.identifier",
    Kind.TEXT,
    "Name of the stream whose batches `tidelake.sink` writes, unique among the streams into a "
    "table; the id of the streaming query unless given, and `default_single_writer` outside of "
    "one.",
)
STAGING_EXPIRY = _write(
    "hoodie.write.staging.expiry.minutes",
    Kind.INTEGER,
    "Minutes without a sign of life after which rows that a write of the data source laid aside "
    "count as left over and are removed by the next write; a write gives one every ten minutes.",
    default="1440",
    ours=True,
)
METADATA_COMPACT_AFTER = _write(
    "hoodie.metadata.compact.max.delta.commits",
    Kind.INTEGER,
    "Deltacommits of the metadata table after which the next write compacts and cleans it.",
    default="10",
)
METADATA_COLUMN_STATS = _write(
    "hoodie.metadata.index.column.stats.enable",
    Kind.BOOLEAN,
    "Whether a metadata table that the write builds has column statistics, and for a partitioned "
    "table partition statistics with them. From table version 8 on.",
    default="false",
)
METADATA_STATS_COLUMNS = _write(
    "hoodie.metadata.index.column.stats.column.list",
    Kind.LIST,
    "Columns of these statistics; without it the first 32 that can have any.",
)
METADATA_RECORD_INDEX = _write(
    "hoodie.metadata.record.index.enable",
    Kind.BOOLEAN,
    "Whether the metadata table has an index of record keys, from version 8 on. A write of a "
    "DataFrame makes one where there is none, for which it reads the keys of all rows under the "
    "table's lock; an index that the table has is kept in any case.",
    default="false",
    aliases=("hoodie.metadata.global.record.level.index.enable",),
)
METADATA_REBUILD = _write(
    "tidelake.metadata.rebuild",
    Kind.BOOLEAN,
    "Whether the write builds the table's metadata table anew, from what lies on storage. A write "
    "keeps the metadata table that it finds; with `hoodie.metadata.enable=true` it also builds one "
    "where there is none, with `false` it takes it out of use.",
    default="false",
    ours=True,
)
COMPACT_INLINE = _write(
    "hoodie.compact.inline",
    Kind.BOOLEAN,
    "Whether a write to a merge-on-read table runs pending compactions, and plans one when it is "
    "due.",
    default="false",
)
COMPACT_SCHEDULE_INLINE = _write(
    "hoodie.compact.schedule.inline",
    Kind.BOOLEAN,
    "Whether a write plans a compaction when one is due, and leaves it to others to run it.",
    default="false",
)
COMPACT_TRIGGER = _write(
    "hoodie.compact.inline.trigger.strategy",
    Kind.WORD,
    "What makes a compaction due. `Table.compact` plans one in any case, unless this or one of the "
    "two thresholds is given.",
    default=CompactionTrigger.NUM_COMMITS.value,
    choices=spelled(CompactionTrigger),
)
COMPACT_MAX_DELTA_COMMITS = _write(
    "hoodie.compact.inline.max.delta.commits",
    Kind.INTEGER,
    "Deltacommits since the last compaction that make another one due.",
    default="5",
)
COMPACT_MAX_DELTA_SECONDS = _write(
    "hoodie.compact.inline.max.delta.seconds",
    Kind.INTEGER,
    "Seconds since the last compaction that make another one due.",
    default="3600",
)
COMPACT_STRATEGY = _write(
    "hoodie.compaction.strategy",
    Kind.LIST,
    "Which file slices a compaction takes: names of Hudi's classes, with or without their package; "
    "of several, each narrows what the one before leaves.",
    default=CompactionStrategy.LOG_FILE_SIZE.value,
    choices=spelled(CompactionStrategy),
)
COMPACT_TARGET_IO = _write(
    "hoodie.compaction.target.io",
    Kind.INTEGER,
    "MiB that a bounded compaction reads and writes at most.",
    default=str(500 << 10),
)
COMPACT_LOG_SIZE = _write(
    "hoodie.compaction.logfile.size.threshold",
    Kind.INTEGER,
    "Bytes of logs from which on the strategy by log size takes a file slice.",
    default="0",
)
COMPACT_LOG_COUNT = _write(
    "hoodie.compaction.logfile.num.threshold",
    Kind.INTEGER,
    "Number of logs from which on the strategy by log count takes a file slice.",
    default="0",
)
COMPACT_DAYS = _write(
    "hoodie.compaction.daybased.target.partitions",
    Kind.INTEGER,
    "Number of partitions, the greatest paths first, that the day-based strategy takes.",
    default="10",
)
COMPACT_PARTITION_REGEX = _write(
    "hoodie.compaction.partition.path.regex",
    Kind.TEXT,
    "Partition paths that the strategy by regular expression takes.",
    default=".*",
)
PROGRESS = _write(
    "tidelake.progress",
    Kind.WORD,
    "How long work shows how far it has come: a bar on standard error, lines in the log, nothing; "
    "`auto` is a bar on a terminal and lines elsewhere.",
    default=ProgressStyle.AUTO.value,
    choices=spelled(ProgressStyle),
    ours=True,
)

# What services do after a write, or when they are called.
CLEAN_AUTOMATIC = _write(
    "hoodie.clean.automatic",
    Kind.BOOLEAN,
    "Whether a write cleans the table once it has committed, when a clean is due.",
    default="true",
)
CLEAN_POLICY = _write(
    "hoodie.clean.policy",
    Kind.WORD,
    "What a clean leaves of the past. Not given, it follows from which of the three numbers is.",
    default=CleanPolicy.COMMITS.value,
    aliases=("hoodie.cleaner.policy",),
    choices=spelled(CleanPolicy),
)
CLEAN_COMMITS = _write(
    "hoodie.clean.commits.retained",
    Kind.INTEGER,
    "Commits whose table a clean leaves readable, with `KEEP_LATEST_COMMITS`.",
    default="10",
    aliases=("hoodie.cleaner.commits.retained",),
)
CLEAN_HOURS = _write(
    "hoodie.clean.hours.retained",
    Kind.INTEGER,
    "Hours for which a clean leaves the table readable, with `KEEP_LATEST_BY_HOURS`.",
    default="24",
    aliases=("hoodie.cleaner.hours.retained",),
)
CLEAN_FILE_VERSIONS = _write(
    "hoodie.clean.fileversions.retained",
    Kind.INTEGER,
    "Slices of a file group that a clean leaves, with `KEEP_LATEST_FILE_VERSIONS`.",
    default="3",
    aliases=("hoodie.cleaner.fileversions.retained",),
)
CLEAN_TRIGGER_COMMITS = _write(
    "hoodie.clean.trigger.max.commits",
    Kind.INTEGER,
    "Commits since the last clean from which on a write cleans again.",
    default="1",
    aliases=("hoodie.clean.max.commits",),
)
CLEAN_INCREMENTAL = _write(
    "hoodie.clean.incremental.enabled",
    Kind.BOOLEAN,
    "Whether a clean looks only at partitions that changed since the last one.",
    default="true",
    aliases=("hoodie.cleaner.incremental.mode",),
)
ARCHIVE_AUTOMATIC = _write(
    "hoodie.archive.automatic",
    Kind.BOOLEAN,
    "Whether a write moves old instants into the history once it has committed, when that is due.",
    default="true",
)
KEEP_MAX_COMMITS = _write(
    "hoodie.keep.max.commits",
    Kind.INTEGER,
    "Commits on the active timeline above which instants are archived.",
    default="30",
)
KEEP_MIN_COMMITS = _write(
    "hoodie.keep.min.commits",
    Kind.INTEGER,
    "Commits that archival leaves on the active timeline; more than a clean retains.",
    default="20",
)
ARCHIVE_BEYOND_SAVEPOINT = _write(
    "hoodie.archive.beyond.savepoint",
    Kind.BOOLEAN,
    "Whether archival goes on behind a commit that a savepoint keeps.",
    default="false",
)
ARCHIVE_BATCH = _write(
    "hoodie.commits.archival.batch",
    Kind.INTEGER,
    "Records of a block of the archive, up to table version 7.",
    default="10",
)
HISTORY_BATCH = _write(
    "hoodie.timeline.compaction.batch.size",
    Kind.INTEGER,
    "Files of the history that are merged into one, from table version 8 on.",
    default="10",
)
HISTORY_FILE_SIZE = _write(
    "hoodie.timeline.compaction.target.file.max.bytes",
    Kind.INTEGER,
    "Bytes above which files of the history are not merged any more.",
    default=str(1 << 30),
)
HISTORY_MANIFESTS = _write(
    "hoodie.timeline.manifest.retained.versions",
    Kind.INTEGER,
    "Manifests of the history, with their files, that are kept for readers at work.",
    default="3",
)

#: Options that would change what is written in ways tidelake does not offer.
REFUSED = {
    "hoodie.bucket.index.partition.expressions": "tidelake gives every partition the same number "
    "of buckets: set hoodie.bucket.index.num.buckets",
    "hoodie.datasource.write.slash.separated.date.partitioning": "use a timestamp key generator "
    "with the output format yyyy/MM/dd",
    "hoodie.allow.operation.metadata.field": "tidelake writes deletes as delete blocks",
}

ALL: tuple[Key, ...] = (
    *(value for value in list(globals().values()) if isinstance(value, Key)),
    *concurrency_keys.ALL,
)
