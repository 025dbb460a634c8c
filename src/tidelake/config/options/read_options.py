"""What the person who reads asks for."""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from typing_extensions import Self

from tidelake.config.keys import read_keys as keys
from tidelake.config.keys.key import Key, Scope
from tidelake.config.words import (
    HollowCommitPolicy,
    IncrementalFormat,
    MergePath,
    QueryType,
    TimeBasis,
)
from tidelake.errors import ConfigError
from tidelake.model import MergeMode

_log = logging.getLogger(__name__)

_KNOWN = frozenset(name for key in keys.ALL for name in key.names)
_INSTANT = re.compile(r"\d{14}(\d{3})?")
#: Up to this many typing mistakes make an option a misspelt one rather than one of a writer.
_MISTAKES = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadOptions:
    """The options of one read, typed and free of contradictions."""

    query_type: QueryType = QueryType.SNAPSHOT
    incremental_format: IncrementalFormat = IncrementalFormat.LATEST_STATE
    begin_time: str | None = None
    """Exclusive start of an incremental window, as given."""
    end_time: str | None = None
    """Inclusive end of an incremental window, as given."""
    as_of: str | None = None
    metadata_enable: bool = True
    data_skipping: bool = True
    schema_on_read: bool = False
    partition_values_from_path: bool = False
    use_record_positions: bool = True
    hollow_commit_policy: HollowCommitPolicy = HollowCommitPolicy.FAIL
    log_merge_order: TimeBasis = TimeBasis.COMPLETION
    time_travel_basis: TimeBasis = TimeBasis.COMPLETION
    merge_path: MergePath = MergePath.AUTO
    payload_class: str | None = None
    merge_mode: MergeMode | None = None
    merge_properties: Mapping[str, str] = field(default_factory=dict)
    """Options for whoever merges records, such as `hoodie.payload.delete.field`."""

    @classmethod
    def from_options(cls, options: Mapping[str, str]) -> Self:
        """Read the options, whatever the case of their names; raise `ConfigError` for a wrong one.

        Writer options of Hudi are accepted and ignored, with one warning, because people pass one
        set of options to reads and writes. Storage options are left to the storage.
        """
        settings = {name.lower(): str(value) for name, value in options.items()}
        _refuse_unknown(settings)
        query_type = _query_type(settings)
        found = cls(
            query_type=query_type,
            incremental_format=keys.INCREMENTAL_FORMAT.word(settings, IncrementalFormat)
            or IncrementalFormat.LATEST_STATE,
            begin_time=keys.BEGIN_TIME.text(settings),
            end_time=keys.END_TIME.text(settings),
            as_of=keys.AS_OF.text(settings),
            metadata_enable=keys.METADATA_ENABLE.flag(settings),
            data_skipping=keys.DATA_SKIPPING.flag(settings),
            schema_on_read=keys.SCHEMA_ON_READ.flag(settings),
            partition_values_from_path=keys.PARTITION_VALUES_FROM_PATH.flag(settings),
            use_record_positions=keys.USE_RECORD_POSITIONS.flag(settings),
            hollow_commit_policy=keys.HOLLOW_COMMIT_POLICY.word(settings, HollowCommitPolicy)
            or HollowCommitPolicy.FAIL,
            log_merge_order=keys.LOG_MERGE_ORDER.word(settings, TimeBasis) or TimeBasis.COMPLETION,
            time_travel_basis=keys.TIME_TRAVEL_BASIS.word(settings, TimeBasis)
            or TimeBasis.COMPLETION,
            merge_path=keys.MERGE_PATH.word(settings, MergePath) or MergePath.AUTO,
            payload_class=keys.READ_PAYLOAD_CLASS.text(settings),
            merge_mode=keys.READ_MERGE_MODE.word(settings, MergeMode),
            merge_properties=_merge_properties(settings),
        )
        _refuse_contradictions(found)
        return found


def _query_type(settings: Mapping[str, str]) -> QueryType:
    # The oldest spelling of a snapshot, under the oldest spelling of the key.
    if (keys.QUERY_TYPE.text(settings) or "").lower() == "realtime":
        return QueryType.SNAPSHOT
    return keys.QUERY_TYPE.word(settings, QueryType) or QueryType.SNAPSHOT


