from __future__ import annotations

import pytest

from tidelake.errors import Malformed
from tidelake.formats import partition_metadata
from tidelake.formats.partition_metadata import PartitionMetadata

#: As Hudi 0.15.0 wrote it.
RAW = (
    b"#partition metadata\n#Sun Jul 13 01:05:36 UTC 2025\n"
    b"commitTime=20250713010535797\npartitionDepth=1\n"
)


def test_file_of_hudi_comes_back_byte_for_byte() -> None:
    metadata = partition_metadata.decode(RAW)
    assert metadata == PartitionMetadata(commit_time="20250713010535797", partition_depth=1)
    assert partition_metadata.encode(metadata, "Sun Jul 13 01:05:36 UTC 2025") == RAW


@pytest.mark.parametrize("data", [b"", b"commitTime=1", b"commitTime=1\npartitionDepth=-1"])
def test_damage_is_malformed(data: bytes) -> None:
    with pytest.raises(Malformed):
        partition_metadata.decode(data)
