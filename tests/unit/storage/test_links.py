from __future__ import annotations

from pathlib import Path

import pytest

from tidelake.errors import StorageError
from tidelake.storage import LocalStorage


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    """Return a folder beside a table that has a link to it."""
    folder = tmp_path / "outside"
    (folder / "sub").mkdir(parents=True)
    (folder / "sub" / "file").write_text("kept")
    (tmp_path / "table").mkdir()
    (tmp_path / "table" / "link").symlink_to(folder)
    return folder


def test_nothing_is_deleted_behind_a_link_out_of_the_table(tmp_path: Path, outside: Path) -> None:
    storage = LocalStorage(str(tmp_path / "table"))
    with pytest.raises(StorageError, match="leads to"):
        storage.delete("link/sub/file")
    with pytest.raises(StorageError, match="leads to"):
        storage.delete_folder("link/sub")
    assert (outside / "sub" / "file").read_text() == "kept"
    assert storage.read("link/sub/file") == b"kept"


def test_a_link_goes_without_what_it_leads_to(tmp_path: Path, outside: Path) -> None:
    storage = LocalStorage(str(tmp_path / "table"))
    storage.delete("link")
    assert not (tmp_path / "table" / "link").exists()
    assert (outside / "sub" / "file").exists()


def test_links_inside_of_the_table_and_a_root_behind_a_link(tmp_path: Path) -> None:
    (tmp_path / "table" / "a").mkdir(parents=True)
    (tmp_path / "table" / "a" / "file").write_text("")
    (tmp_path / "table" / "b").symlink_to(tmp_path / "table" / "a")
    (tmp_path / "root").symlink_to(tmp_path / "table")
    storage = LocalStorage(str(tmp_path / "root"))
    storage.delete("b/file")
    assert not (tmp_path / "table" / "a" / "file").exists()
