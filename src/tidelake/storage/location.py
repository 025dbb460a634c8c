"""Where a table lies: from what people type to a storage, and to the path Spark's readers take."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import timedelta
from functools import lru_cache
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from obstore.exceptions import BaseError
from obstore.store import GCSStore, S3Store, from_url

from tidelake.config.keys.read_keys import STORAGE_PREFIXES
from tidelake.errors import ConfigError
from tidelake.storage.local import LocalStorage
from tidelake.storage.objects import CONTROL_CHARACTER, ObjectStorage
from tidelake.storage.protocol import InProcessSpec, Storage, StorageSpec
from tidelake.storage.sub import SubStorage

if TYPE_CHECKING:
    from obstore.store import ObjectStore, RetryConfig

# Without a slash after the colon it is a folder with a colon in its name.
_URI = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):(//|(?=/))(.*)", re.DOTALL)

_SPELLINGS = {"s3": "s3", "s3a": "s3", "s3n": "s3", "gs": "gs"} | {
    scheme: scheme for scheme in ("az", "abfs", "abfss", "azure", "adl")
}

#: How the long names of buckets and access points begin, which have colons.
_RESOURCE_NAME = "arn:"

#: What Hadoop calls the settings of an S3 client, and what obstore calls them.
_HADOOP_S3 = {
    "fs.s3a.access.key": "aws_access_key_id",
    "fs.s3a.secret.key": "aws_secret_access_key",
    "fs.s3a.session.token": "aws_session_token",
    "fs.s3a.endpoint": "aws_endpoint",
    "fs.s3a.endpoint.region": "aws_region",
}

_ENDPOINT = re.compile(
    r"https?://([A-Za-z0-9._~-]+|\[[0-9A-Fa-f:.]+\])(:(?P<port>[0-9]{1,5}))?(/[!-~]*)?", re.ASCII
)
_LAST_PORT = 65535

# The library's own default keeps a wrong endpoint waiting for three minutes.
_RETRY: RetryConfig = {"max_retries": 5, "retry_timeout": timedelta(seconds=30)}


def open_storage(location: str | StorageSpec, options: Mapping[str, str] | None = None) -> Storage:
    """Return the storage at a path, URI or spec; raise `ConfigError` for a scheme nobody serves.

    Of `options` those of the storage are taken (`fs.s3a.*`, `aws_*`, `google_*`, `azure_*`); what
    they do not say comes from the environment of the process that reads.
    """
    spec = location if isinstance(location, StorageSpec) else storage_spec(location, options)
    if isinstance(spec, InProcessSpec):
        folder = spec.uri.removeprefix(spec.root.spec.uri.rstrip("/")).strip("/")
        return SubStorage(spec.root, folder) if folder else spec.root
    scheme = _scheme(spec.uri)
    if scheme is None:
        return LocalStorage(spec.uri)
    if scheme not in _SPELLINGS:
        raise _unreachable(spec.uri, scheme)
    return ObjectStorage(_object_store(spec), spec)


def storage_spec(uri: str, options: Mapping[str, str] | None = None) -> StorageSpec:
    """Return where `uri` points, in one spelling for every way to write it."""
    kept = {
        name.lower().removeprefix("spark.hadoop."): str(value)
        for name, value in (options or {}).items()
        if name.lower().startswith(STORAGE_PREFIXES)
    }
    found = _URI.fullmatch(uri)
    if found is None:
        return StorageSpec(uri, ())
    if found[1].lower() == "file":
        return StorageSpec(_local_path(uri, found[2], found[3]), ())
    scheme = _SPELLINGS.get(found[1].lower())
    if scheme is None:
        raise _unreachable(uri, found[1])
    bucket = found[3].partition("/")[0]
    if ":" in bucket and "@" in found[3] and not bucket.startswith(_RESOURCE_NAME):
        # Not even part of it is shown: a secret may hold any character.
        raise ConfigError(
            f"the address {scheme}://... of a table carries credentials",
            next_step="give them as options, such as fs.s3a.access.key and fs.s3a.secret.key, or "
            f"in the environment, and write {scheme}://BUCKET/PATH/TO/TABLE",
        )
    if not found[2] or not bucket or " " in bucket or not bucket.isprintable():
        raise ConfigError(
            f"{uri!r} names no bucket", next_step=f"write {scheme}://BUCKET/PATH/TO/TABLE"
        )
    if CONTROL_CHARACTER.search(found[3]):
        raise ConfigError(
            f"the address {uri!r} has a control character, such as a tab or a newline, which no "
            "name of an object may have",
            next_step=f"write {scheme}://BUCKET/PATH/TO/TABLE",
        )
    return StorageSpec(f"{scheme}://{found[3].rstrip('/')}", tuple(sorted(kept.items())))


def spark_path(spec: StorageSpec, relative: str) -> str:
    """Return the path under which Spark's own readers find the file `relative`.

    Spark takes what it is given for a glob pattern, so the characters of one are escaped.
    """
    scheme = _scheme(spec.uri)
    root = spec.uri.rstrip("/")
    if scheme is None:
        root = f"file:{root}"
    elif scheme == "s3":
        root = f"s3a{root[2:]}"
    path = f"{root}/{relative}" if relative else root
    return re.sub(r"([{}\[\]*?\\])", r"\\\1", path)


def spark_options(spec: StorageSpec) -> dict[str, str]:
    """Return the reader options with which Hadoop's file systems reach the storage as we do."""
    given = dict(spec.options)
    found = {name: given[ours] for name, ours in _HADOOP_S3.items() if ours in given}
    found |= {name: value for name, value in given.items() if name.startswith("fs.")}
    if "fs.s3a.endpoint" in found:
        # Ours never puts the bucket into the host name; servers other than Amazon's rarely take it.
        found.setdefault("fs.s3a.path.style.access", "true")
    if given.get("aws_skip_signature", "").lower() in ("1", "true"):
        found.setdefault(
            "fs.s3a.aws.credentials.provider",
            "org.apache.hadoop.fs.s3a.AnonymousAWSCredentialsProvider",
        )
    return found


