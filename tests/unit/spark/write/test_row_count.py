from __future__ import annotations

import pyarrow as pa
import pytest

from tidelake.errors import SchemaError
from tidelake.files.write_task import CHECK, GROUP
from tidelake.records.schema import PARTITION_PATH
from tidelake.spark.write.incoming_rows import ODD
from tidelake.spark.write.row_count import Tally, _checked, tally
from tidelake.write.plan import Workload


def batch(*rows: tuple[str, str | None, int, bool | None, bool]) -> pa.RecordBatch:
    schema = pa.schema(
        [
            (PARTITION_PATH, pa.string()),
            (GROUP, pa.string()),
            (CHECK, pa.int64()),
            (ODD, pa.bool_()),
            ("_tidelake_problem_0", pa.bool_()),
        ]
    )
    columns = zip(*rows, strict=True) if rows else [()] * len(schema)
    return pa.RecordBatch.from_arrays(
        [pa.array(c, f.type) for c, f in zip(columns, schema, strict=True)], schema=schema
    )


def test_rows_are_counted_over_batches() -> None:
    found = tally(
        [
            batch(("p", "a", 1, False, False), ("p", None, 2, None, False)),
            batch(),
            batch(("p", "a", 4, True, False), ("q", "a", -1, False, True)),
        ],
        problems=1,
    )
    assert found.workload.counts == {("p", "a"): 2, ("p", None): 1, ("q", "a"): 1}
    assert found.workload.checksum == 1 ^ 2 ^ 4 ^ -1
    assert found.workload.oddly_hashed == 1
    assert found.wrong == (1,)


def test_a_task_without_rows_counts_none() -> None:
    assert tally([], problems=2) == Tally(workload=Workload(), wrong=(0, 0))


def test_what_tasks_counted_adds_up() -> None:
    one = Tally(workload=Workload(counts={("p", "a"): 2}, checksum=5), wrong=(0,))
    two = Tally(
        workload=Workload(counts={("p", "a"): 1, ("q", None): 3}, checksum=6, oddly_hashed=1),
        wrong=(0,),
    )
    assert _checked(["no key"], [one, two]) == Workload(
        counts={("p", "a"): 3, ("q", None): 3}, checksum=3, oddly_hashed=1
    )


def test_rows_that_may_not_be_written_are_counted_over_tasks() -> None:
    tallies = [Tally(workload=Workload(), wrong=(0, n)) for n in (1, 2)]
    with pytest.raises(SchemaError, match="3 rows have an empty key"):
        _checked(["no value", "an empty key"], tallies)
