"""Jars of the other engines, downloaded once into the user's cache and held to their hashes."""

from __future__ import annotations

import hashlib
import os
import urllib.request
from pathlib import Path

_REPOSITORIES = (
    "https://repo1.maven.org/maven2",
    "https://maven-central.storage.googleapis.com/maven2",
    "https://repo.maven.apache.org/maven2",
)
_ROUNDS = 3
#: How long a repository may say nothing.
_PATIENCE_S = 20


class JarUnavailableError(Exception):
    """No repository gave the jar with the bytes we pinned."""


def download(path: str, sha256: str) -> Path:
    """Return the jar at this path of Maven Central.

    Downloaded by Python, not by Spark's own resolver, so that proxies and certificates of the
    environment apply and no Maven is needed.
    """
    cache = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "tidelake" / "jars"
    jar = cache / Path(path).name
    if jar.exists() and _sha256(jar.read_bytes()) == sha256:
        return jar
    cache.mkdir(parents=True, exist_ok=True)
    causes = []
    for repository in _REPOSITORIES * _ROUNDS:
        try:
            with urllib.request.urlopen(f"{repository}/{path}", timeout=_PATIENCE_S) as reply:
                data = reply.read()
        except OSError as error:
            causes.append(f"{repository}: {error}")
            continue
        if _sha256(data) == sha256:
            part = jar.with_name(f"{jar.name}.{os.getpid()}")
            part.write_bytes(data)
            part.replace(jar)  # a reader beside us never sees half a jar
            return jar
        causes.append(f"{repository}: the bytes do not have the pinned hash")
    raise JarUnavailableError(
        f"{jar.name} could not be downloaded: {'; '.join(causes[: len(_REPOSITORIES)])}. "
        "Check the network."
    )


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
