"""Tables that are written to an S3 server hold what they hold on a local disk."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random  # noqa: TID251 - seeded

import pytest

from tests.s3_server import s3_options, s3_server
from tests.writes.cases import Case, RandomWrites
from tests.writes.hudi_rs import HudiRs
from tests.writes.model import Do, Model, values
from tests.writes.quick_writer import QuickWriter
from tests.writes.readers import OurReader
from tests.writes.staged_writer import batches
from tidelake.storage import open_storage

FOLDER = "a folder/with %2F and ü"


@pytest.fixture(scope="module")
def s3() -> Iterator[dict[str, str]]:
    """Return the options with which a server of this process is reached."""
    with s3_server() as endpoint:
        yield s3_options(endpoint)


SCRIPT = (
    Do.BULK_INSERT,
    Do.UPSERT,
    Do.DELETE,
    Do.INSERT,
    Do.INSERT_OVERWRITE,
    Do.UPSERT,
    Do.INSERT_OVERWRITE_TABLE,
)


@pytest.mark.parametrize(
    "case",
    [
        Case(version=9),
        Case(version=9, mor=True, index="BUCKET"),
        Case(version=8, mor=True, log_format="parquet"),
        Case(version=6, mor=True),
    ],
    ids=lambda case: case.name,
)
def test_two_readers_find_what_was_written(case: Case, s3: dict[str, str]) -> None:
    writer = QuickWriter(s3)
    model = Model(case.identity)
    writes = RandomWrites(case, Random(3))
    # hudi-rs takes a URL, in which blanks and percent signs are something else.
    for folder, is_plain in ((f"{FOLDER}/{case.name}", False), (case.name, True)):
        root = f"s3a://lake/{folder}"
        writer.create(root, case)
        model = Model(case.identity)
        for do in SCRIPT:
            step = writes.step(model, do)
            writer.write(root, case, step)
            model.apply(step)
            assert OurReader(root, s3).snapshot() == values(model.rows)
            if is_plain:
                assert HudiRs(root, s3).snapshot() == values(model.rows)


def test_a_dead_write_is_taken_back(s3: dict[str, str]) -> None:
    case = Case(version=9, mor=True)
    writer, root = QuickWriter(s3), "s3a://lake/dead"
    writer.create(root, case)
    model = Model(case.identity)
    writes = RandomWrites(case, Random(5))
    first = writes.step(model, Do.BULK_INSERT)
    writer.write(root, case, first)
    model.apply(first)
    dead = writes.step(model, Do.BULK_INSERT)
    writer.writer(root, case, dead).write(batches(case, dead))  # and no commit
    assert OurReader(root, s3).snapshot() == values(model.rows)
    second = writes.step(model, Do.UPSERT)
    writer.write(root, case, second)
    model.apply(second)
    assert OurReader(root, s3).snapshot() == HudiRs(root, s3).snapshot() == values(model.rows)
    found = open_storage(root, s3).files_below("")
    assert not [p for p in found if p.startswith((".hoodie/.temp/", ".hoodie/.heartbeat/"))]
