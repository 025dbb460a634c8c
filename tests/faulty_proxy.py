"""An HTTP proxy in front of an object store that loses requests and replies when told to."""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socket import SO_LINGER, SOL_SOCKET
from threading import Lock, Thread
from types import TracebackType
from urllib.parse import unquote, urlsplit

from typing_extensions import Self, override

from tidelake.model import Word

#: Makes a socket that is closed reset its connection.
_RESET = struct.pack("ii", 1, 0)


_POLL_S = 0.01


class HttpFault(Word):
    """What becomes of a request."""

    LOST_BEFORE = "lost before"
    """The connection is reset before the request reaches the server."""
    LOST_AFTER = "lost after"
    """The server carries the request out, and the connection is reset before it can say so."""
    ERROR_AFTER = "500 after success"
    """The server carries the request out, and the client is told of an error."""
    LATE = "late arrival"
    """The connection is reset, and the request reaches the server when `deliver` is called."""
    SLOW_DOWN = "503 SlowDown"
    """The client is told that it asks too often."""
    CUT = "reset inside the reply"
    """The connection is reset behind the first half of the reply's body."""
    ENDED = "end inside the reply"
    """The connection ends behind the first half of the reply's body."""
    SHORT = "half a reply"
    """The first half of the reply's body comes as if it were all."""
    REFUSED = "refused"
    """The client is told that the request is forbidden."""


@dataclass(frozen=True, slots=True)
class Request:
    """One request as the client made it."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def changes(self) -> bool:
        """Return whether it may change what the server has."""
        return self.method in ("PUT", "DELETE", "POST")


Decide = Callable[[Request], "HttpFault | None"]


class FaultyProxy:
    """A proxy before `endpoint`; `fault` says what becomes of each request."""

    def __init__(self, endpoint: str, fault: Decide = lambda _: None) -> None:
        self._target = urlsplit(endpoint).netloc
        self.fault = fault
        self.requests: list[Request] = []
        self._held: list[Request] = []
        self._lock = Lock()
        proxy = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            # Head and body of a reply are two writes, of which the second would wait for the first.
            disable_nagle_algorithm = True

            @override
            def log_message(self, *_: object) -> None:  # the tests' output is not a log
                pass

            def pass_on(self) -> None:
                body = self.rfile.read(int(self.headers.get("content-length") or 0))
                path = unquote(self.path)
                request = Request(self.command, path, dict(self.headers.items()), body)
                proxy.answer(self, request, self.path)

            do_GET = do_PUT = do_POST = do_HEAD = do_DELETE = pass_on  # noqa: N815 - its words

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.endpoint = f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> Self:
        Thread(target=self._server.serve_forever, args=(_POLL_S,), daemon=True).start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._server.shutdown()
        self._server.server_close()

    def answer(self, handler: BaseHTTPRequestHandler, request: Request, raw_path: str) -> None:
        """Do with a request what `fault` says."""
        with self._lock:
            self.requests.append(request)
            fault = self.fault(request)
        held = Request(request.method, raw_path, request.headers, request.body)
        if fault is HttpFault.LATE:
            self._held.append(held)
        if fault in (HttpFault.LATE, HttpFault.LOST_BEFORE):
            return _reset(handler)
        if fault is HttpFault.REFUSED:
            return _say(handler, 403)
        if fault is HttpFault.SLOW_DOWN:
            return _say(handler, 503)
        status, headers, body = self._forward(held)
        if fault is HttpFault.LOST_AFTER:
            return _reset(handler)
        if fault is HttpFault.ERROR_AFTER:
            return _say(handler, 500)
        handler.send_response(status)
        for name, value in headers:
            if name.lower() not in ("transfer-encoding", "connection", "content-length"):
                handler.send_header(name, value)
        told = {name.lower(): value for name, value in headers}
        length = told.get("content-length") if request.method == "HEAD" else None
        half = body[: len(body) // 2]
        if fault is HttpFault.SHORT:
            body = half
        handler.send_header("content-length", length or str(len(body)))
        handler.end_headers()
        if fault in (HttpFault.CUT, HttpFault.ENDED):
            handler.wfile.write(half)
            handler.wfile.flush()
            if fault is HttpFault.CUT:
                return _reset(handler)
            handler.close_connection = True
            return None
        handler.wfile.write(body)
        return None

    def deliver(self) -> list[int]:
        """Let the late requests arrive; return the server's answers."""
        held, self._held = self._held, []
        return [self._forward(request)[0] for request in held]

    def _forward(self, request: Request) -> tuple[int, list[tuple[str, str]], bytes]:
        connection = HTTPConnection(self._target)
        connection.request(request.method, request.path, request.body or None, request.headers)
        reply = connection.getresponse()
        found = reply.status, reply.getheaders(), reply.read()
        connection.close()
        return found


def _reset(handler: BaseHTTPRequestHandler) -> None:
    handler.connection.setsockopt(SOL_SOCKET, SO_LINGER, _RESET)
    handler.connection.close()
    handler.close_connection = True


def _say(handler: BaseHTTPRequestHandler, status: int) -> None:
    handler.send_response(status)
    handler.send_header("content-length", "0")
    handler.end_headers()
