"""Which index a table is written with, and what its file ids say about it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass

from tidelake.config import BucketEngine, IndexType, TableConfig, WriteOptions
from tidelake.config.keys import write_keys
from tidelake.errors import ConfigError
from tidelake.formats.file_name import FIXED_ID_MARK, MOST_BUCKETS, bucket_number
from tidelake.model import TableType
from tidelake.model.numbers import whole_number
from tidelake.records.keys import bucket_of, split_record_key

#: Where tidelake records the bucket count of a table, which Hudi records nowhere.
BUCKET_COUNT_PROPERTY = "tidelake.bucket.count"
#: Where a commit says that its keys were looked up in something else than the rows of the table.
LOOKED_UP_BY = "tidelake.index.type"
FIXED_ID_END = f"{FIXED_ID_MARK}0"


@dataclass(frozen=True, slots=True, kw_only=True)
class Index:
    """How the file group of a key is found; `buckets` and `hash_fields` are the bucket index's.

    With `fixed_ids` every writer gives the same id to a new bucket.
    """

    type: IndexType = IndexType.SIMPLE
    engine: BucketEngine = BucketEngine.SIMPLE
    buckets: int = 0
    hash_fields: tuple[str, ...] = ()
    fixed_ids: bool = False
    moves_partition: bool = True

    @property
    def is_bucket(self) -> bool:
        """Return whether the key alone says the file group."""
        return self.type is IndexType.BUCKET

    @property
    def is_simple_bucket(self) -> bool:
        """Return whether the bucket is the remainder of a hash."""
        return self.is_bucket and not self.is_ring

    @property
    def is_ring(self) -> bool:
        """Return whether buckets are ranges of hashes that a file lists."""
        return self.is_bucket and self.engine is BucketEngine.CONSISTENT_HASHING


def renewed_file_id(bucket: int, instant_time: str) -> str:
    """Return the id that every writer gives to a bucket whose files the instant replaced.

    Nobody reads what is written to a file group after it was replaced.
    """
    day = f"{instant_time[:4]}-{instant_time[4:8]}-{instant_time[8:12]}"
    return f"{bucket_word(bucket)}-{day}-{instant_time[12:]:0>12}-0"


def bucket_word(bucket: int) -> str:
    """Return the number of a bucket as file ids begin with it."""
    return f"{bucket:08d}"


def bucket_file_id(bucket: int, new_id: str, *, fixed: bool) -> str:
    """Return the id of a new file group of the bucket; `new_id` is a fresh UUID."""
    if fixed:
        return f"{bucket_word(bucket)}{FIXED_ID_END}"
    return f"{bucket_word(bucket)}{new_id[8:]}-0"


def choose_index(
    config: TableConfig,
    options: WriteOptions,
    *,
    file_ids: Collection[str],
    has_rings: bool,
    sample: Callable[[], Iterable[tuple[str, str]]],
) -> Index:
    """Return the index to write with, from what the table shows and, where it is silent, options.

    `file_ids` are some of the table's file groups, none for a table without files; `sample` gives
    file ids with keys that lie in them. Raises `ConfigError` when options contradict the table.
    """
    if has_rings:
        _refuse_other(options, IndexType.BUCKET, "the table has hash rings of the bucket index")
        count = options.bucket_count or 0
        return _bucket(config, options, BucketEngine.CONSISTENT_HASHING, count, fixed_ids=False)
    recorded = whole_number(config.properties.get(BUCKET_COUNT_PROPERTY, ""))
    if recorded is not None and recorded >= 0:
        _refuse_other(options, IndexType.BUCKET, f"{BUCKET_COUNT_PROPERTY} is {recorded}")
        _refuse_count(options, recorded, f"{BUCKET_COUNT_PROPERTY} is {recorded}")
        count = recorded
    elif _are_buckets(file_ids) and options.index_type in (None, IndexType.BUCKET):
        count = _count_from_files(config, options, file_ids, sample())
    elif options.index_type is IndexType.BUCKET:
        if file_ids:
            raise ConfigError(
                f"{write_keys.INDEX_TYPE.name} is BUCKET, but the table has file groups whose ids "
                f"name no bucket, such as {next(iter(sorted(file_ids)))}",
                next_step="leave the option out, or write into a new table",
            )
        default = write_keys.BUCKET_COUNT.number({})
        count = options.bucket_count or default or 1
    else:
        return Index(
            type=options.index_type or IndexType.SIMPLE, moves_partition=options.moves_partition
        )
    return _bucket(config, options, options.bucket_engine, count, fixed_ids=has_fixed_ids(config))


def has_fixed_ids(config: TableConfig) -> bool:
    """Return whether every writer knows the id of a new bucket by itself.

    The table decides, and not the mode of a writer: where some may never look at what others did,
    all of them have to meet in one file group of a new bucket.
    """
    return config.table_type is TableType.MERGE_ON_READ and config.format.takes_non_blocking


def looks_bucketed(config: TableConfig, options: WriteOptions, file_ids: Collection[str]) -> bool:
    """Return whether the table has simple buckets, or will have them once it has files."""
    if BUCKET_COUNT_PROPERTY in config.properties:
        return True
    return _are_buckets(file_ids) if file_ids else options.index_type is IndexType.BUCKET


def _are_buckets(file_ids: Collection[str]) -> bool:
    return bool(file_ids) and all(bucket_number(i) is not None for i in file_ids)


def _bucket(
    config: TableConfig,
    options: WriteOptions,
    engine: BucketEngine,
    count: int,
    *,
    fixed_ids: bool,
) -> Index:
    fields = options.bucket_hash_fields or config.record_key_fields
    unknown = [name for name in fields if name not in config.record_key_fields]
    if unknown or not fields:
        raise ConfigError(
            f"the bucket index hashes {', '.join(unknown) or 'the record key'}, "
            f"but the record key is made of {', '.join(config.record_key_fields) or 'no column'}",
            next_step=f"give {write_keys.BUCKET_HASH_FIELDS.name} columns of the record key",
        )
    # Hudi hashes the values in the order in which the key spells them.
    ordered = tuple(name for name in config.record_key_fields if name in fields)
    return Index(
        type=IndexType.BUCKET,
        engine=engine,
        buckets=count,
        hash_fields=ordered,
        fixed_ids=fixed_ids,
    )


def _refuse_other(options: WriteOptions, wanted: IndexType, why: str) -> None:
    if options.index_type not in (None, wanted):
        raise ConfigError(
            f"{write_keys.INDEX_TYPE.name} is {options.index_type}, but {why}",
            next_step=f"leave out {write_keys.INDEX_TYPE.name}, or set it to {wanted}",
        )


def _refuse_count(options: WriteOptions, count: int, why: str) -> None:
    if options.bucket_count not in (None, count):
        raise ConfigError(
            f"{write_keys.BUCKET_COUNT.name} is {options.bucket_count}, but {why}",
            next_step=f"set it to {count}, or leave it out",
        )


def _count_from_files(
    config: TableConfig,
    options: WriteOptions,
    file_ids: Collection[str],
    sample: Iterable[tuple[str, str]],
) -> int:
    fields = options.bucket_hash_fields or config.record_key_fields
    least = 1 + max(number for i in file_ids if (number := bucket_number(i)) is not None)
    seen = [
        (bucket, split_record_key(key, fields))
        for file_id, key in sample
        if (bucket := bucket_number(file_id)) is not None
    ]
    if options.bucket_count is not None:
        if options.bucket_count < least or not _fits(seen, options.bucket_count):
            raise ConfigError(
                f"{write_keys.BUCKET_COUNT.name} is {options.bucket_count}, but the table's files "
                f"were written with another number of buckets, at least {least}",
                next_step="give the number that the table was written with, or leave it out",
            )
        return options.bucket_count
    fitting = [n for n in range(least, MOST_BUCKETS) if _fits(seen, n)]
    if len(fitting) == 1:
        return fitting[0]
    shown = ", ".join(map(str, fitting[:5]))
    raise ConfigError(
        "the table's files are named by buckets, but its keys do not tell how many there are"
        + (f": it may be {shown}{' or more' if len(fitting) > 5 else ''}" if fitting else ""),
        next_step=f"set {write_keys.BUCKET_COUNT.name} to the number the table was written with",
    )


def _fits(seen: Sequence[tuple[int, Sequence[str | None]]], buckets: int) -> bool:
    return all(bucket_of(values, buckets) == bucket for bucket, values in seen)
