"""Errors of ours that Spark's workers raised: text inside an exception of Spark's."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from tidelake.errors import TidelakeError
from tidelake.spark.workers.worker_process import INSTALL, LACKING

_OURS = re.compile(
    rf"^(?:Caused by: )?(?:tidelake\.errors\.\w+: |ModuleNotFoundError: (?={LACKING}))"
    r"(.+)\n  next: (.+)$",
    re.MULTILINE,
)

_MISSING = re.compile(
    r"ModuleNotFoundError: No module named '(tidelake|pyarrow|polars|numpy|fastavro|obstore|pandas)"
)


@contextmanager
def worker_errors() -> Iterator[None]:
    """Raise the error of ours that made an action inside the block fail, if one did."""
    try:
        yield
    except (PySparkException, Py4JError) as cause:
        found = _OURS.search(str(cause))
        if found is not None:
            raise TidelakeError(found[1], next_step=found[2]) from cause
        missing = _MISSING.search(str(cause))
        if missing is None:
            raise
        raise TidelakeError(
            f"{missing[1]}, which tidelake needs, is missing for the Python of Spark's workers",
            next_step=INSTALL,
        ) from cause
