from __future__ import annotations

import threading
from contextlib import closing
from dataclasses import dataclass, field

import pytest

from tidelake.errors import ConfigError
from tidelake.files import SliceTask, WriteToken
from tidelake.operations.task_runner import Here


def task(number: int) -> SliceTask:
    return SliceTask(partition="", file_id=str(number), base_path=None, base_instant=None)


@dataclass
class Work:
    """Fails for one file group, and remembers the others."""

    fails: str = ""
    seen: list[str] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def run(self, task: SliceTask, token: WriteToken) -> str:
        with self.lock:
            self.seen.append(task.file_id)
        if task.file_id == self.fails:
            raise ConfigError("told to fail", next_step="do not")
        return token.format()


def test_every_task_comes_back_with_its_result_and_a_token_of_its_own() -> None:
    tasks = [task(number) for number in range(10)]
    found = dict(Here(attempt=7).run(tasks, Work()))
    assert found == {each: f"{at}-0-7" for at, each in enumerate(tasks)}


def test_after_an_error_no_further_task_begins() -> None:
    work = Work(fails="0")
    with pytest.raises(ConfigError), closing(Here().run([task(n) for n in range(500)], work)) as it:
        list(it)
    assert len(work.seen) < 100


def test_who_stops_asking_is_not_left_with_running_tasks() -> None:
    work, threads = Work(), threading.active_count()
    with closing(Here().run([task(n) for n in range(500)], work)) as results:
        next(results)
    assert len(work.seen) < 100
    assert threading.active_count() == threads
