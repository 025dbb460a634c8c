from tidelake.view.listing import META_FOLDER, KnownFiles, Listing, StorageListing
from tidelake.view.missing_files import MissingFiles, refuse_missing_files
from tidelake.view.pending import clustered_groups, log_compacted_groups
from tidelake.view.slicing import (
    FileGroup,
    group_files,
    join_onto_base,
    slice_by_completion_time,
    slice_by_name,
)
from tidelake.view.table_view import AsOf, CommitTimes, Replacement, TableView, is_by

__all__ = [
    "META_FOLDER",
    "AsOf",
    "CommitTimes",
    "FileGroup",
    "KnownFiles",
    "Listing",
    "MissingFiles",
    "Replacement",
    "StorageListing",
    "TableView",
    "clustered_groups",
    "group_files",
    "is_by",
    "join_onto_base",
    "log_compacted_groups",
    "refuse_missing_files",
    "slice_by_completion_time",
    "slice_by_name",
]
