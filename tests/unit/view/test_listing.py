from __future__ import annotations

import os
from pathlib import Path

import pytest

from tidelake.errors import CorruptFileError
from tidelake.storage import LocalStorage
from tidelake.view import StorageListing

DATA = "aa-0_1-2-3_20260101000000000.parquet"


@pytest.mark.parametrize("name", [DATA, ".hoodie_partition_metadata"])
def test_a_partition_whose_name_is_no_text_is_refused(tmp_path: Path, name: str) -> None:
    folder = os.fsencode(tmp_path) + b"/p\xff"
    os.mkdir(folder)  # noqa: PTH102 - the name is bytes
    Path(os.fsdecode(folder), name).write_bytes(b"")
    with pytest.raises(CorruptFileError, match="no UTF-8"):
        StorageListing(LocalStorage(str(tmp_path))).partitions()


def test_files_and_folders_of_others_may_have_any_name(tmp_path: Path) -> None:
    (tmp_path / "p").mkdir()
    (tmp_path / "p" / DATA).write_bytes(b"")
    for name in (b"q\xff", b"q\xff/notes", b"p/.\xff_1.log.1_0-1-2"):
        path = os.fsencode(tmp_path) + b"/" + name
        if name.endswith(b"q\xff"):
            os.mkdir(path)  # noqa: PTH102 - the name is bytes
        else:
            Path(os.fsdecode(path)).write_bytes(b"")
    listing = StorageListing(LocalStorage(str(tmp_path)))
    assert listing.partitions() == ["p"]
