"""What every storage promises, asked of each of them."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from obstore.store import MemoryStore

from tidelake.errors import MissingFileError
from tidelake.storage import (
    LocalStorage,
    MemoryStorage,
    ObjectStorage,
    Storage,
    StorageSpec,
    SubStorage,
)

MAKERS: dict[str, Callable[[Path], Storage]] = {
    "local": lambda root: LocalStorage(str(root)),
    "memory": lambda _: MemoryStorage(),
    "objects": lambda _: ObjectStorage(MemoryStore(), StorageSpec("s3://bucket/table")),
    "below local": lambda root: SubStorage(LocalStorage(str(root)), "a b/c"),
    "below objects": lambda _: SubStorage(
        ObjectStorage(MemoryStore(), StorageSpec("s3://bucket/table")), ".hoodie/metadata"
    ),
}


@pytest.fixture(params=MAKERS)
def storage(request: pytest.FixtureRequest, tmp_path: Path) -> Storage:
    return MAKERS[request.param](tmp_path)


def test_what_was_put_is_read_back(storage: Storage) -> None:
    storage.put("p=1/a.bin", b"old")
    storage.put("p=1/a.bin", b"new content")
    assert storage.read("p=1/a.bin") == b"new content"
    found = storage.stat("p=1/a.bin")
    assert found is not None
    assert (found.name, found.size_bytes) == ("a.bin", 11)


def test_both_of_two_are_done(storage: Storage) -> None:
    storage.put("a", b"1")
    storage.put("b", b"2")
    assert storage.both(lambda: storage.read("a"), lambda: storage.read("b")) == (b"1", b"2")
    with pytest.raises(MissingFileError):
        storage.both(lambda: storage.read("a"), lambda: storage.read("c"))


def test_objects_are_asked_for_at_once() -> None:
    storage = ObjectStorage(MemoryStore(), StorageSpec("s3://bucket/table"))
    meeting = threading.Barrier(2, timeout=60)
    assert sorted(storage.both(meeting.wait, meeting.wait)) == [0, 1]


def test_ranges_stop_at_the_end_of_the_file(storage: Storage) -> None:
    storage.put("a", b"0123456789")
    ranges = [(0, 3), (8, 5), (10, 4), (50, 1), (2, 0)]
    found = [storage.read_range("a", start, length) for start, length in ranges]
    assert found == [b"012", b"89", b"", b"", b""]


def test_an_open_file_seeks_and_reads(storage: Storage) -> None:
    storage.put("a", bytes(range(256)) * 9000)
    with storage.open("a") as file:
        assert file.seek(-4, 2) == 256 * 9000 - 4
        assert file.read() == b"\xfc\xfd\xfe\xff"
        file.seek(256)
        assert file.read(3) == b"\x00\x01\x02"
        assert file.tell() == 259
        assert len(file.read(2_000_000)) == 2_000_000


def test_missing_files(storage: Storage) -> None:
    storage.put("there", b"x")
    assert storage.stat("gone") is None
    assert list(storage.list("gone").files) == []
    assert not storage.exists("gone")
    storage.delete("gone")
    readers: list[Callable[[], object]] = [
        lambda: storage.read("gone"),
        lambda: storage.read_many(["there", "gone"]),
        lambda: storage.read_range("gone", 0, 1),
        lambda: storage.open("gone"),
        lambda: storage.read("no\0name"),
    ]
    for read in readers:
        with pytest.raises(MissingFileError, match=r"gone|name"):
            read()


def test_a_folder_is_no_file(storage: Storage) -> None:
    storage.put("folder/a", b"x")
    assert storage.stat("folder") is None
    with pytest.raises(MissingFileError):
        storage.read("folder")


def test_listings_show_one_level_sorted(storage: Storage) -> None:
    for path in ("b/2", "b/1", "b/deep/er/3", "b/dee/p", "c", "b.d/4"):
        storage.put(path, b"x" * len(path))
    found = storage.list("b")
    assert [(file.name, file.size_bytes) for file in found.files] == [("1", 3), ("2", 3)]
    assert list(found.folders) == ["dee", "deep"]
    root = storage.list("")
    assert [file.name for file in root.files] == ["c"]
    assert list(root.folders) == ["b", "b.d"]
    assert storage.exists("b/deep")
    assert not storage.exists("b/de")


NAMES = ["a%2Fb", "a b", "key=ü", "12:30", "{x}[y]*?", "a\\b", "#", "100%", "日本", "~", "^", "a+b"]


def test_folder_names_are_taken_literally(storage: Storage) -> None:
    for name in NAMES:
        storage.put(f"{name}/{name}.bin", name.encode())
    assert list(storage.list("").folders) == sorted(NAMES)
    for name in NAMES:
        assert [file.name for file in storage.list(name).files] == [f"{name}.bin"]
        assert storage.read(f"{name}/{name}.bin") == name.encode()


def test_read_many_keeps_the_order(storage: Storage) -> None:
    names = [f"{number:03}" for number in range(100)]
    for name in names:
        storage.put(f"f/{name}", name.encode())
    found = storage.read_many([f"f/{name}" for name in reversed(names)])
    assert list(found) == [name.encode() for name in reversed(names)]
    assert list(storage.read_many([])) == []


def test_put_if_absent_has_one_winner(storage: Storage) -> None:
    won: list[int] = []

    def put(number: int) -> None:
        if storage.put_if_absent("timeline/instant", b"%d" % number * 1000):
            won.append(number)

    threads = [threading.Thread(target=put, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(won) == 1
    assert storage.read("timeline/instant") == b"%d" % won[0] * 1000
    assert [file.name for file in storage.list("timeline").files] == ["instant"]


def test_a_file_is_replaced_only_while_it_has_its_tag(storage: Storage) -> None:
    storage.put("lock", b"first")
    first = storage.read_tagged("lock")
    second = storage.put_if_tagged("lock", b"second", first.tag)
    assert second is not None
    assert storage.put_if_tagged("lock", b"third", first.tag) is None
    found = storage.read_tagged("lock")
    assert (found.data, found.tag) == (b"second", second)
    storage.delete("lock")
    assert storage.put_if_tagged("lock", b"fourth", second) is None
    assert storage.stat("lock") is None
    with pytest.raises(MissingFileError):
        storage.read_tagged("lock")


def test_a_tag_has_one_heir(storage: Storage) -> None:
    storage.put("lock", b"first")
    tag = storage.read_tagged("lock").tag
    won: list[int] = []

    def put(number: int) -> None:
        if storage.put_if_tagged("lock", b"%d" % number, tag) is not None:
            won.append(number)

    threads = [threading.Thread(target=put, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [storage.read("lock")] == [b"%d" % number for number in won]


def test_deleted_files_are_gone(storage: Storage) -> None:
    storage.put("a", b"x")
    storage.delete("a")
    assert storage.stat("a") is None
    assert storage.put_if_absent("a", b"y")


def test_files_are_found_at_any_depth(storage: Storage) -> None:
    for path in ("t/a", "t/p=1/.x.marker", "t/p=1/q/b", "tt/c"):
        storage.put(path, b"")
    assert storage.files_below("t") == ["t/a", "t/p=1/.x.marker", "t/p=1/q/b"]
    assert storage.files_below("t/p=1") == ["t/p=1/.x.marker", "t/p=1/q/b"]
    assert "tt/c" in storage.files_below("")
    assert storage.files_below("absent") == []


def test_a_folder_goes_with_all_below_it(storage: Storage) -> None:
    for path in ("t/a", "t/p=1/q/b", "tt/c"):
        storage.put(path, b"")
    storage.delete_folder("t")
    storage.delete_folder("absent")
    assert not storage.exists("t")
    assert storage.files_below("") == ["tt/c"]


def test_an_empty_folder_can_be_made(storage: Storage) -> None:
    storage.make_folder("f/g")
    storage.make_folder("f/g")
    assert not storage.list("f/g").files
    assert not storage.files_below("f")