def _merge_properties(settings: Mapping[str, str]) -> dict[str, str]:
    prefix = keys.MERGE_PROPERTY_PREFIX
    stripped = {n[len(prefix) :]: v for n, v in settings.items() if n.startswith(prefix)}
    plain = {n: v for n, v in settings.items() if n.startswith(keys.MERGE_OPTION_PREFIXES)}
    return stripped | plain


def _refuse_contradictions(options: ReadOptions) -> None:
    incremental = options.query_type is QueryType.INCREMENTAL
    for key, value in ((keys.BEGIN_TIME, options.begin_time), (keys.END_TIME, options.end_time)):
        if value is not None and not incremental:
            raise _contradiction(key, value, f"a {options.query_type} query has no window")
    if options.incremental_format is IncrementalFormat.CDC and not incremental:
        raise _contradiction(
            keys.INCREMENTAL_FORMAT, "cdc", f"a {options.query_type} query returns rows"
        )
    if options.as_of is not None and incremental:
        raise ConfigError(
            f"{keys.AS_OF.name} is {options.as_of}, but {keys.QUERY_TYPE.name} is incremental",
            next_step=f"leave out {keys.AS_OF.name} and end the window with {keys.END_TIME.name}",
        )
    if _after(options.begin_time, options.end_time):
        raise ConfigError(
            f"{keys.BEGIN_TIME.name} {options.begin_time} is after "
            f"{keys.END_TIME.name} {options.end_time}",
            next_step="swap the two, or leave out the end to read up to now",
        )


def _contradiction(key: Key, value: str, why: str) -> ConfigError:
    return ConfigError(
        f"{key.name} is {value}, but {why}",
        next_step=f"set {keys.QUERY_TYPE.name}=incremental, or leave out {key.name}",
    )


def _after(begin: str | None, end: str | None) -> bool:
    # Other spellings of time need a time zone to compare; the query itself does that.
    if begin is None or end is None or not (_INSTANT.fullmatch(begin) and _INSTANT.fullmatch(end)):
        return False
    return begin.ljust(17, "0") > end.ljust(17, "9")


def _refuse_unknown(settings: Mapping[str, str]) -> None:
    ignored = []
    for name in settings:
        if name in keys.REFUSED:
            raise ConfigError(f"tidelake does not offer {name}", next_step=keys.REFUSED[name])
        if _is_known(name):
            continue
        closest = _closest(name)
        if closest is not None:
            raise ConfigError(
                f"option {name} is unknown",
                next_step=f"did you mean {closest}?",
            )
        if not name.startswith("hoodie."):
            raise ConfigError(
                f"option {name} is unknown",
                next_step="leave it out; docs/options.md lists every option of a read",
            )
        ignored.append(name)
    for key in (keys.MERGE_TYPE, keys.SCHEMA_OF_END_TIME):
        if (key.text(settings) or "").lower() not in key.choices:
            raise key.refuse(settings, " and ".join(key.choices))
    if ignored:
        _log.warning("a read has no use for these options: %s", ", ".join(sorted(ignored)))


def _is_known(name: str) -> bool:
    return (
        name in _KNOWN
        or name in keys.SPARK_OPTIONS
        or name.startswith((*keys.STORAGE_PREFIXES, *keys.MERGE_OPTION_PREFIXES))
        or name.startswith((keys.MERGE_PROPERTY_PREFIX, *keys.TIMEBASED_PREFIXES))
    )


def _closest(name: str) -> str | None:
    """Return the read option that `name` misspells, if it does."""
    best = None
    limit = _MISTAKES
    for key in keys.ALL:
        if key.scope is Scope.READ:
            for known in key.names:
                distance = edit_distance(name, known, limit)
                if distance <= limit:
                    best, limit = known, distance - 1
    return best


def edit_distance(left: str, right: str, limit: int) -> int:
    """Return how many letters to change, add, drop or swap, at most `limit + 1`."""
    if abs(len(left) - len(right)) > limit:
        return limit + 1
    before: list[int] = []
    above = list(range(len(right) + 1))
    for row, a in enumerate(left, 1):
        line = [row]
        for column, b in enumerate(right, 1):
            cost = min(above[column] + 1, line[-1] + 1, above[column - 1] + (a != b))
            if row > 1 and column > 1 and a == right[column - 2] and left[row - 2] == b:
                cost = min(cost, before[column - 2] + 1)
            line.append(cost)
        before, above = above, line
    return min(above[-1], limit + 1)
