"""What the person who compacts asks for."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from typing_extensions import Self

from tidelake.config.keys import write_keys
from tidelake.config.keys.key import Key
from tidelake.config.words import CompactionStrategy, CompactionTrigger
from tidelake.errors import ConfigError

_TRIGGERS = (
    write_keys.COMPACT_TRIGGER,
    write_keys.COMPACT_MAX_DELTA_COMMITS,
    write_keys.COMPACT_MAX_DELTA_SECONDS,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionOptions:
    """When a compaction is due, and which file slices it takes."""

    trigger: CompactionTrigger = CompactionTrigger.NUM_COMMITS
    is_trigger_given: bool = False
    """Whether anything about the trigger was asked for; else a call to compact is reason enough."""
    max_delta_commits: int = 5
    max_delta_seconds: int = 3600
    strategies: tuple[CompactionStrategy, ...] = (CompactionStrategy.LOG_FILE_SIZE,)
    target_io_mib: int = 500 << 10
    log_size_threshold_bytes: int = 0
    log_count_threshold: int = 0
    day_partitions: int = 10
    partition_regex: str = ".*"
    new_file_bytes: int = 120 << 20
    """What the base file of a slice that has none yet is expected to take."""
    inline: bool = False
    schedule_inline: bool = False

    @classmethod
    def from_settings(cls, given: Mapping[str, str]) -> Self:
        """Read the options; raise `ConfigError` for a wrong one, and for two that contradict."""
        inline, schedule = write_keys.COMPACT_INLINE, write_keys.COMPACT_SCHEDULE_INLINE
        if inline.flag(given) and schedule.flag(given):
            raise ConfigError(
                f"{inline.name} runs compactions after a write, {schedule.name} leaves that to "
                "others",
                next_step="set one of the two to true",
            )
        return cls(
            trigger=write_keys.COMPACT_TRIGGER.word(given, CompactionTrigger)
            or CompactionTrigger.NUM_COMMITS,
            is_trigger_given=any(key.given(given) for key in _TRIGGERS),
            max_delta_commits=_count(write_keys.COMPACT_MAX_DELTA_COMMITS, given, least=1),
            max_delta_seconds=_count(write_keys.COMPACT_MAX_DELTA_SECONDS, given, least=0),
            strategies=_strategies(given),
            target_io_mib=_count(write_keys.COMPACT_TARGET_IO, given, least=1),
            log_size_threshold_bytes=_count(write_keys.COMPACT_LOG_SIZE, given, least=0),
            log_count_threshold=_count(write_keys.COMPACT_LOG_COUNT, given, least=0),
            day_partitions=_count(write_keys.COMPACT_DAYS, given, least=1),
            partition_regex=_regex(given),
            new_file_bytes=_count(write_keys.MAX_FILE_SIZE, given, least=1),
            inline=inline.flag(given),
            schedule_inline=schedule.flag(given),
        )


def _count(key: Key, settings: Mapping[str, str], *, least: int) -> int:
    found = key.count(settings, least=least)
    assert found is not None  # each of these keys has a default
    return found


def _strategies(settings: Mapping[str, str]) -> tuple[CompactionStrategy, ...]:
    key = write_keys.COMPACT_STRATEGY
    known = {word.value.lower(): word for word in CompactionStrategy}
    names = [name.rpartition(".")[2].lower() for name in key.items(settings)]
    if not all(name in known for name in names):
        raise key.refuse(settings, ", ".join(CompactionStrategy))
    return tuple(known[name] for name in names)


def _regex(settings: Mapping[str, str]) -> str:
    key = write_keys.COMPACT_PARTITION_REGEX
    pattern = key.text(settings) or ""
    try:
        re.compile(pattern)
    except re.error as cause:
        raise key.refuse(settings, "regular expressions") from cause
    return pattern
