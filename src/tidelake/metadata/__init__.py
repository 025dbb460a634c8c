from tidelake.metadata.table import MetadataTable, unknown_writes

__all__ = ["MetadataTable", "unknown_writes"]
