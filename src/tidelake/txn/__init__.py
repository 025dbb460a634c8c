from tidelake.formats.commit_metadata import WRITE_ID
from tidelake.txn.commits import completed_commit, find_commit
from tidelake.txn.create import TableSpec, create_table
from tidelake.txn.keeper import FileChanges, MetadataKeeper, NoMetadataTable, changes_of
from tidelake.txn.opening import begin
from tidelake.txn.planned import find_plan, schedule, take_over
from tidelake.txn.protocol import Outcome, Transaction
from tidelake.txn.rollback import failed_writes, roll_back_failed
from tidelake.txn.time import InstantTimes

__all__ = [
    "WRITE_ID",
    "FileChanges",
    "InstantTimes",
    "MetadataKeeper",
    "NoMetadataTable",
    "Outcome",
    "TableSpec",
    "Transaction",
    "begin",
    "changes_of",
    "completed_commit",
    "create_table",
    "failed_writes",
    "find_commit",
    "find_plan",
    "roll_back_failed",
    "schedule",
    "take_over",
]
