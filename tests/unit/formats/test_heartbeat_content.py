from __future__ import annotations

import pytest

from tidelake.formats.heartbeat_content import HeartbeatContent, owner_of


@pytest.mark.parametrize("owner", ["", "3f0c"])
@pytest.mark.parametrize("shares", [True, False])
def test_what_is_written_is_read(shares: bool, owner: str) -> None:
    said = HeartbeatContent(writer="host:1", expires_ms=120_000, shares=shares, owner=owner)
    assert HeartbeatContent.decode(said.encode()) == said
    assert owner_of(said.encode()) == owner


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\xff\xfe",
        b"them",
        b"[]",
        b"{}",
        b"[" * 100_000,
        b'{"writer": 1, "expires_ms": 2}',
        b'{"writer": "w", "expires_ms": Infinity}',
        b'{"writer": "w", "expires_ms": 1e400}',
        b'{"writer": "w", "expires_ms": NaN}',
        b'{"writer": "w", "expires_ms": true}',
        b'{"writer": "w", "expires_ms": -1}',
        b'{"writer": "w", "expires_ms": 99999999999999999999}',
        b'{"writer": "w", "expires_ms": 2, "shares": "no"}',
        b'{"writer": "w", "expires_ms": 2, "owner": []}',
    ],
)
def test_what_another_program_wrote_says_nothing(data: bytes) -> None:
    assert HeartbeatContent.decode(data) is None
    assert owner_of(data) == ""
