from tidelake.storage.local import LocalStorage
from tidelake.storage.location import open_storage, spark_options, spark_path, storage_spec
from tidelake.storage.memory import MemoryStorage
from tidelake.storage.objects import ObjectStorage
from tidelake.storage.protocol import FileInfo, Folder, InProcessSpec, Storage, StorageSpec, Tagged
from tidelake.storage.sub import SubStorage

__all__ = [
    "FileInfo",
    "Folder",
    "InProcessSpec",
    "LocalStorage",
    "MemoryStorage",
    "ObjectStorage",
    "Storage",
    "StorageSpec",
    "SubStorage",
    "Tagged",
    "open_storage",
    "spark_options",
    "spark_path",
    "storage_spec",
]
