from __future__ import annotations

import pytest

from tidelake.model.byte_size import byte_size_text


@pytest.mark.parametrize(
    ("size_bytes", "shown"),
    [(0, "0 B"), (1023, "1023 B"), (1024, "1.0 KiB"), (1536, "1.5 KiB"), (5 << 30, "5.0 GiB")],
)
def test_sizes_have_units(size_bytes: int, shown: str) -> None:
    assert byte_size_text(size_bytes) == shown
