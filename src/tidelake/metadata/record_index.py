"""The record index: in which file group each key is."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timezone

from tidelake.config import TableConfig
from tidelake.formats.index_definitions import IndexDefinition
from tidelake.metadata.names import RECORD_INDEX

#: Table version from which tasks can write to the index side by side.
_FIRST_KEPT = 8
_DIGITS = 17


def is_index_kept(config: TableConfig, definitions: Mapping[str, IndexDefinition]) -> bool:
    """Return whether writes keep the index that the table has: not one for each partition apart."""
    definition = definitions.get(RECORD_INDEX)
    return (
        RECORD_INDEX in config.metadata_partitions
        and config.table_version >= _FIRST_KEPT
        and (definition is None or definition.index_options.get("isPartitioned") != "true")
    )


def epoch_ms(instant_time: str, *, is_utc: bool) -> int:
    """Return an instant's time in milliseconds since the epoch."""
    padded = instant_time[:_DIGITS].ljust(_DIGITS, "0")
    moment = datetime.strptime(f"{padded[:14]}+0000", "%Y%m%d%H%M%S%z")
    if not is_utc:
        # What Hudi calls LOCAL: the zone of the process.
        moment = moment.replace(tzinfo=None).astimezone(timezone.utc)
    return int(moment.timestamp()) * 1000 + int(padded[14:])
