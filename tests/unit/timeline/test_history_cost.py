"""How much of a long history a question reads."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import BinaryIO

import pytest
from typing_extensions import override

from tidelake.formats import commit_metadata, lsm_history
from tidelake.formats.commit_metadata import WRITE_ID, CommitMetadata
from tidelake.formats.lsm_history import HistoryFileName, HistoryInstant, Manifest, ManifestFile
from tidelake.model import Action, Instant, State
from tidelake.storage import MemoryStorage
from tidelake.timeline.history import LsmHistory


class CountingStorage(MemoryStorage):
    """Memory that counts how often files are opened."""

    def __init__(self) -> None:
        super().__init__()
        self.opened: Counter[str] = Counter()

    @override
    def open(self, path: str) -> BinaryIO:
        self.opened[path] += 1
        return super().open(path)


def time_of(number: int) -> str:
    return f"2026{number:013d}"


def instant(number: int) -> HistoryInstant:
    """Return a commit, or a clean once in a thousand."""
    action = Action.CLEAN if number % 1000 == 10 else Action.COMMIT
    metadata = CommitMetadata(extra_metadata={WRITE_ID: f"batch {number}"}, operation_type="UPSERT")
    return HistoryInstant(
        requested_time=time_of(2 * number),
        completion_time=time_of(2 * number + 1),
        action=action,
        metadata=commit_metadata.encode_avro(metadata) if action is Action.COMMIT else None,
    )


def history_of(files: int, instants: int) -> tuple[LsmHistory, CountingStorage]:
    storage = CountingStorage()
    named = []
    for file in range(files):
        found = [instant(n) for n in range(file * instants, (file + 1) * instants)]
        name = HistoryFileName(
            first=found[0].requested_time, last=found[-1].requested_time, level=0
        ).format()
        data = lsm_history.encode_instants(found)
        storage.put(f"h/{name}", data)
        named.append(ManifestFile(file_name=name, file_len=len(data)))
    storage.put("h/manifest_1", lsm_history.encode_manifest(Manifest(files=tuple(named))))
    return LsmHistory(storage, "h"), storage


def committed(number: int) -> Instant:
    return Instant(
        requested_time=time_of(2 * number),
        action=Action.COMMIT,
        state=State.COMPLETED,
        completion_time=time_of(2 * number + 1),
    )


QUESTIONS: dict[str, Callable[[LsmHistory], object]] = {
    "time of one": lambda h: h.completion_times()[time_of(2 * 130)],
    "is it archived": lambda h: time_of(2 * 130) in h.completion_times(),
    "instants of a time": lambda h: h.instants_at(time_of(2 * 130)),
    "completed after": lambda h: h.completion_times().completed_after(time_of(2 * 360)),
    "instants since": lambda h: h.instants_since(time_of(2 * 360)),
    "some completed by": lambda h: h.completion_times().has_completed_by(time_of(90)),
    "cleans": lambda h: h.instants_of(Action.CLEAN),
}


def read_further(storage: CountingStorage) -> list[str]:
    """Return the first time in the files that were opened for more than a look at the footer."""
    further = [path for path, count in storage.opened.items() if count > 1]
    return [path.rpartition("/")[2].partition("_")[0] for path in further]


@pytest.mark.parametrize("question", QUESTIONS)
def test_a_question_about_a_time_reads_the_columns_of_one_file_in_eight(question: str) -> None:
    history, storage = history_of(8, 50)
    assert QUESTIONS[question](history)
    assert len(read_further(storage)) <= 1
    assert storage.opened.total() <= 9


def test_the_content_of_an_instant_is_read_from_the_file_that_has_it() -> None:
    history, storage = history_of(8, 50)
    assert history.commit_metadata(committed(130)).extra_metadata == {WRITE_ID: "batch 130"}
    assert read_further(storage) == [time_of(200)]


def test_a_write_id_that_was_archived_is_read_from_the_file_that_has_it() -> None:
    history, storage = history_of(8, 50)
    (found,) = history.writes_under("batch 130")
    assert found == committed(130)
    assert read_further(storage) == [time_of(200)]


def test_questions_are_answered_as_they_are_from_the_whole_history() -> None:
    history, _ = history_of(8, 50)
    times, everything = history.completion_times(), history.instants()
    writes = {i.requested_time: i.completion_time for i in everything if i.action is Action.COMMIT}
    for number in (-1, 0, 1, 99, 100, 101, 420, 799, 800, 801, 900):
        at = time_of(max(number, 0))
        assert history.instants_at(at) == tuple(i for i in everything if i.requested_time == at)
        since = history.instants_since(at)
        assert {i for i in everything if (i.completion_time or "") >= at} <= set(since)
        assert times.completed_after(at) == {
            t: done for t, done in writes.items() if (done or "") > at
        }
        assert times.has_completed_by(at) == any((done or "~") <= at for done in writes.values())
    for action in Action:
        assert history.instants_of(action) == tuple(i for i in everything if i.action is action)
