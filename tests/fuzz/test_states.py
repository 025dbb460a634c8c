"""Tables in random states: the right rows, an error of ours, or a word that they may be wrong."""

from __future__ import annotations

import pytest

from tests.fuzz.cases import Case, Report, run
from tests.fuzz.next_action import attempt_next_action
from tests.fuzz.own_tables import OWN
from tests.fuzz.states import attempt_state
from tests.fuzz.test_tables import TABLES


def cases(per_table: int, first_seed: int) -> list[Case]:
    """Return as many states of each table, Apache Hudi's and ours."""
    return [
        Case(table, "", first_seed + i, whole=True)
        for table in (*TABLES, *OWN)
        for i in range(per_table)
    ]


def next_actions(seeds: range) -> list[Case]:
    """Return tables of seeded histories that are damaged, and acted on."""
    return [Case("simulated", "", seed, whole=True) for seed in seeds]


def check(report: Report) -> None:
    assert not report.failures, f"{len(report.failures)} failures\n" + "\n".join(
        report.failures[:5]
    )
    assert report.ends["refused"], report.ends
    assert report.ends["same rows"], report.ends


@pytest.mark.deep
def test_tables_in_random_states() -> None:
    check(run(cases(per_table=4, first_seed=0), attempt_state))


@pytest.mark.fuzz
@pytest.mark.timeout(7200)
def test_thousands_of_tables_in_random_states() -> None:
    check(run(cases(per_table=260, first_seed=1000), attempt_state))


def check_actions(report: Report) -> None:
    assert not report.failures, f"{len(report.failures)} failures\n" + "\n".join(
        report.failures[:5]
    )
    assert report.ends["refused"], report.ends
    assert report.ends["landed, right rows"], report.ends


def test_the_next_action_on_damaged_tables() -> None:
    check_actions(run(next_actions(range(400)), attempt_next_action))


@pytest.mark.fuzz
@pytest.mark.timeout(7200)
def test_thousands_of_actions_on_damaged_tables() -> None:
    check_actions(run(next_actions(range(1000, 21_000)), attempt_next_action))
