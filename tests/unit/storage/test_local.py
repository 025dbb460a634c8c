from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from threading import Event, Thread

import pytest

from tidelake.errors import MissingFileError, StorageError
from tidelake.storage import LocalStorage, SubStorage, open_storage


def test_modification_times_are_those_of_the_file_system(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"x")
    os.utime(tmp_path / "a", ns=(0, 1_700_000_000_123_999_999))
    storage = LocalStorage(str(tmp_path))
    found = storage.stat("a")
    assert found is not None
    assert found.modified_ms == 1_700_000_000_123
    assert storage.list("").files == [found]


@pytest.mark.parametrize("path", ["../a", "b/../../a", "/etc/passwd", ".."])
def test_paths_never_leave_the_root(tmp_path: Path, path: str) -> None:
    (tmp_path / "a").write_bytes(b"secret")
    storage = LocalStorage(str(tmp_path / "table"))
    for ask in (storage.read, storage.list, storage.stat, storage.delete):
        with pytest.raises(StorageError, match="leads out of"):
            ask(path)


def test_links_are_followed_and_those_to_nowhere_are_missed_by_who_reads_them(
    tmp_path: Path,
) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "real" / "a").write_bytes(b"x")
    (tmp_path / "table").mkdir()
    (tmp_path / "table" / "p").symlink_to(tmp_path / "real")
    (tmp_path / "table" / "dangling").symlink_to(tmp_path / "nowhere")
    storage = LocalStorage(str(tmp_path / "table"))
    assert storage.list("").folders == ["p"]
    assert [file.name for file in storage.list("").files] == ["dangling"]
    assert storage.read("p/a") == b"x"
    with pytest.raises(MissingFileError):
        storage.read("dangling")


def test_refusals_of_the_system_name_the_path(tmp_path: Path) -> None:
    storage = LocalStorage(str(tmp_path))
    with pytest.raises(StorageError, match="File name too long"):
        storage.read("x" * 5000)


def test_a_failed_write_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    with pytest.raises(StorageError):
        LocalStorage(str(tmp_path)).put("folder", b"x")
    assert [entry.name for entry in tmp_path.iterdir()] == ["folder"]


def test_a_folder_of_a_table_opens_elsewhere_by_its_spec(tmp_path: Path) -> None:
    sub = SubStorage(LocalStorage(str(tmp_path)), ".hoodie/metadata")
    sub.put("files/a", b"x")
    assert open_storage(sub.spec).read("files/a") == b"x"
    assert sub.local_path("files/a") == str(tmp_path / ".hoodie/metadata/files/a")


