from tidelake.txn.create import TableSpec, create_table
from tidelake.txn.protocol import WRITE_ID, Outcome, Transaction, begin, find_commit
from tidelake.txn.rollback import failed_writes, roll_back_failed
from tidelake.txn.time import InstantTimes

__all__ = [
    "WRITE_ID",
    "InstantTimes",
    "Outcome",
    "TableSpec",
    "Transaction",
    "begin",
    "create_table",
    "failed_writes",
    "find_commit",
    "roll_back_failed",
]
