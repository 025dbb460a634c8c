"""Golden tables, compacted by us, still give Apache Hudi's answers."""

from __future__ import annotations

import shutil
from functools import partial
from pathlib import Path

import pytest

from tests.conftest import Unpack
from tests.golden import harness
from tests.golden.harness import Refusal, Verdict
from tests.golden.local_table import LocalTable
from tidelake.config import WriteOptions
from tidelake.env import Env
from tidelake.model import Action
from tidelake.operations.compaction_run import Compactor
from tidelake.operations.open_table import load_state, open_state
from tidelake.operations.task_runner import Here
from tidelake.storage import open_storage

MERGED = [n for n in harness.names() if harness.load(n).table_type == "MERGE_ON_READ"]
#: Tables all of whose logs a pending clustering has spoken for.
SPOKEN_FOR = {"v8_mor_clustering_inflight", "v9_mor_clustering_inflight"}


@pytest.mark.sampled(20)
@pytest.mark.slow
@pytest.mark.parametrize("name", MERGED)
def test_a_compaction_changes_no_answer(name: str, golden_table: Unpack, tmp_path: Path) -> None:
    golden = harness.load(name)
    root = tmp_path / "table"
    shutil.copytree(golden_table(name), root)
    env = Env(open_storage(str(root)))
    options = {**golden.options, "hoodie.clean.automatic": "false"}
    compactor = Compactor(
        env,
        lambda: load_state(env.storage, options),
        WriteOptions.from_options(options),
        Here(),
    )
    is_logged = any(piece.log_files for piece in load_state(env.storage, {}).view.latest_slices())
    commit = compactor.both()
    assert (commit is not None) == (is_logged and name not in SPOKEN_FOR)
    after = open_state(str(root), golden.options)
    assert not [i for i in after.timeline.pending if i.planned_as is Action.COMPACTION]
    wrong = []
    for question in golden.questions:
        # Base files hold more than before, and once a failed write is rolled back, queries that it
        # stood in the way of are answered.
        if question.kind == "read_optimized" or isinstance(question.apache, Refusal):
            continue
        outcome = harness.judge(question, partial(LocalTable, str(root), golden.options))
        if outcome.verdict is Verdict.DIFFERS:
            wrong.append(f"{question.label}: {outcome.story}")
    assert not wrong, "\n".join(wrong)
