"""The versions of the schema of a table with schema on read."""

from __future__ import annotations

from collections.abc import Callable

from tidelake.config import TableConfig
from tidelake.errors import reading
from tidelake.formats import schema_history
from tidelake.formats.instant_name import InstantName
from tidelake.formats.schema_history import InternalSchema
from tidelake.model import Action, State
from tidelake.storage import Storage

SCHEMA_FOLDER = ".hoodie/.schema"


def load_schema_history(
    storage: Storage, config: TableConfig, is_committed: Callable[[str], bool]
) -> tuple[InternalSchema, ...]:
    """Return every version of the schema, oldest first; empty for a table without schema on read.

    The newest file counts whose commit took effect: a failed change of the schema leaves its file
    behind.
    """
    candidates = {}
    for file in storage.list(SCHEMA_FOLDER).files:
        name = InstantName.parse(file.name, config.layout_version)
        if name is None or (name.action, name.state) != (Action.SCHEMACOMMIT, State.COMPLETED):
            continue
        time = name.requested_time
        if file.size_bytes and is_committed(time):
            candidates[time] = file.name
    if not candidates:
        return ()
    path = f"{SCHEMA_FOLDER}/{candidates[max(candidates)]}"
    data = storage.read(path)
    with reading(path):
        return schema_history.decode(data)
