from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.golden import harness
from tests.golden.harness import REFUSAL, Fault, Question, Verdict
from tidelake.errors import TimeTravelError


class Rows:
    """Stands in for a DataFrame."""

    def __init__(self, *rows: str) -> None:
        self.rows = rows

    def toJSON(self) -> Rows:  # noqa: N802 - Spark's name
        return self

    def collect(self) -> list[str]:
        return list(self.rows)


class OneAnswer:
    """A table that knows one answer."""

    def __init__(self, answer: Callable[[], Rows]) -> None:
        self.answer = answer

    def read(self, *, as_of: str | None = None) -> Rows:
        assert as_of is None
        return self.answer()

    def read_optimized(self) -> Rows:
        return self.answer()

    def incremental(self, *, start: str | None = None, end: str | None = None) -> Rows:
        assert start or end
        return self.answer()

    changes = incremental


def verdict(question: Question, answer: Callable[[], Rows]) -> Verdict:
    return harness.judge(question, lambda: OneAnswer(answer)).verdict


def refuse() -> Rows:
    raise TimeTravelError("cleaned", next_step="ask for a later time")


def crash() -> Rows:
    raise KeyError("id")


ONE = Question(kind="snapshot", apache=[{"id": 1, "fare": 2.50, "note": None}])


def test_rows_are_compared_by_value_in_any_order_and_spelling() -> None:
    both = Question(kind="snapshot", apache=[{"id": 1, "n": 2.0}, {"id": 2, "n": None}])
    assert verdict(both, lambda: Rows('{"id":2}', '{"n":2,"id":1}')) is Verdict.SAME


def test_a_row_given_twice_is_a_difference() -> None:
    assert verdict(ONE, lambda: Rows('{"id":1,"fare":2.5}')) is Verdict.SAME
    assert verdict(ONE, lambda: Rows(*['{"id":1,"fare":2.5}'] * 2)) is Verdict.DIFFERS


def test_only_an_error_of_ours_answers_a_refusal() -> None:
    refused = Question(kind="snapshot", apache=REFUSAL)
    assert verdict(refused, refuse) is Verdict.SAME
    assert verdict(refused, crash) is Verdict.DIFFERS
    assert verdict(refused, lambda: Rows()) is Verdict.DIFFERS


def test_an_error_never_answers_a_question_that_has_rows() -> None:
    assert verdict(ONE, refuse) is Verdict.DIFFERS


def test_a_listed_fault_owes_the_mended_rows_and_no_longer_those_of_apache() -> None:
    fault = Fault(reason="encoded", values={"note": {"a%2Fb": "a/b"}})
    question = Question(kind="snapshot", apache=[{"id": 1, "note": "a%2Fb"}], fault=fault)
    assert verdict(question, lambda: Rows('{"id":1,"note":"a/b"}')) is Verdict.BETTER
    assert verdict(question, lambda: Rows('{"id":1,"note":"a%2Fb"}')) is Verdict.DIFFERS


def test_a_fault_can_take_rows_away_and_add_others() -> None:
    fault = Fault(reason="stale", remove=[{"id": 1}], add=[{"id": 3}])
    question = Question(kind="snapshot", apache=[{"id": 1}, {"id": 2}], fault=fault)
    assert verdict(question, lambda: Rows('{"id":2}', '{"id":3}')) is Verdict.BETTER
    with pytest.raises(ValueError, match="did not give"):
        fault.mend([{"id": 2}])


def test_change_rows_compare_their_images_without_meta_columns() -> None:
    texts: list[harness.Row] = [
        {"op": "i", "ts_ms": "1", "before": None, "after": '{"_hoodie_record_key":"k","id":1}'},
        {"op": "i", "ts_ms": "1", "before": "null", "after": '{"id": 1}'},
    ]
    assert harness.canonical(texts[:1]) == harness.canonical(texts[1:])


def test_every_table_has_questions_and_all_of_them_are_counted() -> None:
    loaded = [harness.load(name) for name in harness.names()]
    assert (len(loaded), sum(len(golden.questions) for golden in loaded)) == (170, 1580)
    assert all(
        len({question.label for question in golden.questions}) == len(golden.questions)
        for golden in loaded
    )


def test_unpacking_restores_modification_times_to_the_millisecond(tmp_path: Path) -> None:
    golden = harness.load("v6_cow_occ")
    root = harness.unpack(golden, tmp_path)
    assert golden.mtimes_ms
    for name, modified_ms in golden.mtimes_ms.items():
        assert (root / name).stat().st_mtime_ns == modified_ms * 1_000_000


def test_settings_cover_both_listings_and_both_merges(tmp_path: Path) -> None:
    golden = harness.load("v6_mor_mdt_full")
    root = harness.unpack(golden, tmp_path)
    pairs = [
        (s["hoodie.metadata.enable"], s["hoodie.read.merge.path"])
        for s in harness.settings(golden, root)
    ]
    assert pairs == [("true", "mask"), ("false", "rows")]
    assert len(harness.settings(golden, root, cross=True)) == 4
