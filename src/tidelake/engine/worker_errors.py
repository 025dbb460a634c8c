"""Errors of ours that Spark's workers raised: text inside an exception of Spark's."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from tidelake.errors import TidelakeError

_OURS = re.compile(r"^(?:Caused by: )?tidelake\.errors\.\w+: (.+)\n  next: (.+)$", re.MULTILINE)


@contextmanager
def worker_errors() -> Iterator[None]:
    """Raise the error of ours that made an action inside the block fail, if one did."""
    try:
        yield
    except (PySparkException, Py4JError) as cause:
        found = _OURS.search(str(cause))
        if found is None:
            raise
        raise TidelakeError(found[1], next_step=found[2]) from cause
