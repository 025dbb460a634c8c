"""Finding the file group of a key by joining rows with the keys that the table holds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce

from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F  # noqa: N812 - the customary name
from pyspark.sql import types as T  # noqa: N812

from tidelake.errors import UnsupportedTableError
from tidelake.files.write_task import CHANGE, CHECK, GROUP, POSITION, Change
from tidelake.model import FileSlice, MergeMode
from tidelake.read.scan import read_spec, slice_tasks
from tidelake.records import MergeSpec, arrow_schema
from tidelake.records.schema import FILE_NAME, PARTITION_PATH, RECORD_KEY, top_level
from tidelake.spark.read.dataframe import to_dataframe
from tidelake.spark.session.reach import spark_reaches
from tidelake.spark.types.from_arrow import spark_schema
from tidelake.spark.write.incoming_rows import Incoming
from tidelake.spark.write.key_columns import KeyColumns
from tidelake.spark.write.ordering import comparable, is_lower
from tidelake.spark.write.path_values import PathValues, following_paths
from tidelake.state.table_state import TableSchema, TableState
from tidelake.storage import spark_options, spark_path
from tidelake.write.groups import LiveGroup
from tidelake.write.index import LOOKED_UP_BY
from tidelake.write.key_spec import KeySpec

KNOWN_KEY = _KEY = "_tidelake_known_key"
KNOWN_PATH = _PATH = "_tidelake_known_path"
KNOWN_FILE = _FILE = "_tidelake_known_file"
_AT = "_tidelake_known_at"
_ORDERING = "_tidelake_known_order_"
_ROW = "_tidelake_row"
_CHOSEN = "_tidelake_chosen_path"


@dataclass(frozen=True, slots=True, kw_only=True)
class Lookup:
    """The keys of some file groups of a table.

    `with_ordering` brings the ordering values of the rows along, to compare them with others;
    `is_global` says that a key is looked for in every partition, `revives` that keys which logs
    took away are to be found as well. `wanted` are the rows whose keys are looked for, if they are
    so few that it pays to bring them to where the table's keys are read.
    """

    spark: SparkSession
    state: TableState
    schema: TableSchema
    keys: KeySpec
    merge: MergeSpec
    is_global: bool = False
    revives: bool = False
    with_ordering: bool = False
    wanted: DataFrame | None = None

    def known(self, groups: Sequence[LiveGroup]) -> DataFrame:
        """Return key, partition path, file id and base row number of the rows in the groups.

        With `wanted` only those of its keys, marked as few enough to be sent to every task.
        """
        slices = [g.slice for g in groups]
        logged = [s for s in slices if s.log_files and self._logs_matter(s)]
        apart = {id(s) for s in logged}
        based = [s for s in slices if s.base_file is not None and id(s) not in apart]
        parts = []
        if based:
            parts.append(self._base_keys(based))
        if logged:
            # Of what lies in the base file some may be gone, and must not be found.
            parts.append(self._merged_keys(logged))
        if not parts:
            return self.spark.createDataFrame([], self._known_schema())
        live = self._of_wanted(reduce(DataFrame.unionByName, parts))
        emptied = [s for s in logged if s.base_file is not None and self.revives]
        found = live.unionByName(self._dead_keys(emptied, live)) if emptied else live
        return self._hinted(found)

    def as_known(self, found: DataFrame) -> DataFrame:
        """Return keys with their paths and file ids, found otherwise, in the form of `known`."""
        others = self._known_schema().fields[3:]
        nothing = [F.lit(None).cast(field.dataType).alias(field.name) for field in others]
        return self._hinted(found.select(_KEY, _PATH, _FILE, *nothing))

    def in_base_files(self, groups: Sequence[LiveGroup]) -> DataFrame:
        """Return the same of the rows in base files, whatever logs did to them."""
        return self._base_keys([g.slice for g in groups])

    def _dead_keys(self, slices: Sequence[FileSlice], live: DataFrame) -> DataFrame:
        """Return the keys that logs took away and that are nowhere else.

        They come back where they were: Apache looks for keys in base files, and would otherwise
        find them there and in the file group that took them up.
        """
        kept = (_KEY, _PATH, _FILE, _AT)
        gone = self._base_keys(slices)
        nowhere = [
            F.lit(None).cast(gone.schema[n].dataType).alias(n) for n in self._ordering_names()
        ]
        gone = self._of_wanted(gone.select(*kept, *nowhere))
        return gone.join(self._hinted(live), self._same_key(), "left_anti")

    def _of_wanted(self, known: DataFrame) -> DataFrame:
        if self.wanted is None:
            return known
        keys = self.wanted.select(F.col(RECORD_KEY).alias(_KEY), F.col(PARTITION_PATH).alias(_PATH))
        return known.join(F.broadcast(keys), self._same_key(), "left_semi")

    def _hinted(self, known: DataFrame) -> DataFrame:
        return known if self.wanted is None else F.broadcast(known)

    def _same_key(self) -> list[str]:
        return [_KEY] if self.is_global else [_KEY, _PATH]

    def _logs_matter(self, piece: FileSlice) -> bool:
        """Return whether logs may add keys to a slice, take some away, or order them anew."""
        if piece.base_file is None or self.with_ordering:
            return True
        timeline, contents = self.state.timeline, self.state.contents
        by_time = {i.requested_time: i for i in timeline.writes()}
        if not self.state.by_completion_time:
            return True
        completed_at = self.state.view.times(piece.base_file.instant_time) or ""
        for log in piece.log_files:
            instant = by_time.get(log.instant_time)
            if instant is None or log.instant_time < completed_at:
                # Behind a plan its keys were found in an older base file, which may have had more.
                return True
            metadata = contents.commit_metadata(instant)
            if LOOKED_UP_BY in metadata.extra_metadata:
                # An index may name a file group that has lost the key, so an update may be news.
                return True
            stats = metadata.write_stats
            if any(s.path == log.path and (s.num_inserts or s.num_deletes) for s in stats):
                return True
        return False

    def _base_keys(self, slices: Sequence[FileSlice]) -> DataFrame:
        storage = self.state.storage.spec
        paths = [s.base_file.path for s in slices if s.base_file is not None]
        if not spark_reaches(self.spark, storage, paths[0]):
            return self._read_keys(slices, base_only=True)
        populated = self.state.config.populate_meta_fields
        wanted = [RECORD_KEY, PARTITION_PATH] if populated else self._key_columns()
        if self.with_ordering:
            wanted += [n for n in top_level(self.merge.ordering_fields) if n not in wanted]
        schema = spark_schema(arrow_schema(self.schema.avro, wanted))
        frame = (
            self.spark.read.options(**spark_options(storage))
            .schema(schema)
            .option("recursiveFileLookup", "true")
            .parquet(*(spark_path(storage, path) for path in paths))
        )
        key, path = self._key_and_path(schema)
        return frame.select(
            key.alias(_KEY),
            path.alias(_PATH),
            F.substring_index(F.col("_metadata.file_name"), "_", 1).alias(_FILE),
            F.col("_metadata.row_index").alias(_AT),
            *self._ordering_columns(),
        )

    def _merged_keys(self, slices: Sequence[FileSlice]) -> DataFrame:
        return self._read_keys(slices, base_only=False)

    def _read_keys(self, slices: Sequence[FileSlice], *, base_only: bool) -> DataFrame:
        if not self.state.config.populate_meta_fields:
            raise UnsupportedTableError(
                "without meta columns, rows in logs or on a storage that Spark does not reach do "
                "not tell their file group",
                next_step="compact the table first, or use the bucket index",
            )
        columns = [RECORD_KEY, PARTITION_PATH, FILE_NAME]
        if self.with_ordering:
            columns += top_level(self.merge.ordering_fields)
        spec = read_spec(self.state, self.schema, tuple(columns))
        tasks = slice_tasks(self.state, slices, base_only=base_only)
        frame = to_dataframe(self.spark, spec, tasks)
        return frame.select(
            F.col(RECORD_KEY).alias(_KEY),
            F.col(PARTITION_PATH).alias(_PATH),
            F.substring_index(FILE_NAME, "_", 1).alias(_FILE),
            F.lit(None).cast("bigint").alias(_AT),
            *self._ordering_columns(),
        )

    def _key_columns(self) -> list[str]:
        fields = [*self.keys.fields, *(f.name for f in self.keys.partition)]
        return top_level(fields)

    def _key_and_path(self, schema: T.StructType) -> tuple[Column, Column]:
        if self.state.config.populate_meta_fields:
            return F.col(RECORD_KEY), F.col(PARTITION_PATH)
        made = KeyColumns(self.spark, self.keys, schema)
        return made.record_key(), made.partition_path()

    def _ordering_names(self) -> list[str]:
        fields = self.merge.ordering_fields if self.with_ordering else ()
        return [f"{_ORDERING}{at}" for at in range(len(fields))]

    def _ordering_columns(self) -> list[Column]:
        names = self._ordering_names()
        fields = self.merge.ordering_fields
        return [F.col(field).alias(n) for field, n in zip(fields, names, strict=False)]

    def _known_schema(self) -> T.StructType:
        fields = [
            T.StructField(_KEY, T.StringType()),
            T.StructField(_PATH, T.StringType()),
            T.StructField(_FILE, T.StringType()),
            T.StructField(_AT, T.LongType()),
        ]
        if self.with_ordering:
            stored = {f.name: f for f in spark_schema(arrow_schema(self.schema.avro)).fields}
            for name, field in zip(self._ordering_names(), self.merge.ordering_fields, strict=True):
                kind: T.DataType = T.StructType(list(stored.values()))
                for part in field.split("."):
                    kind = kind[part].dataType if isinstance(kind, T.StructType) else kind
                fields.append(T.StructField(name, kind))
        return T.StructType(fields)


def tagged(rows: Incoming, known: DataFrame) -> Incoming:
    """Return the rows with the file group that holds their key in their partition, if any."""
    frame = rows.frame.drop(GROUP)
    same = (frame[RECORD_KEY] == known[_KEY]) & (frame[PARTITION_PATH] == known[_PATH])
    made = frame.join(known, same, "left").withColumns({GROUP: F.col(_FILE), POSITION: F.col(_AT)})
    return rows.with_frame(made.drop(_KEY, _PATH, _FILE, _AT))


def revived(rows: Incoming, known: DataFrame) -> Incoming:
    """Return the rows, those without a group with the one in whose base file their key lies."""
    frame = rows.frame
    once = known.dropDuplicates([_KEY, _PATH])
    same = (
        frame[GROUP].isNull()
        & (frame[RECORD_KEY] == once[_KEY])
        & (frame[PARTITION_PATH] == once[_PATH])
    )
    made = frame.join(once, same, "left").withColumn(GROUP, F.coalesce(GROUP, _FILE))
    return rows.with_frame(made.drop(_KEY, _PATH, _FILE, _AT))


def clashing_key(rows: Incoming, known: DataFrame, *, is_global: bool) -> str | None:
    """Return a key that one of the rows shares with a row of the table, if there is one."""
    frame = rows.frame
    same = frame[RECORD_KEY] == known[_KEY]
    if not is_global:
        same &= frame[PARTITION_PATH] == known[_PATH]
    found = frame.join(known, same, "left_semi").select(RECORD_KEY).limit(1).collect()
    return str(found[0][0]) if found else None


def without_known_keys(rows: Incoming, known: DataFrame) -> Incoming:
    """Return the rows whose key is not known in their partition."""
    frame = rows.frame
    same = (frame[RECORD_KEY] == known[_KEY]) & (frame[PARTITION_PATH] == known[_PATH])
    return rows.with_frame(frame.join(known, same, "left_anti"))


def in_one_partition(rows: Incoming, merge: MergeSpec) -> Incoming:
    """Return the rows without those that a newer row of their key puts into another partition."""
    fields = merge.ordering_fields if merge.mode is MergeMode.EVENT_TIME else ()
    values = comparable(rows.frame, [F.col(name) for name in fields], merge)
    newest_first = [value.desc() for value in (*values, F.col(_ROW))]
    by_key = Window.partitionBy(RECORD_KEY).orderBy(*newest_first)
    numbered = rows.frame.withColumn(_ROW, F.monotonically_increasing_id())
    chosen = numbered.withColumn(_CHOSEN, F.first(PARTITION_PATH).over(by_key))
    kept = chosen.where(F.col(_CHOSEN) == F.col(PARTITION_PATH))
    return rows.with_frame(kept.drop(_ROW, _CHOSEN))


def tagged_globally(
    rows: Incoming,
    known: DataFrame,
    merge: MergeSpec,
    *,
    moves_partition: bool,
    path_values: Sequence[PathValues] = (),
) -> Incoming:
    """Return the rows with the file group that holds their key in any partition.

    A key that arrives with another partition is deleted where it is and inserted where it belongs,
    unless the row that is there wins by its ordering value; without `moves_partition` it stays
    where it is, and takes the partition columns of `path_values`.
    """
    frame = rows.frame.drop(GROUP)
    joined = frame.join(known, frame[RECORD_KEY] == known[_KEY], "left")
    moved = F.col(_FILE).isNotNull() & (F.col(_PATH) != F.col(PARTITION_PATH))
    if not moves_partition:
        joined = following_paths(joined, F.col(_PATH), moved, path_values)
        made = joined.withColumns(
            {
                PARTITION_PATH: F.coalesce(F.col(_PATH), F.col(PARTITION_PATH)),
                GROUP: F.col(_FILE),
                POSITION: F.col(_AT),
            }
        )
        return rows.with_frame(_without_known(made))
    if merge.mode is MergeMode.EVENT_TIME:
        joined = joined.where(~moved | ~_loses(joined, merge))
    here = F.struct(
        F.col(PARTITION_PATH).alias("path"),
        F.when(~moved, F.col(_FILE)).alias("file"),
        F.when(~moved, F.col(_AT)).alias("at"),
        F.when(F.col(_FILE).isNull() | moved, int(Change.INSERT))
        .otherwise(int(Change.UPDATE))
        .alias("change"),
    )
    there = F.struct(
        F.col(_PATH).alias("path"),
        F.col(_FILE).alias("file"),
        F.col(_AT).alias("at"),
        F.lit(int(Change.DELETE)).alias("change"),
    )
    steps = F.when(F.coalesce(moved, F.lit(False)), F.array(here, there)).otherwise(F.array(here))
    made = joined.withColumn("_tidelake_step", F.explode(steps)).withColumns(
        {
            PARTITION_PATH: F.col("_tidelake_step.path"),
            GROUP: F.col("_tidelake_step.file"),
            POSITION: F.col("_tidelake_step.at"),
            CHANGE: F.col("_tidelake_step.change"),
        }
    )
    made = made.withColumn(CHECK, F.xxhash64(RECORD_KEY, PARTITION_PATH))
    return rows.with_frame(_without_known(made.drop("_tidelake_step")))


def _loses(joined: DataFrame, merge: MergeSpec) -> Column:
    """Return whether a row has a lower ordering value than the one that the table has."""
    fields = merge.ordering_fields
    ours = comparable(joined, [F.col(field) for field in fields], merge)
    known = [F.col(f"{_ORDERING}{at}") for at in range(len(fields))]
    theirs = comparable(joined, known, merge)
    return ~is_lower(theirs, ours) if merge.ties_to_earlier else is_lower(ours, theirs)


def _without_known(frame: DataFrame) -> DataFrame:
    return frame.drop(*(n for n in frame.columns if n.startswith("_tidelake_known_")))
