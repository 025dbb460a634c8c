from tidelake.metadata.table import MetadataTable

__all__ = ["MetadataTable"]
