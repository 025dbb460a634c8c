"""Which folders only one machine can reach."""

from __future__ import annotations

from pathlib import Path

import pytest

from tidelake.storage.machine import is_of_this_machine

MOUNTS = r"""
24 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw
30 24 0:26 / /mnt/lake rw,relatime shared:7 - nfs4 server:/lake rw
31 30 0:27 / /mnt/lake/scratch rw,relatime - tmpfs tmpfs rw
32 24 0:28 / /mnt/with\040space rw,relatime - fuse.s3fs s3fs rw
33 24 0:29 / /mnt/twice rw,relatime - ext4 /dev/vdb rw
34 24 0:30 / /mnt/twice rw,relatime - cifs //server/share rw
35 24 0:31 / /mnt/cluster rw,relatime - gfs2 /dev/vdc rw
"""


@pytest.mark.parametrize(
    ("folder", "is_local"),
    [
        ("/data/table", True),
        ("/mnt/lake/table", False),
        ("/mnt/lakes/table", True),
        ("/mnt/lake/scratch/table", True),
        ("/mnt/with space/table", False),
        ("/mnt/twice/table", False),
        ("/mnt/cluster/table", False),
    ],
)
def test_the_mount_that_holds_a_folder_tells(folder: str, is_local: bool, tmp_path: Path) -> None:
    mounts = tmp_path / "mountinfo"
    mounts.write_text(MOUNTS.lstrip())
    assert is_of_this_machine(folder, str(mounts)) == is_local


def test_without_a_list_of_mounts_nothing_is_assumed(tmp_path: Path) -> None:
    assert not is_of_this_machine("/data/table", str(tmp_path / "gone"))
