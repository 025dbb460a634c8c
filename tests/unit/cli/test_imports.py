"""What the command line imports: nobody waits for libraries that a verb does not use."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import Unpack
from tidelake.cli.verbs import VERBS, Verb

_HEAVY = ("pyspark", "py4j", "polars", "pandas", "sqlglot")
_PROGRAM = """
import json, sys
from tidelake.cli import main
try:
    code = main(sys.argv[1:])
except SystemExit as end:
    code = end.code
print(json.dumps([code, sorted(sys.modules)]), file=sys.stderr)
"""


def imported_by(*argv: str) -> set[str]:
    done = subprocess.run(
        [sys.executable, "-c", _PROGRAM, *argv], capture_output=True, text=True, check=True
    )
    code, modules = json.loads(done.stderr)
    assert code == 0
    return {name.partition(".")[0] for name in modules}


@pytest.mark.parametrize("argv", [["--help"], ["--version"], ["read", "--help"]])
def test_help_imports_no_library_of_data(argv: list[str]) -> None:
    assert not imported_by(*argv) & {*_HEAVY, "pyarrow", "numpy", "obstore", "fastavro"}


@pytest.mark.parametrize("verb", ["describe", "timeline", "slices", "schema", "stats"])
def test_facts_about_a_table_need_neither_spark_nor_polars(verb: str, golden_table: Unpack) -> None:
    table = golden_table("v9_mor_compaction_pending")
    assert not imported_by(verb, str(table)) & set(_HEAVY)


def test_a_log_file_is_shown_without_spark(golden_table: Unpack) -> None:
    log = next(Path(golden_table("v9_mor_compaction_pending")).rglob(".*.log.*"))
    assert not imported_by("log-file", str(log)) & set(_HEAVY)


def test_the_package_itself_imports_nothing_heavy_until_it_is_asked() -> None:
    program = (
        "import sys, tidelake; before = 'pyspark' in sys.modules; tidelake.Table;"
        "print(before, 'pyspark' in sys.modules, 'polars' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["False", "True", "False"]


@pytest.mark.parametrize("verb", VERBS, ids=lambda verb: verb.name)
def test_every_verb_is_carried_out_where_it_says(verb: Verb) -> None:
    assert callable(verb.run)
