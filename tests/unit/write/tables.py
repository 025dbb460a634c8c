"""Tables and options for the tests of this room."""

from __future__ import annotations

from tidelake.config import TableConfig, WriteOptions
from tidelake.txn.protocol.create_table import TableSpec, table_properties

AVRO = (
    '{"type":"record","name":"t_record","namespace":"hoodie.t","fields":['
    '{"name":"id","type":["null","string"],"default":null},'
    '{"name":"name","type":["null","string"],"default":null},'
    '{"name":"ts","type":["null","long"],"default":null},'
    '{"name":"p","type":["null","string"],"default":null}]}'
)


def table(**settings: object) -> TableConfig:
    """Return a partitioned table with one key and one ordering column, changed by `settings`."""
    given = {
        "name": "t",
        "schema": AVRO,
        "record_key_fields": ("id",),
        "partition_fields": ("p",),
        "ordering_fields": ("ts",),
        **settings,
    }
    return TableConfig.from_properties(table_properties(TableSpec(**given)))  # type: ignore[arg-type]  # settings are of many types


def options(**given: str) -> WriteOptions:
    """Return options; names have `__` for a dot."""
    return WriteOptions.from_options({n.replace("__", "."): v for n, v in given.items()})
