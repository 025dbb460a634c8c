from __future__ import annotations

import pytest

from tidelake.config.write_options import WriteOptions
from tidelake.errors import StorageError, redacted


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("GET https://me:s3cr3t@host/p failed", "GET https://***@host/p failed"),
        ("https://me:a@b@host/p", "https://***@host/p"),
        ("https://h/p?sv=1&sig=abc%3D&x=2", "https://h/p?sv=1&sig=***&x=2"),
        ("https://h/p?X-Amz-Signature=abc", "https://h/p?X-Amz-Signature=***"),
        (
            "abfss://box@account.dfs.core.windows.net/t",
            "abfss://box@account.dfs.core.windows.net/t",
        ),
        ("s3://bucket/a@b:c@d", "s3://bucket/a@b:c@d"),
    ],
)
def test_addresses_are_shown_without_credentials(text: str, shown: str) -> None:
    assert redacted(text) == shown
    assert shown in str(StorageError("p", text))


def test_options_are_shown_without_what_was_given() -> None:
    options = WriteOptions.from_options({"fs.s3a.secret.key": "s3cr3t"})
    assert "s3cr3t" not in repr(options)
