"""Every question to every golden table, without Spark."""

from __future__ import annotations

from functools import partial

import pytest

from tests.conftest import Unpack
from tests.golden import harness
from tests.golden.harness import Verdict
from tests.golden.local_table import LocalTable


@pytest.mark.sampled(80)
@pytest.mark.parametrize("name", harness.names())
def test_answers_are_those_of_apache_hudi(name: str, golden_table: Unpack) -> None:
    golden, root = harness.load(name), golden_table(name)
    wrong = []
    for options in harness.settings(golden, root):
        for question in golden.questions:
            outcome = harness.judge(question, partial(LocalTable, str(root), options))
            if outcome.verdict is Verdict.DIFFERS:
                wrong.append(f"{question.label} {options}: {outcome.story}")
    assert not wrong, "\n".join(wrong)
