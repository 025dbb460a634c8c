"""Refusing writes behind which nobody could see any more that a file is gone."""

from __future__ import annotations

from collections.abc import Sequence

from tidelake.files.write_task import WriteKind
from tidelake.model import FileGroupId
from tidelake.view import TableView, refuse_missing_files
from tidelake.write.groups import LiveGroup
from tidelake.write.plan import Workload, WritePlan

_REWRITTEN = frozenset({WriteKind.MERGE, WriteKind.CONCAT})


def refuse_hiding(
    view: TableView, live: Sequence[LiveGroup], workload: Workload, plan: WritePlan
) -> None:
    """Raise `MissingFileError` when a write would take the place of a file that is gone.

    A base file that is written anew stands for all that its file group had, and a bucket gets a new
    file group because it seems to have none. Whatever else a write leaves out readers still miss,
    and say so.
    """
    slices = [group.slice for group in live]
    rewritten = {
        FileGroupId(target.partition, target.file_id)
        for target in plan.targets.values()
        if target.kind in _REWRITTEN
    }
    if rewritten:
        refuse_missing_files(view, slices, workload.partitions, only=rewritten)
    if plan.new_buckets is not None:
        opened = {p for p, group in workload.counts if (p, group) not in plan.targets}
        if opened:
            refuse_missing_files(view, slices, opened)
