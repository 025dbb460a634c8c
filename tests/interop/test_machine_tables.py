"""Apache Hudi reads the tables that random sequences over all doors leave."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.interop.apache_hudi import VERSION
from tests.interop.shared_table import TALLY
from tests.machine.rows import values

REPOSITORY = Path(__file__).parents[2]
WRITER = REPOSITORY / ".venv" / "bin" / "python"
SEED = int(os.environ.get("TIDELAKE_SEED", "0"))
TABLES = int(os.environ.get("TIDELAKE_TABLES", "100"))
#: Files are left out by statistics, or listed and read as they are.
WAYS: tuple[Mapping[str, str], ...] = (
    {},
    {"hoodie.metadata.enable": "true", "hoodie.enable.data.skipping": "true"},
)

pytestmark = [
    pytest.mark.interop,
    pytest.mark.timeout(7200),
    pytest.mark.skipif(VERSION != "1.2.0", reason="the release that reads every table version"),
    pytest.mark.skipif(not WRITER.exists(), reason="the writer needs `make setup`"),
]


def test_apache_reads_what_random_sequences_leave(hudi_spark: SparkSession, tmp_path: Path) -> None:
    command = [str(WRITER), "-m", "tests.machine.ahead", str(tmp_path), str(SEED), str(TABLES)]
    subprocess.run(command, cwd=REPOSITORY, check=True)
    wrong = []
    for left in sorted(tmp_path.glob("*.json")):
        owed = json.loads(left.read_text())
        TALLY.tables += 1
        for way in WAYS:
            TALLY.answers += 1
            story = _differs(hudi_spark, left.with_suffix(""), owed, way)
            if story:
                wrong.append(f"{owed['told']}\n  {way}: {story}")
    TALLY.differences += wrong
    assert not wrong, "\n".join(wrong)


def _differs(
    spark: SparkSession, root: Path, owed: Mapping[str, Any], way: Mapping[str, str]
) -> str | None:
    names: list[str] = owed["columns"]
    # Apache looks for files by its filters, so one that every row meets leaves none of them out.
    condition = "n IS NULL OR n > -100" if way else "true"
    try:
        frame = spark.read.format("hudi").options(**way).load(str(root)).where(condition)
        found = [row.asDict(recursive=True) for row in frame.select(*names).collect()]
    except Exception as error:  # noqa: BLE001 - whatever a reader says is its answer
        return f"{type(error).__name__}: {' '.join(str(error).split())[:400]}"
    made = values([_in_utc(row) for row in found], names)
    # What was owed went through JSON, which knows no tuples.
    if json.loads(json.dumps(made)) == owed["rows"]:
        return None
    got = json.loads(json.dumps(made))
    missing = [row for row in owed["rows"] if row not in got]
    extra = [row for row in got if row not in owed["rows"]]
    return f"{len(got)} rows for {len(owed['rows'])}; missing {missing[:3]}, extra {extra[:3]}"


def _in_utc(row: Mapping[str, Any]) -> Mapping[str, Any]:
    # A session in UTC gives times without a zone, as this machine's clock shows them.
    return {n: v.astimezone() if isinstance(v, datetime) else v for n, v in row.items()}
