"""What a table and a writer must be for the writer to share the table."""

from __future__ import annotations

from tidelake.config import (
    ConcurrencyMode,
    ConflictStrategy,
    TableConfig,
    WriteOperation,
    WriteOptions,
)
from tidelake.config.keys import concurrency_keys
from tidelake.errors import ConfigError, UnsupportedTableError
from tidelake.model import TableType
from tidelake.txn.conflicts.judge import slot_name as slot_name
from tidelake.write.index import Index, has_fixed_ids

_EXCLUSIVE = frozenset(
    {
        WriteOperation.INSERT_OVERWRITE,
        WriteOperation.INSERT_OVERWRITE_TABLE,
        WriteOperation.DELETE_PARTITION,
    }
)


def takes_non_blocking(config: TableConfig, *, is_bucketed: bool) -> bool:
    """Return whether writers that never give way may be writing to the table."""
    required = concurrency_keys.REQUIRED_MODE.word(config.properties, ConcurrencyMode)
    return (
        is_bucketed and has_fixed_ids(config) and required in (None, ConcurrencyMode.NON_BLOCKING)
    )


def refuse_unshareable(config: TableConfig, options: WriteOptions) -> None:
    """Raise when the table, or what it demands of its writers, forbids the writer's mode."""
    mode = options.concurrency.mode
    required = concurrency_keys.REQUIRED_MODE.word(config.properties, ConcurrencyMode)
    if required is not None and required is not mode:
        raise ConfigError(
            f"the table takes writers with {concurrency_keys.CONCURRENCY_MODE.name}={required}, "
            f"and this one has {mode}",
            next_step=f"set {concurrency_keys.CONCURRENCY_MODE.name}={required}",
        )
    if (
        options.concurrency.strategy is ConflictStrategy.END
        and not config.format.takes_non_blocking
        and not options.concurrency.allows_mtime
    ):
        raise ConfigError(
            f"tables of version {config.table_version} have modification times for completion "
            f"times, and {concurrency_keys.CONFLICT_STRATEGY.name}={ConflictStrategy.END} relies "
            "on the latter",
            next_step=f"leave the strategy out; or set {concurrency_keys.ALLOW_MTIME.name}=true if "
            "the table was never copied",
        )
    if mode is not ConcurrencyMode.NON_BLOCKING:
        return
    if config.table_type is not TableType.MERGE_ON_READ:
        raise _not_non_blocking(f"the table is {config.table_type}", "a merge-on-read table")
    if not config.format.takes_non_blocking:
        raise _not_non_blocking(
            f"the table has version {config.table_version}", "table version 8 or later"
        )


def refuse_blocking(mode: ConcurrencyMode, operation: WriteOperation, index: Index) -> None:
    """Raise when writers that never give way cannot do `operation` with this index."""
    if mode is not ConcurrencyMode.NON_BLOCKING:
        return
    if not index.is_bucket:
        raise _not_non_blocking(f"the index is {index.type}", "a bucket index")
    if index.is_ring:
        raise _not_non_blocking(
            "the buckets are found by consistent hashing, which moves keys", "simple buckets"
        )
    refuse_exclusive(mode, operation)


def refuse_exclusive(mode: ConcurrencyMode, operation: WriteOperation) -> None:
    """Raise when writers that never give way cannot do `operation` at all."""
    if mode is ConcurrencyMode.NON_BLOCKING and operation in _EXCLUSIVE:
        raise UnsupportedTableError(
            f"{operation} retires file groups whose ids every writer gives by itself",
            next_step=f"run it with {concurrency_keys.CONCURRENCY_MODE.name}="
            f"{ConcurrencyMode.OPTIMISTIC} while nobody else writes to its partitions",
        )


def _not_non_blocking(problem: str, needed: str) -> ConfigError:
    name = concurrency_keys.CONCURRENCY_MODE.name
    return ConfigError(
        f"{name}={ConcurrencyMode.NON_BLOCKING} takes {needed}, and {problem}",
        next_step=f"set {name}={ConcurrencyMode.OPTIMISTIC}, under which any table can be shared",
    )
