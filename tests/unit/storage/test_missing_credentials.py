from __future__ import annotations

from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread

import pytest
from typing_extensions import override

from tidelake.errors import StorageError
from tidelake.storage import open_storage


class Refuses(BaseHTTPRequestHandler):
    def do_PUT(self) -> None:
        self.send_response(403)
        self.end_headers()

    do_GET = do_PUT  # noqa: N815 - as http.server calls it

    @override
    def log_message(self, format: str, *args: object) -> None:
        del format, args


@pytest.fixture
def machine() -> Iterator[str]:
    """Return where a machine without credentials answers those who ask for some."""
    with HTTPServer(("127.0.0.1", 0), Refuses) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def test_no_credentials_is_said_as_such(machine: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_WEB_IDENTITY_TOKEN_FILE"):
        monkeypatch.delenv(name, raising=False)
    options = {"aws_region": "eu-north-1", "aws_metadata_endpoint": machine}
    storage = open_storage("s3://bucket/lake/trips", options)
    with pytest.raises(StorageError, match="no credentials are given") as told:
        storage.read(".hoodie/hoodie.properties")
    assert told.value.path == "s3://bucket/lake/trips/.hoodie/hoodie.properties"
    assert "fs.s3a.access.key" in told.value.next_step
    assert "127.0.0.1" not in str(told.value)
