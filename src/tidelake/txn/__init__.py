from tidelake.formats.commit_metadata import WRITE_ID
from tidelake.txn.metadata_keeper import FileChanges, MetadataKeeper, NoMetadataTable, changes_of
from tidelake.txn.protocol.begin import begin
from tidelake.txn.protocol.commits import completed_commit, find_commit
from tidelake.txn.protocol.create_table import TableSpec, create_table
from tidelake.txn.protocol.instant_times import InstantTimes
from tidelake.txn.protocol.plans import find_plan, schedule, take_over
from tidelake.txn.protocol.transaction import Outcome, Transaction
from tidelake.txn.rollback.rollback import failed_writes, roll_back_failed

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
