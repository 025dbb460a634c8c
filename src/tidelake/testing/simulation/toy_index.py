"""The record index of a simulated table: a real one, of the keys that toy rows have."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

import pyarrow as pa

from tidelake.env import Env
from tidelake.files import WriteSpec
from tidelake.files.record_index import KeysOfGroup, group_numbers, write_index_logs
from tidelake.files.write_task import GroupTarget
from tidelake.formats.commit_metadata import WriteStat
from tidelake.formats.metadata_encoding import encode_location
from tidelake.formats.metadata_record import RecordLocation
from tidelake.metadata.build import IndexFiles
from tidelake.metadata.record_index import RecordIndex
from tidelake.state.table_state import TableState
from tidelake.testing.simulation.toy_rows import Changes, new_token, read_rows


def found_in_index(index: RecordIndex, keys: Iterable[str]) -> dict[str, RecordLocation]:
    """Return where the index has keys, which are named without their partitions."""
    found: dict[str, RecordLocation] = {}
    for number, own in _by_group(keys, len(index.slices)).items():
        found.update(index.find(number, own))
    return found


def fill_toy_index(look: Callable[[], TableState], files: IndexFiles) -> Mapping[int, int]:
    """Write the index of all rows that the table has by now, as `spark.write.index_fill` does."""
    places: dict[str, bytes] = {}
    for key, (file_id, _) in read_rows(look()).items():
        partition, _, name = key.partition("/")
        location = RecordLocation(partition=partition, file_id=file_id)
        places[name] = encode_location(location, 0, files.table_version)
    counts: dict[int, int] = {}
    for number, keys in _by_group(places, files.groups).items():
        files.write(number, [(key.encode(), places[key]) for key in sorted(keys)])
        counts[number] = len(keys)
    return counts


def write_toy_index(
    env: Env, spec: WriteSpec, written: Iterable[tuple[GroupTarget | None, Changes]]
) -> list[WriteStat]:
    """Write into the index, if there is one, where the keys of a write are, as tasks do."""
    if spec.record_index is None:
        return []
    found = []
    files = list(written)
    here = {key for _, changes in files for key, row in changes.items() if row is not None}
    for target, changes in files:
        gone = [key for key, row in changes.items() if row is None and key not in here]
        found.append(KeysOfGroup("", None, pa.array(gone, pa.string())))
        brought = [key for key, row in changes.items() if row is not None]
        if target is not None:
            keys = pa.array(brought, pa.string())
            found.append(KeysOfGroup(target.partition, target.file_id, keys))
    return write_index_logs(env.storage, spec.record_index, new_token(env), found)


def _by_group(keys: Iterable[str], count: int) -> dict[int, list[str]]:
    """Return keys by the file group of the index that has them."""
    names = list(keys)
    found: dict[int, list[str]] = {}
    for number, key in zip(group_numbers(pa.array(names, pa.string()), count), names, strict=True):
        found.setdefault(int(number), []).append(key)
    return found
