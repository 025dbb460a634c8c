"""What the person who runs a table's services asks for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from typing_extensions import Self

from tidelake.config.keys import write_keys
from tidelake.config.keys.key import Key
from tidelake.config.options.compaction_options import CompactionOptions
from tidelake.config.words import CleanPolicy
from tidelake.errors import ConfigError

#: Commits between the two bounds of archival, where one of them is not given.
_ARCHIVED_AT_ONCE = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class CleanOptions:
    """When a table is cleaned, and what is left of its past then."""

    automatic: bool = True
    policy: CleanPolicy = CleanPolicy.COMMITS
    commits: int = 10
    hours: int = 24
    file_versions: int = 3
    trigger_commits: int = 1
    incremental: bool = True

    @classmethod
    def from_settings(cls, settings: Mapping[str, str]) -> Self:
        """Read the options; raise `ConfigError` for a wrong one."""
        return cls(
            automatic=write_keys.CLEAN_AUTOMATIC.flag(settings),
            policy=_policy(settings),
            commits=_count(write_keys.CLEAN_COMMITS, settings, least=1),
            hours=_count(write_keys.CLEAN_HOURS, settings, least=0),
            file_versions=_count(write_keys.CLEAN_FILE_VERSIONS, settings, least=1),
            trigger_commits=_count(write_keys.CLEAN_TRIGGER_COMMITS, settings, least=1),
            incremental=write_keys.CLEAN_INCREMENTAL.flag(settings),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchiveOptions:
    """When instants leave the active timeline, and how the history that takes them is kept."""

    automatic: bool = True
    min_commits: int = 20
    max_commits: int = 30
    beyond_savepoint: bool = False
    batch: int = 10
    history_batch: int = 10
    history_file_size_bytes: int = 1 << 30
    history_manifests: int = 3

    @classmethod
    def from_settings(cls, settings: Mapping[str, str], clean: CleanOptions) -> Self:
        """Read the options; raise `ConfigError` for a wrong one, and when they contradict `clean`.

        A bound that is not given follows the others.
        """
        least, most = _bounds(settings, clean)
        return cls(
            automatic=write_keys.ARCHIVE_AUTOMATIC.flag(settings),
            min_commits=least,
            max_commits=most,
            beyond_savepoint=write_keys.ARCHIVE_BEYOND_SAVEPOINT.flag(settings),
            batch=_count(write_keys.ARCHIVE_BATCH, settings, least=1),
            history_batch=_count(write_keys.HISTORY_BATCH, settings, least=2),
            history_file_size_bytes=_count(write_keys.HISTORY_FILE_SIZE, settings, least=1),
            history_manifests=_count(write_keys.HISTORY_MANIFESTS, settings, least=1),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceOptions:
    """The options of a table's services."""

    clean: CleanOptions = field(default_factory=CleanOptions)
    archive: ArchiveOptions = field(default_factory=ArchiveOptions)
    compaction: CompactionOptions = field(default_factory=CompactionOptions)

    @classmethod
    def from_settings(cls, settings: Mapping[str, str]) -> Self:
        """Read options whose names are in lower case; raise `ConfigError` for a wrong one."""
        clean = CleanOptions.from_settings(settings)
        return cls(
            clean=clean,
            archive=ArchiveOptions.from_settings(settings, clean),
            compaction=CompactionOptions.from_settings(settings),
        )


def _policy(settings: Mapping[str, str]) -> CleanPolicy:
    key = write_keys.CLEAN_POLICY
    if key.given(settings) is None:
        numbers = {
            CleanPolicy.COMMITS: write_keys.CLEAN_COMMITS,
            CleanPolicy.HOURS: write_keys.CLEAN_HOURS,
            CleanPolicy.FILE_VERSIONS: write_keys.CLEAN_FILE_VERSIONS,
        }
        given = [policy for policy, number in numbers.items() if number.given(settings)]
        if len(given) == 1:
            return given[0]
    return key.word(settings, CleanPolicy) or CleanPolicy.COMMITS


def _bounds(settings: Mapping[str, str], clean: CleanOptions) -> tuple[int, int]:
    low, high = write_keys.KEEP_MIN_COMMITS, write_keys.KEEP_MAX_COMMITS
    least = _count(low, settings, least=1)
    most = _count(high, settings, least=2)
    retained = clean.commits if clean.policy is CleanPolicy.COMMITS else 0
    if low.given(settings) is None:
        if high.given(settings) is None:
            least = max(least, retained + _ARCHIVED_AT_ONCE)
        elif retained + 1 < most:
            least = max(min(least, most - 1), retained + 1)
    elif least <= retained:
        raise ConfigError(
            f"{low.name}={least} would archive commits that {write_keys.CLEAN_COMMITS.name}="
            f"{retained} keeps readable",
            next_step=f"set {low.name} above {retained}, or retain fewer commits",
        )
    if high.given(settings) is None:
        most = max(most, least + _ARCHIVED_AT_ONCE)
    elif most <= least:
        raise ConfigError(
            f"{high.name}={most} is not above the {least} commits that archival is to leave",
            next_step=f"set {high.name} above {low.name}, and that above the {retained} commits "
            "that a clean retains",
        )
    return least, most


def _count(key: Key, settings: Mapping[str, str], *, least: int) -> int:
    found = key.count(settings, least=least)
    if found is None:
        raise ValueError(f"{key.name} has no default")
    return found
