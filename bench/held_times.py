"""How long tidelake says that it held the table's lock."""

from __future__ import annotations

import logging


class HeldTimes(logging.Handler):
    """Takes down how long tidelake says that it held the lock, a number a commit."""

    def __init__(self) -> None:
        super().__init__(logging.DEBUG)
        self.seen: list[int] = []
        logger = logging.getLogger("tidelake.txn.protocol.transaction")
        logger.setLevel(logging.DEBUG)
        logger.addHandler(self)
        logger.propagate = False

    def emit(self, record: logging.LogRecord) -> None:
        """Take the number down."""
        if record.levelno == logging.DEBUG and isinstance(record.args, tuple):
            self.seen.append(int(str(record.args[-1])))
