"""Names of objects with tabs, newlines and other control characters are refused by name."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from tests.s3_server import BUCKET, client, s3_options, s3_server
from tidelake.errors import ConfigError, StorageError
from tidelake.storage import Storage, open_storage

ODD = ("a\tb", "a\nb", "a\rb", "a\0b", "a\x1fb", "a\x7fb")


@pytest.fixture(scope="module")
def options() -> Iterator[dict[str, str]]:
    with s3_server() as endpoint:
        yield s3_options(endpoint)


@pytest.mark.parametrize("name", ODD, ids=repr)
def test_in_the_address_of_a_table(options: dict[str, str], name: str) -> None:
    with pytest.raises(ConfigError) as refused:
        open_storage(f"s3a://lake/{name}/t", options)
    assert repr(f"s3a://lake/{name}/t") in str(refused.value)
    assert "control character" in str(refused.value)


CALLS: dict[str, Callable[[Storage, str], object]] = {
    "put": lambda storage, path: storage.put(path, b""),
    "put_if_absent": lambda storage, path: storage.put_if_absent(path, b""),
    "put_if_tagged": lambda storage, path: storage.put_if_tagged(path, b"", "tag"),
    "read": lambda storage, path: storage.read(path),
    "open": lambda storage, path: storage.open(path),
    "stat": lambda storage, path: storage.stat(path),
    "delete": lambda storage, path: storage.delete(path),
    "delete_all": lambda storage, path: storage.delete_all([path]),
}


#: Calls that say of a file whose name has a NUL, which is nowhere, that it is missing.
READS = ("read", "open", "stat")


@pytest.mark.parametrize(
    ("name", "call"),
    [(name, call) for name in ODD for call in CALLS if "\0" not in name or call not in READS],
)
def test_in_the_name_of_a_file(options: dict[str, str], name: str, call: str) -> None:
    """It is not said to be missing: it may be there."""
    storage = open_storage("s3a://lake/files", options)
    with pytest.raises(StorageError, match="control character") as refused:
        CALLS[call](storage, f"city={name}/f")
    assert refused.value.is_refusal
    assert repr(f"city={name}/f") in str(refused.value)


LISTS: dict[str, Callable[[Storage], object]] = {
    "list": lambda storage: storage.list("d"),
    "files_below": lambda storage: storage.files_below(""),
    "exists": lambda storage: storage.exists("d"),
    "delete_folder": lambda storage: storage.delete_folder("d"),
}


@pytest.mark.parametrize("call", LISTS)
def test_in_a_listing(options: dict[str, str], call: str) -> None:
    """An object that another tool made is passed over by no list."""
    client(options["fs.s3a.endpoint"]).put_object(
        Bucket=BUCKET, Key=f"{call}/d/city=a\tb/f.parquet", Body=b"1"
    )
    storage = open_storage(f"s3a://lake/{call}", options)
    with pytest.raises(StorageError, match="control character") as refused:
        LISTS[call](storage)
    assert "city=a\\tb" in str(refused.value)
    assert "another name" in refused.value.next_step
