"""The rows of a write as a DataFrame: keys, partition paths, and the group that each belongs to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the customary name
from pyspark.sql import types as T  # noqa: N812

from tidelake.files.write_task import CHANGE, CHECK, COLUMNS, GROUP, POSITION, ROW
from tidelake.records import META_COLUMNS
from tidelake.records.schema import PARTITION_PATH, RECORD_KEY, SEQUENCE_NUMBER
from tidelake.spark.write.key_columns import KeyColumns, bucket, is_nullable
from tidelake.write.index import bucket_word
from tidelake.write.key_spec import KeySpec
from tidelake.write.sizing import Share

#: Whether only Python can tell the bucket of a key.
ODD = "_tidelake_odd"

#: Up to this many partitions are told apart inside an expression; more take a join.
_EXPRESSED_PARTITIONS = 64
_UNSUMMABLE = (T.MapType,)


@dataclass(frozen=True, slots=True)
class Incoming:
    """Rows with their keys.

    `frame` has the user's columns, the record key, the partition path, the hash of both and the
    group. `bad` are conditions that no row may meet, by what is wrong with such a row. The record
    key is a copy of `key_column`, if that is one of the columns.
    """

    frame: DataFrame
    columns: tuple[str, ...]
    bad: Mapping[str, Column]
    key_column: str | None = None

    def with_frame(self, frame: DataFrame) -> Incoming:
        """Return the same rows in another form."""
        return replace(self, frame=frame)


def user_columns(frame: DataFrame) -> list[str]:
    """Return the columns of a DataFrame without those that Hudi adds."""
    return [name for name in frame.columns if name not in META_COLUMNS]


def keyed_rows(
    frame: DataFrame,
    spec: KeySpec,
    *,
    columns: Sequence[str],
    required: Sequence[str],
    buckets: tuple[Sequence[str], int] | None = None,
) -> Incoming:
    """Return the rows with keys and paths made by the table's key generator.

    Only `columns` are carried along; key fields that are not among them are looked at and dropped.
    With `buckets`, hash fields and number of buckets, the group is that of the bucket index.
    """
    keys = KeyColumns(frame.sparkSession, spec, frame.schema)
    bad = {}
    if not spec.is_made_up and any(is_nullable(frame.schema, f) for f in spec.fields):
        names = ", ".join(spec.fields)
        bad[f"no value in the record key ({names})"] = keys.is_bad_key()
    elif not spec.is_made_up and not spec.named:
        bad[f"an empty record key ({spec.fields[0]})"] = keys.is_bad_key()
    if any(is_nullable(frame.schema, f.name) for f in spec.partition):
        names = ", ".join(f.name for f in spec.partition)
        bad[f"no value in a partition field ({names})"] = keys.is_bad_partition()
    if spec.partition:
        bad[unreadable_rows(spec)] = keys.is_unreadable_partition()
    bad |= _null_where_required(required)
    key, path = keys.record_key(), keys.partition_path()
    check = content_hash(frame, columns) if spec.is_made_up else F.xxhash64(key, path)
    group, odd = F.lit(None).cast("string"), F.lit(False)
    if buckets is not None:
        fields, count = buckets
        if count == 1:
            group = F.lit(bucket_word(0))  # whatever the hash, which takes its time
        else:
            number = bucket(keys.hashed_parts(fields), count)
            group, odd = F.lpad(number.cast("string"), 8, "0"), keys.is_oddly_hashed(fields)
    made = frame.select(
        *(["*"] if list(columns) == frame.columns else map(_quoted, columns)),
        key.alias(RECORD_KEY),
        path.alias(PARTITION_PATH),
        check.alias(CHECK),
        group.alias(GROUP),
        odd.alias(ODD),
        *(condition.alias(_flag(at)) for at, condition in enumerate(bad.values())),
    )
    flags = {problem: F.col(_flag(at)) for at, problem in enumerate(bad)}
    copied = keys.copied()
    return Incoming(made, tuple(columns), flags, copied if copied in columns else None)


def unreadable_rows(spec: KeySpec) -> str:
    """Return what is wrong with rows of which `KeyColumns.is_unreadable_partition` is true."""
    names = ", ".join(f.name for f in spec.partition)
    return (
        f"a partition value ({names}) that could not be read back: one with an empty, hidden or "
        "overlong folder name, a control character, or text that stands for another value"
    )


def read_rows(frame: DataFrame, columns: Sequence[str], required: Sequence[str]) -> Incoming:
    """Return rows that were read from the table itself, meta columns included."""
    group = F.substring_index(F.col("_hoodie_file_name"), "_", 1)
    made = frame.select(
        *(F.col(f"`{name}`") for name in columns),
        RECORD_KEY,
        PARTITION_PATH,
        F.xxhash64(RECORD_KEY, PARTITION_PATH).alias(CHECK),
        group.alias(GROUP),
        F.lit(False).alias(ODD),
        F.col(SEQUENCE_NUMBER).alias(ROW),
    )
    return Incoming(made, tuple(columns), _null_where_required(required))


def _null_where_required(columns: Sequence[str]) -> dict[str, Column]:
    return {
        f"null in {name}, which the table requires": F.col(f"`{name}`").isNull() for name in columns
    }


def assigned(rows: Incoming, shares: Mapping[str, Sequence[Share]]) -> DataFrame:
    """Return the rows, those without a group shared out among the groups of their partition."""
    frame = rows.frame
    if not shares:
        return frame
    # 30 bits of the hash as a number between 0 and 1: rows of one key stay together.
    where = F.shiftrightunsigned(F.col(CHECK), 34) / F.lit(float(1 << 30))
    if len(shares) <= _EXPRESSED_PARTITIONS:
        chosen = F.lit(None).cast("string")
        for partition, found in shares.items():
            here = F.col(PARTITION_PATH) == F.lit(partition)
            chosen = F.when(here, _chosen(where, found)).otherwise(chosen)
        return frame.withColumn(GROUP, F.coalesce(F.col(GROUP), chosen))
    table = frame.sparkSession.createDataFrame(
        [(p, _bounds(found), [s.file_id for s in found]) for p, found in shares.items()],
        f"{PARTITION_PATH} string, _bounds array<double>, _ids array<string>",
    )
    index = F.size(F.filter(F.col("_bounds"), lambda bound: bound <= where)) + 1
    return (
        frame.join(F.broadcast(table), PARTITION_PATH, "left")
        .withColumn(GROUP, F.coalesce(F.col(GROUP), F.element_at("_ids", index)))
        .drop("_bounds", "_ids")
    )


def _chosen(where: Column, shares: Sequence[Share]) -> Column:
    made = F.lit(shares[-1].file_id)
    for bound, share in reversed(list(zip(_bounds(shares), shares, strict=False))):
        made = F.when(where < F.lit(bound), F.lit(share.file_id)).otherwise(made)
    return made


def _bounds(shares: Sequence[Share]) -> list[float]:
    """Return where each share but the last ends, as parts of the whole."""
    total = sum(s.rows for s in shares) or 1
    ends, so_far = [], 0
    for share in shares[:-1]:
        so_far += share.rows
        ends.append(so_far / total)
    return ends


def content_hash(frame: DataFrame, columns: Sequence[str]) -> Column:
    """Return a hash of what rows hold, for rows that have no key yet."""
    plain = [n for n in columns if not _holds_map(frame.schema[n].dataType)]
    return F.xxhash64(*(F.col(f"`{name}`") for name in plain)) if plain else F.lit(0).cast("bigint")


def _holds_map(kind: T.DataType) -> bool:
    if isinstance(kind, T.StructType):
        return any(_holds_map(f.dataType) for f in kind.fields)
    if isinstance(kind, T.ArrayType):
        return _holds_map(kind.elementType)
    return isinstance(kind, _UNSUMMABLE)


def _flag(at: int) -> str:
    return f"_tidelake_bad_{at}"


def for_tasks(rows: Incoming, frame: DataFrame, *, is_planned: bool = True) -> DataFrame:
    """Return what tasks need of the rows: columns, key and path, and what else the plan gave them.

    Rows of a write without a plan all go to new groups, and nobody counted them.
    """
    names = [*rows.columns, PARTITION_PATH]
    if rows.key_column is None:
        names.append(RECORD_KEY)  # or else a task copies it, which is cheaper than to send it
    if is_planned:
        own = (CHANGE, POSITION, COLUMNS, ROW)
        names += [GROUP, CHECK, *(n for n in own if n in frame.columns)]
    return frame.selectExpr(*map(_quoted, names))


def _quoted(name: str) -> str:
    return f"`{name}`"
