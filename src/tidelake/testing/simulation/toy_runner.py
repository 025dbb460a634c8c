"""What workers do with the slices of a compaction, done to toy rows."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from typing import Any

from tidelake.env import Env
from tidelake.files import SliceTask, WriteToken
from tidelake.files.write_task import GroupTarget, WriteKind
from tidelake.formats.commit_metadata import WriteStat
from tidelake.operations.compaction_run import CompactionWork
from tidelake.testing.simulation.toy_rows import read_toy_slice, write_toy_file


@dataclass(frozen=True, slots=True)
class ToyRunner:
    """Does what workers do with the slices of a compaction, to toy rows."""

    env: Env
    linger: Callable[[], None] = lambda: None
    """Takes as long as the rows of a slice take."""

    @property
    def failures(self) -> tuple[type[Exception], ...]:
        """Return nothing: what goes wrong here is an error of ours."""
        return ()

    @property
    def waits(self) -> bool:
        """Return False, so that tasks look for the seal, as those of Spark do."""
        return False

    def run(
        self, tasks: Sequence[SliceTask], work: Any
    ) -> Generator[tuple[SliceTask, Any], None, None]:
        """Return each task with its result."""
        assert isinstance(work, CompactionWork)
        for number, task in enumerate(tasks):
            self.linger()
            yield task, self._compacted(task, work, WriteToken(task=number, stage=0, attempt=0))

    def _compacted(self, task: SliceTask, work: CompactionWork, token: WriteToken) -> WriteStat:
        rows = read_toy_slice(self.env.storage, task, work.blocks)
        target = GroupTarget(
            partition=task.partition,
            file_id=task.file_id,
            kind=WriteKind.CREATE if task.base_path is None else WriteKind.MERGE,
            base_path=task.base_path,
            base_instant=task.base_instant,
            partition_known=True,
        )
        return write_toy_file(self.env, work.spec, target, rows, token=token)
