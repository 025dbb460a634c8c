"""A whole table asked every kind of question in this process, without Spark."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pyarrow as pa

from tidelake.errors import TidelakeError
from tidelake.files import ReadSpec, SliceTask, decide_slice, read_base, read_changes, read_slice
from tidelake.metadata.table import MetadataTable, unknown_writes
from tidelake.operations.open_table import open_state
from tidelake.read.changes import plan_changes
from tidelake.read.check import check_table
from tidelake.read.incremental import plan_incremental
from tidelake.read.scan import ScanPlan
from tidelake.read.snapshot import plan_snapshot
from tidelake.state.table_state import TableState

#: The rows of an answer, sorted, or None for a refusal.
Rows = list[str] | None

QUESTIONS = (
    "snapshot",
    "snapshot, storage listed",
    "snapshot, base rows masked",
    "read optimized",
    "as of",
    "incremental",
    "changes",
    "check",
)


def ask_all(root: Path, options: Mapping[str, str], middle: str | None) -> dict[str, Rows]:
    """Return the answer to each question; `middle` is a time in the middle of the table's life.

    Errors of ours are answers, all others are raised.
    """
    answers: dict[str, Rows] = {}
    for question in QUESTIONS:
        try:
            answers[question] = sorted(_ask(question, root, options, middle))
        except TidelakeError:
            answers[question] = None
    return answers


@contextmanager
def words() -> Iterator[list[str]]:
    """Collect the warnings that are logged inside of the block."""
    said: list[str] = []
    handler = logging.Handler(logging.WARNING)
    handler.emit = lambda record: said.append(record.getMessage())  # type: ignore[method-assign]
    logger = logging.getLogger("tidelake")
    logger.addHandler(handler)
    try:
        yield said
    finally:
        logger.removeHandler(handler)


def _ask(
    question: str, root: Path, options: Mapping[str, str], middle: str | None
) -> Iterable[str]:
    if question.endswith("storage listed"):
        options = {**options, "hoodie.metadata.enable": "false"}
    state = open_state(str(root), options)
    if question == "read optimized":
        return _rows(plan_snapshot(state, base_only=True))
    if question == "as of":
        return _rows(plan_snapshot(state, as_of=middle))
    if question == "incremental":
        return _rows(plan_incremental(state, start=middle))
    if question == "changes":
        changes = plan_changes(state)
        return _texts(b for task in changes.tasks for b in read_changes(task, changes.spec))
    if question == "check":
        at = (state.storage, state.config, state.timeline)
        report = check_table(state, MetadataTable.open(*at), unknown_writes(*at))
        return [f"{v.path}: {v.problem}" for v in report.violations]
    plan = plan_snapshot(state)
    if question.endswith("masked"):
        return _texts(b for task in plan.tasks for b in _masked(task, plan.spec))
    return _rows(plan)


def _rows(plan: ScanPlan) -> list[str]:
    return _texts(batch for task in plan.tasks for batch in read_slice(task, plan.spec))


def _masked(task: SliceTask, spec: ReadSpec) -> list[pa.RecordBatch]:
    """Return the rows of a slice the way Spark puts them together."""
    base = list(read_base(task, spec))
    if not task.log_paths:
        return base
    found = decide_slice(task, spec)
    if not base:
        return list(found.rows.to_batches())
    untouched = np.unpackbits(found.mask.view(np.uint8), bitorder="little") == 0
    rows = pa.Table.from_batches(base).filter(pa.array(untouched[: found.base_rows]))
    return [*rows.to_batches(), *found.rows.to_batches()]


def _texts(batches: Iterable[pa.RecordBatch]) -> list[str]:
    return [repr(row) for batch in batches for row in batch.to_pylist()]


def middle_time(root: Path, options: Mapping[str, str]) -> str | None:
    """Return the time of the write in the middle of the active timeline."""
    state: TableState = open_state(str(root), options)
    writes = state.writes_by_time()
    if not writes:
        return None
    chosen = writes[(len(writes) - 1) // 2]
    return chosen.completion_time if state.by_completion_time else chosen.requested_time


def keep_time(path: Path, stat: os.stat_result) -> None:
    """Give the file back its modification time, which orders instants of layout 1."""
    os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))