def _scheme(uri: str) -> str | None:
    found = _URI.fullmatch(uri)
    return found[1].lower() if found else None


def _unreachable(uri: str, scheme: str) -> ConfigError:
    return ConfigError(
        f"tidelake does not reach {scheme}: in {uri}",
        next_step="use a local path or file:, s3://, s3a://, gs://, az:// or abfss://; "
        "mount other file systems, or copy the table",
    )


def _local_path(uri: str, slashes: str, rest: str) -> str:
    if slashes and not rest.startswith("/"):
        host, _, rest = rest.partition("/")
        if host.lower() not in ("", "localhost"):
            raise ConfigError(
                f"{uri} names a folder of another machine, {host}",
                next_step="write file:///PATH for a folder of this one",
            )
        rest = f"/{rest}"
    return rest  # as it stands, because Hadoop does not decode percent signs either


@lru_cache(maxsize=64)
def _object_store(spec: StorageSpec) -> ObjectStore:
    scheme, _, rest = spec.uri.partition("://")
    bucket, _, prefix = rest.partition("/")
    options = dict(spec.options)
    try:
        if scheme == "s3":
            return _s3(bucket, prefix, options)
        if scheme == "gs":
            config: Any = _config(options, "google_")
            return GCSStore(bucket, prefix=prefix or None, config=config, retry_config=_RETRY)
        config = _config(options, "azure_")
        url = f"{scheme}://{bucket}/{quote(prefix)}"
        return from_url(url, config=config, retry_config=_RETRY)
    except (BaseError, ValueError) as cause:
        raise ConfigError(
            f"no client for {spec.uri}: {str(cause).partition(chr(10))[0]}",
            next_step="check the storage options and the environment of the process",
        ) from cause


def _s3(bucket: str, prefix: str, options: dict[str, str]) -> ObjectStore:
    config: Any = {ours: options[name] for name, ours in _HADOOP_S3.items() if name in options}
    config |= _config(options, "aws_")
    endpoint = config.get("aws_endpoint")
    if endpoint is not None and "://" not in endpoint:
        secure = options.get("fs.s3a.connection.ssl.enabled", "true") == "true"
        config["aws_endpoint"] = f"{'https' if secure else 'http'}://{endpoint}"
    _refuse_odd_endpoint(config.get("aws_endpoint"))
    if "Anonymous" in options.get("fs.s3a.aws.credentials.provider", ""):
        config["aws_skip_signature"] = "true"
    return S3Store(
        bucket,
        prefix=prefix or None,
        config=config,
        client_options={"allow_http": True},
        retry_config=_RETRY,
    )


def _refuse_odd_endpoint(endpoint: str | None) -> None:
    """Refuse what the client would not survive the first request to."""
    found = None if endpoint is None else _ENDPOINT.fullmatch(endpoint)
    port = int(found["port"] or 0) if found else 0
    if endpoint is not None and (found is None or port > _LAST_PORT):
        # A secret may hold any character, so that where it ends cannot be told.
        shown = "that was given" if "@" in endpoint else repr(endpoint)
        raise ConfigError(
            f"the endpoint {shown} is no address of a server",
            next_step="write http://HOST:PORT or https://HOST:PORT",
        )


def _config(options: Mapping[str, str], prefix: str) -> dict[str, str]:
    return {name: value for name, value in options.items() if name.startswith(prefix)}
