from __future__ import annotations

import pytest

from tidelake.config.options.write_options import WriteOptions
from tidelake.errors import StorageError, redacted


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("GET https://me:s3cr3t@host/p failed", "GET https://***@host/p failed"),
        ("https://me:a@b@host/p", "https://***@host/p"),
        ("https://h/p?sv=1&sig=abc%3D&x=2", "https://h/p?sv=1&sig=***&x=2"),
        ("https://h/p?X-Amz-Signature=abc", "https://h/p?X-Amz-Signature=***"),
        ("GET http://h/b/p%3FX-Amz-Signature%3Dabc/x", "GET http://h/b/p%3FX-Amz-Signature%3D***"),
        ("http://h/p%3Fa%3D1%26sig%3Dabc in 1 ms", "http://h/p%3Fa%3D1%26sig%3D*** in 1 ms"),
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
    lock = "hoodie.write.lock"
    dynamodb = {
        f"{lock}.provider": "DynamoDBBasedLockProvider",
        f"{lock}.dynamodb.table": "locks",
        f"{lock}.dynamodb.endpoint_url": "http://me:s3cr3t@host",
    }
    for given in ({"fs.s3a.secret.key": "s3cr3t"}, dynamodb):
        assert "s3cr3t" not in repr(WriteOptions.from_options(given))
