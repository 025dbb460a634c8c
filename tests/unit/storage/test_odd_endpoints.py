from __future__ import annotations

import pytest

from tidelake.errors import ConfigError
from tidelake.storage import open_storage


@pytest.mark.parametrize(
    "endpoint",
    ["", "http://", "::::", "http://a b", "http://[::1", "http://x:99999", "http://x\0y", "\u00e9"],
)
def test_an_endpoint_that_is_no_address_is_refused(endpoint: str) -> None:
    with pytest.raises(ConfigError, match="endpoint"):
        open_storage("s3://b/t", {"aws_endpoint": endpoint})


@pytest.mark.parametrize("endpoint", ["http://me:s3cr3t@h:1", "http://me:s3/cr3t@h:1", "a:cr3t@h"])
def test_credentials_in_an_endpoint_are_not_shown(endpoint: str) -> None:
    with pytest.raises(ConfigError, match="endpoint") as refused:
        open_storage("s3://b/t", {"aws_endpoint": endpoint})
    assert "cr3t" not in str(refused.value)


@pytest.mark.parametrize("endpoint", ["http://localhost:9000", "https://[::1]:9000/", "a.b:80"])
def test_addresses_of_servers(endpoint: str) -> None:
    open_storage("s3://b/t", {"aws_endpoint": endpoint})
