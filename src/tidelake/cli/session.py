"""The Spark session of a verb that needs one, which ends at Ctrl-C without a word of Spark's."""

from __future__ import annotations

import logging
import signal
from contextlib import suppress
from threading import Thread
from types import FrameType

from pyspark import SparkContext
from pyspark.sql import SparkSession

from tidelake.spark.session.local_session import local_session

_INTERRUPTED_CALL = "while sending command"


def start_session(verb: str) -> SparkSession:
    """Start Spark for a verb, or take the session that is there."""
    # Py4J tells the root logger, with its stack, of every call that Ctrl-C ends.
    logging.getLogger().addFilter(_is_not_of_py4j)
    spark = local_session(f"tidelake {verb}")
    context = spark.sparkContext

    def interrupt(_signal: int, _frame: FrameType | None) -> None:
        # PySpark's own handler asks Java on the connection that waits for an answer, which fails
        # aloud.
        Thread(target=_cancel_jobs, args=(context,), daemon=True).start()
        raise KeyboardInterrupt

    with suppress(ValueError):  # only the main thread may set it
        signal.signal(signal.SIGINT, interrupt)
    return spark


def _is_not_of_py4j(record: logging.LogRecord) -> bool:
    return _INTERRUPTED_CALL not in str(record.msg)


def _cancel_jobs(context: SparkContext) -> None:
    with suppress(Exception):  # the process is about to end, and Java with it
        context.cancelAllJobs()
