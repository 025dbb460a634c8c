from __future__ import annotations

from tidelake.formats.marker_name import MarkerKind, marker_folder, marker_path
from tidelake.storage import MemoryStorage
from tidelake.txn.liveness.markers import delete_strays

OURS, THEIRS = "20260101000000001", "20260101000000000"


def test_a_marker_makes_no_base_file_of_another_write_and_no_properties_go() -> None:
    stray, other = f"p/aa-0_1-2-3_{OURS}.parquet", f"p/aa-0_1-2-3_{THEIRS}.parquet"
    paths = (stray, other, ".hoodie/hoodie.properties")
    storage = MemoryStorage(dict.fromkeys(paths, b""))
    for path in paths:
        storage.put(marker_path(marker_folder(OURS), path, MarkerKind.CREATE), b"")
    assert delete_strays(storage, OURS, wanted=()) == [stray]
    assert storage.stat(other) is not None
    assert storage.stat(".hoodie/hoodie.properties") is not None
