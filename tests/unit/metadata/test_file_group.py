from __future__ import annotations

import pytest

from tidelake.errors import CorruptFileError, Malformed, SnapshotLostError, StorageError
from tidelake.metadata.file_group import reading_metadata


def test_a_storage_that_fails_does_not_make_the_metadata_table_damaged() -> None:
    with pytest.raises(StorageError, match="timed out"), reading_metadata("files"):
        raise StorageError(".hoodie/metadata/files", "timed out")


def test_a_reader_that_others_overtook_may_begin_anew() -> None:
    overtaken = SnapshotLostError("the table moved on")
    with pytest.raises(SnapshotLostError), reading_metadata("files"):
        raise overtaken


def test_bytes_that_cannot_be_read_do() -> None:
    damaged = pytest.raises(CorruptFileError, match="metadata/files is damaged")
    with damaged, reading_metadata("files"):
        raise Malformed("no magic")
