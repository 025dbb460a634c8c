"""The S3 client against a server in this process."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.s3_server import client as s3_client
from tests.s3_server import s3_options, s3_server
from tidelake.errors import MissingFileError, StorageError
from tidelake.storage import Storage, open_storage

NAMES = ["a%2Fb", "a b", "key=ü", "12:30", "{x}[y]*?", "a\\b", "#", "100%", "日本", "~", "^", "a+b"]


@pytest.fixture(scope="module")
def options() -> Iterator[dict[str, str]]:
    with s3_server() as endpoint:
        yield s3_options(endpoint)


@pytest.fixture
def storage(options: dict[str, str], request: pytest.FixtureRequest) -> Storage:
    return open_storage(f"s3a://lake/a b%2Fc/{request.node.name}", options)


def test_names_are_taken_literally(storage: Storage) -> None:
    for name in NAMES:
        storage.put(f"{name}/{name}.bin", name.encode())
    assert list(storage.list("").folders) == sorted(NAMES)
    for name in NAMES:
        assert [file.name for file in storage.list(name).files] == [f"{name}.bin"]
        assert storage.read(f"{name}/{name}.bin") == name.encode()


def test_ranges_stop_at_the_end(storage: Storage) -> None:
    storage.put("a", b"0123456789")
    found = [storage.read_range("a", start, 4) for start in (0, 8, 10, 20)]
    assert found == [b"0123", b"89", b"", b""]
    with storage.open("a") as file:
        file.seek(-3, 2)
        assert file.read() == b"789"


def test_a_tag_has_one_heir(storage: Storage) -> None:
    storage.put("lock", b"first")
    tag = storage.read_tagged("lock").tag
    assert storage.put_if_tagged("lock", b"second", tag) is not None
    assert storage.put_if_tagged("lock", b"third", tag) is None
    assert storage.read("lock") == b"second"


def test_put_if_absent_keeps_the_first(storage: Storage) -> None:
    assert storage.put_if_absent("instant", b"ours")
    assert not storage.put_if_absent("instant", b"theirs")
    assert storage.read("instant") == b"ours"


def test_many_reads_in_order(storage: Storage) -> None:
    names = [f"f/{number}" for number in range(40)]
    for name in names:
        storage.put(name, name.encode())
    assert list(storage.read_many(names)) == [name.encode() for name in names]


def test_an_object_that_stands_for_a_folder_is_no_file(
    storage: Storage, options: dict[str, str]
) -> None:
    client = s3_client(options["fs.s3a.endpoint"])
    prefix = storage.spec.uri.removeprefix("s3://lake/")
    client.put_object(Bucket="lake", Key=f"{prefix}/folder/", Body=b"")
    client.put_object(Bucket="lake", Key=f"{prefix}/folder/a", Body=b"x")
    assert [file.name for file in storage.list("folder").files] == ["a"]
    assert list(storage.list("").folders) == ["folder"]


def test_what_is_missing(storage: Storage) -> None:
    assert not storage.exists("")
    assert storage.stat("gone") is None
    with pytest.raises(MissingFileError):
        storage.read("gone")


def test_a_missing_bucket_says_so(options: dict[str, str]) -> None:
    with pytest.raises(StorageError, match=r"s3://nowhere/t: The specified bucket does not exist"):
        open_storage("s3://nowhere/t", options).exists("")


def test_folders_of_any_name_go_with_all_below_them(storage: Storage) -> None:
    paths = sorted(f"t/{name}/{other}" for name in NAMES for other in NAMES)
    for path in paths:
        storage.put(path, b"")
    storage.put("tt/kept", b"")
    assert list(storage.files_below("t")) == paths
    storage.delete_folder("t")
    storage.delete_folder("t")
    assert storage.files_below("") == ["tt/kept"]