@pytest.mark.parametrize("nameless", [True, False])
def test_new_files_have_the_permissions_that_the_process_gives(
    tmp_path: Path, nameless: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not nameless:
        monkeypatch.delattr(os, "O_TMPFILE", raising=False)
    (tmp_path / "plain").write_bytes(b"")
    storage = LocalStorage(str(tmp_path))
    assert storage.put_if_absent("a", b"1")
    assert not storage.put_if_absent("a", b"2")
    storage.put("b", b"1")
    storage.put("b", b"3")
    assert [storage.read(name) for name in "ab"] == [b"1", b"3"]
    modes = {entry.name: entry.stat().st_mode for entry in tmp_path.iterdir()}
    assert modes == dict.fromkeys(("a", "b", "plain"), modes["plain"])


@pytest.mark.skipif(not hasattr(os, "O_TMPFILE"), reason="files without a name are Linux's")
def test_a_killed_process_leaves_no_half_file(tmp_path: Path) -> None:
    code = (
        "import os, sys; from tidelake.storage import LocalStorage, local\n"
        "local._write_durably = lambda file, data: os.kill(os.getpid(), 9)\n"
        f"LocalStorage({str(tmp_path)!r}).put_if_absent('p/a', b'x')\n"
    )
    done = subprocess.run([sys.executable, "-c", code], check=False)
    assert done.returncode == -9
    assert list((tmp_path / "p").iterdir()) == []


def test_a_replaced_file_loses_the_checksum_that_hadoop_keeps_beside_it(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "name").write_bytes(b"old")
    checksum = tmp_path / "folder" / ".name.crc"
    checksum.write_bytes(b"of the old content")

    LocalStorage(str(tmp_path)).put("folder/name", b"new")

    assert not checksum.exists()


def test_a_file_that_is_replaced_by_its_tag_loses_hadoops_checksum(tmp_path: Path) -> None:
    (tmp_path / "name").write_bytes(b"old")
    checksum = tmp_path / ".name.crc"
    checksum.write_bytes(b"of the old content")
    storage = LocalStorage(str(tmp_path))

    assert storage.put_if_tagged("name", b"new", storage.read_tagged("name").tag) is not None

    assert not checksum.exists()


def test_a_deleted_file_takes_hadoops_checksum_with_it(tmp_path: Path) -> None:
    (tmp_path / "name").write_bytes(b"old")
    (tmp_path / ".name.crc").write_bytes(b"of the old content")

    LocalStorage(str(tmp_path)).delete("name")

    assert list(tmp_path.iterdir()) == []


def test_files_are_made_while_others_delete_their_folders(tmp_path: Path) -> None:
    storage = LocalStorage(str(tmp_path))
    is_over = Event()

    def delete() -> None:
        while not is_over.is_set():
            storage.delete_folder("a/b")

    deletes = Thread(target=delete)
    deletes.start()
    try:
        for number in range(2_000):
            assert storage.put_if_absent(f"a/b/c{number}/d/file", b"")
    finally:
        is_over.set()
        deletes.join()


@pytest.mark.timeout(20)
def test_links_in_circles_are_walked_once(tmp_path: Path) -> None:
    folder = tmp_path / "table" / "p"
    folder.mkdir(parents=True)
    (folder / "file").write_bytes(b"x")
    (tmp_path / "outside" / "sub").mkdir(parents=True)
    (tmp_path / "outside" / "sub" / "other").write_bytes(b"x")
    for n in range(8):
        (folder / f"here{n}").symlink_to(".")
        (folder / f"up{n}").symlink_to("..")
        (folder / f"above{n}").symlink_to(tmp_path)
        (tmp_path / "outside" / f"back{n}").symlink_to(folder)
        (tmp_path / "outside" / f"round{n}").symlink_to(tmp_path / "outside")
    (folder / "out").symlink_to(tmp_path / "outside")
    storage = LocalStorage(str(tmp_path / "table"))
    assert storage.files_below("") == ["p/file", "p/out/sub/other"]
    assert storage.files_below("p") == ["p/file", "p/out/sub/other"]
    assert storage.files_below("gone") == []


def test_files_behind_a_link_inside_of_the_table_are_listed_by_their_own_name(
    tmp_path: Path,
) -> None:
    (tmp_path / "p").mkdir()
    (tmp_path / "p" / "data").write_bytes(b"x")
    (tmp_path / "meta").mkdir()
    (tmp_path / "meta" / "link").symlink_to(tmp_path / "p")
    storage = LocalStorage(str(tmp_path))
    assert storage.files_below("meta") == []
    assert storage.files_below("meta/link") == ["meta/link/data"]


def test_a_folder_that_cannot_be_listed_is_not_taken_for_an_empty_one(tmp_path: Path) -> None:
    (tmp_path / "loop").symlink_to("loop")
    storage = LocalStorage(str(tmp_path))
    for look in (storage.files_below, storage.list):
        with pytest.raises(StorageError):
            look("loop")


@pytest.mark.parametrize("path", [".hoodie/hoodie.properties", "p/x.log"])
def test_a_file_that_no_memory_holds_is_refused(tmp_path: Path, path: str) -> None:
    (tmp_path / path).parent.mkdir()
    with (tmp_path / path).open("wb") as file:
        file.truncate(1 << 43)
    storage = LocalStorage(str(tmp_path))
    for read in (storage.read, storage.read_tagged):
        with pytest.raises(StorageError, match="than can be read at once"):
            read(path)


def test_refusals_say_where_the_table_lies(tmp_path: Path) -> None:
    storage = LocalStorage(str(tmp_path))
    path = "x" * 300
    for act in (lambda: storage.read(path), lambda: storage.put(path, b"")):
        with pytest.raises(StorageError) as told:
            act()
        assert told.value.path == f"{tmp_path}/{path}"


def test_a_root_that_is_a_file_has_the_facts_of_a_file(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"ab")
    found = LocalStorage(str(tmp_path / "file")).stat("")
    assert found is not None
    assert found.size_bytes == 2
    assert LocalStorage(str(tmp_path)).stat("") is None
