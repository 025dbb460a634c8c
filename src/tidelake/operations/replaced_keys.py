"""Taking the keys of replaced file groups out of the record index.

The index itself is asked for them, not the files: it may still name keys whose rows are long gone,
and each of them would lead the next write into a file group that nobody reads.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import pyarrow as pa

from tidelake.files.record_index import KeysOfGroup, write_index_logs
from tidelake.files.write_task import WriteToken
from tidelake.formats.commit_metadata import WriteStat
from tidelake.metadata.record_index import RecordIndex
from tidelake.model import FileGroupId
from tidelake.model.index_target import IndexTarget
from tidelake.storage import StorageSpec, open_storage
from tidelake.write.write_work import Written

#: Tasks that write rows have the first log file of their token.
_LOG_VERSION = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplacedKeys:
    """The keys that the record index has in `groups`; it travels to tasks.

    `written` is what the write that replaces them has put into the index by itself.
    """

    index: RecordIndex
    written: RecordIndex
    target: IndexTarget
    storage: StorageSpec
    groups: frozenset[FileGroupId]

    def forget_here(self, token: WriteToken) -> tuple[WriteStat, ...]:
        """Do so in this process."""
        numbers = range(len(self.index.slices)) if self.groups else ()
        return tuple(stat for done in self.forgotten(numbers, token) for stat in done.stats)

    def forgotten(self, numbers: Iterable[int], token: WriteToken) -> Iterator[Written]:
        """Write into file groups of the index, by their numbers, that the keys are gone."""
        for number in numbers:
            gone = self.index.keys_in(number, self.groups)
            if gone:
                # A key that the write brings says itself where it is now.
                back = self.written.find(number, gone)
                gone = [key for key in gone if key not in back]
            if gone:
                found = [KeysOfGroup("", None, pa.array(gone, pa.string()))]
                storage = open_storage(self.storage)
                logs = write_index_logs(storage, self.target, token, found, version=_LOG_VERSION)
                yield Written(stats=tuple(logs), rows=0, checksum=0)
