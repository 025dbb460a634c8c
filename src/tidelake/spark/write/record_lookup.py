"""Finding the file group of a key in the record index of the metadata table.

Tasks read only those file groups of the index to which their keys hash. What the index says may be
out of date in one way: a row that was deleted by what another column says keeps its entry. Where
that would matter, the rows themselves are asked.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial

import pyarrow as pa
import pyarrow.compute as pc
from pyspark import StorageLevel
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the customary name
from pyspark.sql import types as T  # noqa: N812

from tidelake.config import TableConfig
from tidelake.errors import TidelakeError
from tidelake.files.record_index import group_numbers
from tidelake.metadata.record_index import RecordIndex
from tidelake.model import FileGroupId, Word
from tidelake.records.schema import PARTITION_PATH, RECORD_KEY
from tidelake.spark.workers.worker_process import mapped
from tidelake.spark.write.incoming_rows import Incoming
from tidelake.spark.write.index_lookup import KNOWN_FILE, KNOWN_KEY, KNOWN_PATH, Lookup
from tidelake.write.groups import live_groups

_NUMBER = "_tidelake_index_group"
_ELSEWHERE = "_tidelake_elsewhere"
_FOUND = T.StructType(
    [
        T.StructField(KNOWN_KEY, T.StringType()),
        T.StructField(KNOWN_PATH, T.StringType()),
        T.StructField(KNOWN_FILE, T.StringType()),
        T.StructField(_ELSEWHERE, T.BooleanType()),
    ]
)
_NUMBERED = T.StructType(
    [
        T.StructField(RECORD_KEY, T.StringType()),
        T.StructField(PARTITION_PATH, T.StringType()),
        T.StructField(_NUMBER, T.LongType()),
    ]
)
_GROUPS = T.StructType([T.StructField("groups", T.BinaryType())])

Batches = Iterator[pa.RecordBatch]


class Doubts(Word):
    """Which entries of the index are held to the rows of the table."""

    NONE = "none"
    #: Those of keys that arrive with another partition, which they would be kept from.
    OTHER_PARTITIONS = "other partitions"
    ALL = "all"


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordLookup:
    """The record index of a table; `lookup` finds keys in the table itself, in every partition."""

    index: RecordIndex
    lookup: Lookup
    config: TableConfig

    @contextmanager
    def known(self, rows: Incoming, doubts: Doubts) -> Iterator[DataFrame]:
        """Give what `Lookup.known` returns, for those keys of the rows that the table has.

        Few rows, which the lookup has as `wanted`, are looked up by one task.
        """
        keys = rows.frame.select(RECORD_KEY, PARTITION_PATH)
        if self.lookup.wanted is not None:
            arranged = keys.coalesce(1)
        else:
            numbered = mapped(keys, partial(_numbered, self.index), _NUMBERED)
            arranged = numbered.repartition(_NUMBER).select(RECORD_KEY, PARTITION_PATH)
        found = mapped(arranged, partial(_looked_up, self.index), _FOUND)
        if doubts is Doubts.NONE:
            yield self.lookup.as_known(found)
            return
        found = found.persist(StorageLevel.MEMORY_AND_DISK)
        try:
            is_doubtful = F.lit(True) if doubts is Doubts.ALL else F.col(_ELSEWHERE)
            doubtful = found.where(is_doubtful)
            groups = _groups(doubtful)
            known = self.lookup.as_known(found.where(~is_doubtful))
            yield known.unionByName(self._held_to_rows(doubtful, groups)) if groups else known
        finally:
            found.unpersist()

    def _held_to_rows(self, doubtful: DataFrame, groups: frozenset[FileGroupId]) -> DataFrame:
        partitions = sorted({group.partition for group in groups})
        live = live_groups(self.lookup.state.view, self.config, partitions)
        there = self.lookup.known([one for one in live if one.id in groups])
        return there.join(doubtful.select(KNOWN_KEY), [KNOWN_KEY], "left_semi")


def _numbered(index: RecordIndex, batches: Batches) -> Batches:
    for batch in batches:
        numbers = group_numbers(batch.column(0), len(index.slices))
        yield pa.RecordBatch.from_arrays([*batch.columns, pa.array(numbers)], _NUMBERED.names)


def _looked_up(index: RecordIndex, batches: Batches) -> Batches:
    try:
        yield from found_in(index, batches)
    except TidelakeError as error:
        # It names the file, the cause and the next step; our frames in front would hide that.
        raise error.with_traceback(None) from None


def found_in(index: RecordIndex, batches: Iterable[pa.RecordBatch]) -> Batches:
    """Return where the keys of batches of keys and partition paths are, each key once."""
    held = [batch for batch in batches if len(batch)]
    if not held:
        return
    rows = pa.Table.from_batches(held)
    rows = rows.filter(pc.is_valid(rows.column(0)))  # whoever counts the rows refuses the others
    numbers = pa.array(group_numbers(rows.column(0), len(index.slices)))
    for number in pc.unique(numbers).to_pylist():
        own = rows.filter(pc.equal(numbers, number))
        found = index.find(number, own.column(0).to_pylist())
        places = {key: (location.partition, location.file_id) for key, location in found.items()}
        elsewhere = {
            key
            for key, path in zip(own.column(0).to_pylist(), own.column(1).to_pylist(), strict=True)
            if key in places and places[key][0] != path
        }
        yield pa.RecordBatch.from_pydict(
            {
                KNOWN_KEY: pa.array(list(places), pa.string()),
                KNOWN_PATH: pa.array([path for path, _ in places.values()], pa.string()),
                KNOWN_FILE: pa.array([file_id for _, file_id in places.values()], pa.string()),
                _ELSEWHERE: pa.array([key in elsewhere for key in places], pa.bool_()),
            }
        )


def _groups(found: DataFrame) -> frozenset[FileGroupId]:
    """Return the file groups that some keys are said to be in, in one run."""

    def run(batches: Batches) -> Batches:
        own: set[tuple[str, str]] = set()
        for batch in batches:
            own.update(zip(*(batch.column(at).to_pylist() for at in (0, 1)), strict=True))
        yield pa.RecordBatch.from_pydict({"groups": pa.array([pickle.dumps(own)], pa.binary())})

    rows = mapped(found.select(KNOWN_PATH, KNOWN_FILE), run, _GROUPS).collect()
    return frozenset(FileGroupId(*at) for row in rows for at in pickle.loads(row["groups"]))
