"""Apache Hudi reads random tables that tidelake wrote in an environment of its own."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.interop.apache_hudi import VERSION
from tests.interop.apache_reader import ApacheReader
from tests.interop.shared_table import TALLY
from tests.writes.cases import Case, case_for_apache
from tests.writes.model import COLUMNS, Row, values

REPOSITORY = Path(__file__).parents[2]
WRITER = REPOSITORY / ".venv" / "bin" / "python"
SEED = int(os.environ.get("TIDELAKE_SEED", "4"))
TABLES = int(os.environ.get("TIDELAKE_TABLES", "60"))
#: Versions that a release reads.
VERSIONS = {"1.2.0": (6, 8, 9), "1.0.2": (8,), "0.15.0": (6,)}[VERSION]

pytestmark = [
    pytest.mark.interop,
    pytest.mark.timeout(1800),
    pytest.mark.skipif(not WRITER.exists(), reason="the writer needs `make setup`"),
]


@pytest.mark.parametrize(
    "count", [pytest.param(8, marks=pytest.mark.sample), TABLES], ids=["sample", "all"]
)
def test_apache_reads_random_tables(count: int, hudi_spark: SparkSession, tmp_path: Path) -> None:
    command = [str(WRITER), "-m", "tests.writes.ahead", str(tmp_path), str(SEED), str(count)]
    subprocess.run(command, cwd=REPOSITORY, check=True)
    wrong = []
    for seed in range(SEED, SEED + count):
        case = case_for_apache(seed)
        if case.version not in VERSIONS:
            continue
        written = json.loads((tmp_path / f"{seed}.json").read_text())
        reader = ApacheReader(spark=hudi_spark, root=tmp_path / str(seed), case=case)
        TALLY.tables += 1
        for question in written["questions"]:
            TALLY.answers += 1
            story = _differs(reader, question, case)
            if story:
                wrong.append(f"TIDELAKE_SEED={seed} {written['told']}\n  {story}")
    TALLY.differences += wrong
    assert not wrong, "\n".join(wrong)


def _differs(reader: ApacheReader, question: dict[str, Any], case: Case) -> str | None:
    left_out = {json.dumps(key) for key in question["unsettled"]}

    def is_settled(row: Row) -> bool:
        return json.dumps(case.identity.of(row)) not in left_out if left_out else True

    owed = values(dict(zip(COLUMNS, row, strict=True)) for row in question["rows"])
    what = f"{question['kind']} {question['start']} {question['end']}"
    try:
        found = values(filter(is_settled, reader.ask(question)))
    except Exception as error:  # noqa: BLE001 - whatever a reader says is its answer
        return f"{what}: {type(error).__name__}: {' '.join(str(error).split())[:400]}"
    if found == owed:
        return None
    missing = [row for row in owed if row not in found]
    extra = [row for row in found if row not in owed]
    return f"{what}: {len(found)} rows for {len(owed)}; missing {missing[:3]}, extra {extra[:3]}"
