"""What goes wrong while a base file is read is damage, or the storage's fault."""

from __future__ import annotations

import errno
import io

import pyarrow.parquet as pq
import pytest

from tidelake.errors import CorruptFileError, StorageError
from tidelake.files.base_file import readable


@pytest.mark.parametrize("number", [errno.EIO, errno.ESTALE, errno.ETIMEDOUT])
def test_a_network_that_fails_is_no_damage(number: int) -> None:
    with pytest.raises(StorageError, match=r"p/a\.parquet"), readable("p/a.parquet"):
        raise OSError(number, "the mount does not answer")


def test_bytes_that_are_no_parquet_are_damage() -> None:
    with pytest.raises(CorruptFileError), readable("p/a.parquet"):
        pq.ParquetFile(io.BytesIO(b"PAR1 or not, this is no file of that form"))
