from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from tidelake.errors import MissingFileError, StorageError
from tidelake.storage import LocalStorage


@pytest.fixture(params=["pipe", "socket", "device"])
def special(request: pytest.FixtureRequest, tmp_path: Path) -> LocalStorage:
    """Return a storage in which `p/odd` is no file."""
    path = tmp_path / "p" / "odd"
    path.parent.mkdir()
    if request.param == "pipe":
        os.mkfifo(path)
    elif request.param == "device":
        path.symlink_to("/dev/zero")
    else:
        at = os.open(path.parent, os.O_RDONLY)
        with socket.socket(socket.AF_UNIX) as made:
            made.bind(f"/proc/self/fd/{at}/odd")  # the path itself may be too long for a socket
        os.close(at)
    return LocalStorage(str(tmp_path))


@pytest.mark.timeout(20)
def test_what_is_no_file_is_refused_and_not_waited_for(special: LocalStorage) -> None:
    for look in (
        lambda: special.read("p/odd"),
        lambda: special.open("p/odd"),
        lambda: special.read_tagged("p/odd"),
        lambda: special.read_range("p/odd", 0, 10),
        lambda: special.stat("p/odd"),
        lambda: special.list("p"),
    ):
        with pytest.raises(StorageError):
            look()


def test_a_folder_is_still_no_file(tmp_path: Path) -> None:
    storage = LocalStorage(str(tmp_path))
    (tmp_path / "p").mkdir()
    assert storage.stat("p") is None
    with pytest.raises(MissingFileError):
        storage.read("p")
    with pytest.raises(MissingFileError):
        storage.open("p")
