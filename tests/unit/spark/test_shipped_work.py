"""Work on its way to a worker, and to one that cannot begin it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pyarrow as pa
import pytest
from py4j.protocol import Py4JError
from pyspark import cloudpickle

from tidelake.errors import TidelakeError
from tidelake.spark.workers.worker_errors import worker_errors
from tidelake.spark.workers.worker_process import Batches, shipped, use_own_interpreter
from tidelake.spark.workers.workers import to_ipc

#: A worker's Python that has everything but tidelake, and the work that it gets.
_WORKER = """
import pickle, sys

class Lacking:
    def find_spec(self, name, path=None, target=None):
        if name == "tidelake":
            raise ModuleNotFoundError("No module named 'tidelake'", name="tidelake")

sys.meta_path.insert(0, Lacking())
work = pickle.loads(open(sys.argv[1], "rb").read())
list(work(iter([])))
"""


def with_ours(batches: Batches) -> Batches:
    for batch in batches:
        to_ipc(pa.Table.from_batches([batch]))
        yield batch


def test_work_arrives_as_it_was_sent() -> None:
    batch = pa.RecordBatch.from_pydict({"id": [1]})
    assert list(shipped(with_ours)(iter([batch]))) == [batch]


def test_a_worker_without_tidelake_says_so_and_what_to_do(tmp_path: Path) -> None:
    def run(batches: Batches) -> Batches:
        return with_ours(batches)

    sent = tmp_path / "work"
    sent.write_bytes(cloudpickle.dumps(shipped(run)))  # type: ignore[no-untyped-call]
    program = [sys.executable, "-c", _WORKER, str(sent)]
    done = subprocess.run(program, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    with pytest.raises(TidelakeError, match="not installed for the Python of Spark") as told:  # noqa: SIM117 - one is about the other
        with worker_errors():
            raise Py4JError(f"Job aborted.\n{done.stderr}")
    assert sys.executable in told.value.problem
    assert "set PYSPARK_PYTHON" in told.value.next_step


@pytest.mark.parametrize("module", ["tidelake", "pyarrow", "polars"])
def test_a_worker_without_what_tidelake_needs_is_told_the_same(module: str) -> None:
    said = f"PythonException: ...\nModuleNotFoundError: No module named '{module}'\n"
    with pytest.raises(TidelakeError, match=f"{module}.*is missing") as told:  # noqa: SIM117
        with worker_errors():
            raise Py4JError(said)
    assert "set PYSPARK_PYTHON" in told.value.next_step


def test_modules_of_other_people_are_not_ours_to_speak_of() -> None:
    with pytest.raises(Py4JError, match="acme"), worker_errors():
        raise Py4JError("ModuleNotFoundError: No module named 'acme'")


@pytest.mark.parametrize(
    ("master", "setting", "variable", "wanted"),
    [
        ("local[*]", None, None, sys.executable),
        ("local", None, None, sys.executable),
        ("local[2]", "/other/python", None, "python3"),
        ("local[2]", None, "/other/python", "python3"),
        ("spark://host:7077", None, None, "python3"),
        ("local-cluster[2,1,1024]", None, None, "python3"),
    ],
)
def test_workers_of_a_local_session_run_the_drivers_python_unless_another_is_chosen(
    master: str,
    setting: str | None,
    variable: str | None,
    wanted: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("PYSPARK_PYTHON", raising=False)
    if variable is not None:
        monkeypatch.setenv("PYSPARK_PYTHON", variable)
    settings = {} if setting is None else {"spark.pyspark.python": setting}
    context = SimpleNamespace(master=master, pythonExec="python3", getConf=lambda: settings)
    use_own_interpreter(cast("Any", SimpleNamespace(sparkContext=context)))
    assert context.pythonExec == wanted


def test_a_session_without_a_context_is_left_alone() -> None:
    use_own_interpreter(cast("Any", SimpleNamespace()))
