"""Faults that the product had, or that a careless change would bring back.

Each is planted into the real code, in the process that plans and commits, while sequences are
played. Most name a kind of table in which they show, and operations that are then drawn often.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import polars as pl
import pytest
from pyspark.sql import functions as F  # noqa: N812 - the customary name

from tests.machine.kinds import Kind
from tests.machine.steps import Do
from tidelake.config import TimeBasis, WriteOperation
from tidelake.files.write_task import CHANGE, Change
from tidelake.operations import write_session
from tidelake.operations.staged_write import _Staged
from tidelake.operations.write_session import WriteSession
from tidelake.read.prune import Pruner
from tidelake.records import merge
from tidelake.spark.merge import conditions
from tidelake.spark.merge.merge_plan import On
from tidelake.spark.write import index_lookup, writer
from tidelake.spark.write.incoming_rows import Incoming
from tidelake.state import table_state as state
from tidelake.state.table_state import TableState
from tidelake.view import table_view
from tidelake.write.operation import combines

Plant = Callable[[pytest.MonkeyPatch], None]

_COW = Kind(version=9, mor=False, index="SIMPLE")
_MOR = Kind(version=9, mor=True, index="SIMPLE")


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """A fault, and where it shows."""

    plant: Plant
    kind: Kind = _COW
    often: Mapping[Do, int] = field(default_factory=dict)
    takes_spark: bool = True


def conditions_are_cut_at_and(patch: pytest.MonkeyPatch) -> None:
    """Take a condition apart as text, and `t` for the table whatever it is the name of."""

    def cut(on: On) -> str | None:
        if not isinstance(on.condition, str):
            return None
        pieces = re.split(r"\s+and\s+", on.condition, flags=re.IGNORECASE)
        own = [p for p in pieces if re.match(r"(t|target)\.\w+ (=|<|>|<=|>=) ['\d]", p)]
        return " AND ".join(re.sub(r"\b(t|target)\.", "", p) for p in own) or None

    patch.setattr(writer, "condition_of_target", cut)


def known_keys_are_inserted(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(writer.Writer, "_refuse_known_keys", lambda *_: None)


def all_columns_are_those_that_are_named(patch: pytest.MonkeyPatch) -> None:
    """Read the columns that expressions spell, and take `target.*` for these."""
    patch.setattr(conditions, "names_all_columns", lambda _: False)


def kept_partitions_keep_the_value_that_came(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(index_lookup, "following_paths", lambda frame, *_: frame)


def stale_updates_take_effect(patch: pytest.MonkeyPatch) -> None:
    """Write rows of a merge that are older than the table's, to be sorted out by readers."""

    def every(rows: Incoming) -> Incoming:
        return rows

    patch.setattr(writer, "without_stale", every)


def nulls_are_the_oldest_numbers(patch: pytest.MonkeyPatch) -> None:
    """Rank a null below every number where files are merged, and as zero elsewhere."""
    real = merge._comparable

    def ranked(ordering: Sequence[pl.Series], spec: Any) -> Iterator[pl.Series]:
        filled = (v.fill_null(-(10**9)) if v.dtype.is_numeric() else v for v in ordering)
        return real(tuple(filled), spec)

    patch.setattr(merge, "_comparable", ranked)


def duplicates_within_an_insert_stay(patch: pytest.MonkeyPatch) -> None:
    def never(operation: WriteOperation, *given: Any) -> bool:
        return operation is not WriteOperation.INSERT and combines(operation, *given)

    patch.setattr(write_session, "combines", never)


def the_data_source_asks_for_no_known_keys(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(_Staged, "_leave_out_known", lambda *_: None)


def logs_have_no_statistics(patch: pytest.MonkeyPatch) -> None:
    """Leave a slice out by the statistics of its base file, whatever its logs bring."""
    real = Pruner._slice_may_match

    def by_base(pruner: Pruner, piece: Any, stats: Any, *, base_only: bool) -> bool:
        del base_only
        return real(pruner, piece, stats, base_only=piece.base_file is not None)

    patch.setattr(Pruner, "_slice_may_match", by_base)


def a_commit_is_not_in_its_own_past(patch: pytest.MonkeyPatch) -> None:
    real = table_view.is_by

    def before(instant: Any, as_of: Any) -> bool:
        return real(instant, as_of) and as_of.time != (
            instant.completion_time
            if as_of.basis is not TimeBasis.REQUESTED
            else instant.requested_time
        )

    patch.setattr(table_view, "is_by", before)
    patch.setattr(state, "is_by", before)


def archived_columns_are_forgotten(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(TableState, "_archived", lambda *_: iter(()))


def overwrites_retire_nothing(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(WriteSession, "retire", lambda *_: {})


def moved_keys_stay_behind_too(patch: pytest.MonkeyPatch) -> None:
    real = index_lookup.tagged_globally

    def without_deletes(rows: Incoming, *given: Any, **named: Any) -> Incoming:
        made = real(rows, *given, **named)
        if CHANGE not in made.frame.columns:
            return made
        return made.with_frame(made.frame.where(F.col(CHANGE) != int(Change.DELETE)))

    patch.setattr(writer, "tagged_globally", without_deletes)


_MERGES = {Do.MERGE: 40}
PLANTED: dict[str, Fault] = {
    "conditions are cut at AND": Fault(plant=conditions_are_cut_at_and, often=_MERGES),
    "known keys are inserted": Fault(plant=known_keys_are_inserted, often=_MERGES),
    "all columns are those that are named": Fault(
        plant=all_columns_are_those_that_are_named, often=_MERGES
    ),
    "kept partitions keep the value that came": Fault(
        plant=kept_partitions_keep_the_value_that_came,
        kind=replace(_COW, index="GLOBAL_SIMPLE", moves=False),
    ),
    "stale updates take effect": Fault(
        plant=stale_updates_take_effect,
        kind=replace(_MOR, has_nulls=False),
        often={Do.MERGE: 30, Do.PARTIAL: 30},
    ),
    "nulls are the oldest numbers": Fault(
        plant=nulls_are_the_oldest_numbers, kind=_MOR, takes_spark=False
    ),
    "duplicates within an insert stay": Fault(
        plant=duplicates_within_an_insert_stay, takes_spark=False
    ),
    "the data source asks for no known keys": Fault(
        plant=the_data_source_asks_for_no_known_keys, takes_spark=False
    ),
    "logs have no statistics": Fault(
        plant=logs_have_no_statistics, kind=replace(_MOR, statistics=True), takes_spark=False
    ),
    "a commit is not in its own past": Fault(
        plant=a_commit_is_not_in_its_own_past, takes_spark=False
    ),
    "archived columns are forgotten": Fault(
        plant=archived_columns_are_forgotten, often={Do.ARCHIVE: 8}, takes_spark=False
    ),
    "overwrites retire nothing": Fault(plant=overwrites_retire_nothing, takes_spark=False),
    "moved keys stay behind too": Fault(
        plant=moved_keys_stay_behind_too, kind=replace(_MOR, index="GLOBAL_BLOOM")
    ),
}


@contextmanager
def planted(name: str) -> Iterator[Fault]:
    """Plant a fault, and return where it shows."""
    fault = PLANTED[name]
    with pytest.MonkeyPatch.context() as patch:
        fault.plant(patch)
        yield fault
