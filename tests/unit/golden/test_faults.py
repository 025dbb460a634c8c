"""What is listed as a fault of Apache must show in Apache's own answers to other questions."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.golden import harness
from tests.golden.harness import Golden, Question, Refusal

WINDOWS = [
    (golden, question)
    for golden in map(harness.load, harness.faults())
    for question in golden.questions
    if question.kind == "incremental" and question.fault and not question.fault.owed_error
]


def witnesses(golden: Golden, accused: Question) -> Iterator[tuple[set[str], bool]]:
    """Return answers of Apache that show the table at the end of the window, or (False) later."""
    for question in golden.questions:
        if question.kind == "snapshot":
            is_at_end = accused.end is None
        elif question.kind == "as of" and accused.end is not None:
            if (question.as_of or "") < accused.end:
                continue
            is_at_end = question.as_of == accused.end
        elif (question.kind, question.start, question.end) == ("incremental", "000", accused.end):
            if question.fault is not None:
                continue
            is_at_end = True
        else:
            continue
        for answer in (question.apache, question.also):
            if answer is not None and not isinstance(answer, Refusal):
                yield set(harness.canonical(answer)), is_at_end


@pytest.mark.parametrize(
    ("golden", "question"), WINDOWS, ids=[f"{g.name} {q.label}" for g, q in WINDOWS]
)
def test_an_answer_of_apache_bears_witness(golden: Golden, question: Question) -> None:
    assert question.fault is not None
    assert not isinstance(question.apache, Refusal)
    given = set(harness.canonical(question.apache))
    owed = question.fault.mend(question.apache)
    assert not isinstance(owed, Refusal)
    right = set(harness.canonical(owed))
    wrong, missing = given - right, right - given
    assert wrong or missing

    def is_shown(witness: set[str], is_at_end: bool) -> bool:
        # Rows that are missing here may have been changed or deleted later on, but not all of them.
        there = missing <= witness if is_at_end else not missing or bool(missing & witness)
        return there and not wrong & witness

    assert any(is_shown(*found) for found in witnesses(golden, question))
