"""What hudi-rs finds in a table."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from hudi import HudiQueryType, HudiReadOptions, HudiTable, HudiTableBuilder

from tests.writes.cases import DROP_COLUMNS, Case
from tests.writes.model import Values, values
from tests.writes.readers import Reader, comparable

#: What Hadoop and hudi-rs call the settings of an S3 client.
_S3_SETTINGS = {
    "fs.s3a.access.key": "AWS_ACCESS_KEY_ID",
    "fs.s3a.secret.key": "AWS_SECRET_ACCESS_KEY",
    "fs.s3a.endpoint": "AWS_ENDPOINT_URL",
}


class HudiRs:
    """Reads with hudi-rs."""

    name = "hudi-rs"

    def __init__(self, root: Path | str, storage: Mapping[str, str] | None = None) -> None:
        """Take a table, and how Hadoop would reach its storage."""
        given = storage or {}
        reached = {ours: given[name] for name, ours in _S3_SETTINGS.items() if name in given}
        if reached:
            reached |= {"AWS_ALLOW_HTTP": "true", "AWS_REGION": "us-east-1"}
        builder = HudiTableBuilder.from_base_uri(str(root)).with_storage_options(reached)
        self._table: HudiTable = builder.build()

    def snapshot(self, as_of: str | None = None) -> list[Values]:
        """Return the rows, now or as of a time."""
        options = HudiReadOptions()
        return self._rows(options if as_of is None else options.with_as_of_timestamp(as_of))

    def base_files(self) -> list[Values]:
        """Return the rows of base files alone."""
        options = HudiReadOptions().with_hudi_option("hoodie.read.use.read_optimized.mode", "true")
        return self._rows(options)

    def incremental(self, start: str, end: str) -> list[Values]:
        """Return the rows that changed inside (start, end]."""
        options = HudiReadOptions().with_query_type(HudiQueryType.Incremental)
        return self._rows(options.with_start_timestamp(start).with_end_timestamp(end))

    def _rows(self, options: HudiReadOptions) -> list[Values]:
        return values(comparable(self._table.read(options)))


def hudi_rs_for(case: Case) -> list[Callable[[Path], Reader]]:
    """Return hudi-rs, unless its 0.5 is known not to read such a table as Apache does.

    It takes the types of partition fields, which version 6 does not keep, for their names, merges
    logs by the ordering field whatever the table's merge mode is, and refuses tables whose files
    leave out the partition columns.
    """
    is_beyond = (
        (case.keys.is_typed and case.version >= 8)
        or (case.mor and not case.by_event_time)
        or DROP_COLUMNS in dict(case.extra)
    )
    return [] if is_beyond else [HudiRs]
