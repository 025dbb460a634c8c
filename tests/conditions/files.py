"""Random files of rows with what a table knows of them, and the files that a condition leaves."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from math import isnan
from random import Random  # noqa: TID251 - seeded
from typing import Any, cast

import pyarrow as pa
import pyarrow.compute as pc

from tests.conditions.rows import COLUMNS, ROWS
from tidelake.config import TableConfig
from tidelake.model import BaseFile, ColumnStats, FileGroupId, FileSlice, LogFile
from tidelake.read.prune import Pruner
from tidelake.state.table_state import TableSchema, TableState

_WITHOUT_BOUNDS = ("a", "r", "p")
#: What tables are partitioned by: paths of one and of several levels.
SCHEMES = (
    (),
    ("u",),
    ("i",),
    ("d",),
    ("b",),
    ("order", "date"),
    ("comment", "end"),
    ("n",),
    ("t",),
)
_UNSAFE = "".join(map(chr, range(32))) + "\x7f\"#%'*/:=?\\{[]^"
#: The folder of nulls and empty texts.
_NULL = "__HIVE_DEFAULT_PARTITION__"


@dataclass(frozen=True)
class Piece:
    """A file slice with the numbers of its rows; `is_told` says that its statistics are whole."""

    slice: FileSlice
    rows: frozenset[int]
    is_told: bool


@dataclass
class Files:
    """What stands in the place of a table: its pieces, and what is known of their columns."""

    state: TableState
    schema: TableSchema
    pieces: list[Piece]

    def left_by(self, where: str | None) -> list[Piece]:
        """Return the pieces that a read with a condition looks into."""
        pruner = Pruner(self.state, self.schema, where)
        partitions = pruner.partitions()
        inside = [
            p for p in self.pieces if partitions is None or p.slice.group.partition in partitions
        ]
        kept = set(map(id, pruner.slices([p.slice for p in inside], base_only=False)))
        return [piece for piece in inside if id(piece.slice) in kept]


@dataclass
class _State:
    """As much of a table as pruning looks at."""

    config: TableConfig
    options: Any
    statistics: Any
    partitions: list[str] = field(default_factory=list)

    @property
    def view(self) -> Any:
        return _View(self.partitions)


@dataclass
class _View:
    names: list[str]

    def partitions(self) -> list[str]:
        return self.names


@dataclass
class _Options:
    partition_values_from_path: bool = False


@dataclass
class _Statistics:
    files: dict[str, dict[str, ColumnStats]]
    of_partitions: dict[str, dict[str, ColumnStats]]

    def column_stats(
        self, columns: Collection[str], partitions: Sequence[str] | None = None
    ) -> Mapping[str, Mapping[str, ColumnStats]]:
        assert partitions is not None
        return {
            path: {name: stats for name, stats in known.items() if name in columns}
            for path, known in self.files.items()
        }

    def partition_stats(self, columns: Collection[str]) -> Mapping[str, Mapping[str, ColumnStats]]:
        return {
            path: {name: stats for name, stats in known.items() if name in columns}
            for path, known in self.of_partitions.items()
        }


class Maker:
    """Draws files of the rows."""

    def __init__(self, chance: Random, rows: pa.Table, schema: TableSchema) -> None:
        self._chance = chance
        self._rows = rows
        self._schema = schema
        self._number = 0
        self._stats: dict[str, dict[str, ColumnStats]] = {}

    def files(self, scheme: Sequence[str]) -> Files:
        """Return files of a table that is partitioned by some columns."""
        self._stats = {}
        style = {
            "hive_style": self._chance.random() < 0.5,
            "url_encode": self._chance.random() < 0.7,
        }
        members: dict[str, list[int]] = {}
        for row in range(ROWS):
            members.setdefault(self._path(scheme, row, **style), []).append(row)
        pieces = []
        of_partitions = {}
        for path, rows in members.items():
            # One file for each row is pruned the most; larger ones have ranges.
            pieces += [self._piece(path, [row], is_told=True) for row in rows]
            for _ in range(self._chance.randint(1, 3) if scheme else 20):
                size = self._chance.randint(1, min(6, len(rows)))
                pieces.append(self._piece(path, self._chance.sample(rows, size), is_told=False))
            if scheme and self._chance.random() < 0.5:
                of_partitions[path] = self._of_partition(rows)
        config = TableConfig.from_properties(
            {
                "hoodie.table.name": "t",
                "hoodie.table.version": "9",
                "hoodie.timeline.layout.version": "2",
                "hoodie.table.type": "COPY_ON_WRITE",
                "hoodie.table.partition.fields": ",".join(scheme),
                "hoodie.datasource.write.hive_style_partitioning": str(style["hive_style"]).lower(),
                "hoodie.datasource.write.partitionpath.urlencode": str(style["url_encode"]).lower(),
            }
        )
        state = _State(config, _Options(), _Statistics(self._stats, of_partitions), list(members))
        return Files(cast(TableState, state), self._schema, pieces)

    def _path(self, scheme: Sequence[str], row: int, *, hive_style: bool, url_encode: bool) -> str:
        parts = []
        for name in scheme:
            value = self._rows.column(name)[row].as_py()
            text = str(value).lower() if isinstance(value, bool) else str(value)
            text = _NULL if value in (None, "") else text
            if url_encode:
                text = "".join(f"%{ord(c):02X}" if c in _UNSAFE else c for c in text)
            elif len(scheme) > 1:
                text = text.replace("/", "-")
            parts.append(f"{name}={text}" if hive_style else text)
        return "/".join(parts)

    def _piece(self, partition: str, rows: Sequence[int], *, is_told: bool) -> Piece:
        self._number += 1
        file_id, parts = f"g{self._number}", [list(rows)]
        if not is_told and self._chance.random() < 0.3:
            cut = self._chance.randint(0, len(rows))
            parts = [list(rows[:cut]), list(rows[cut:])]
        base = BaseFile(
            partition=partition,
            name=f"{file_id}_0_1.parquet",
            file_id=file_id,
            write_token="0",
            instant_time="1",
            extension=".parquet",
            size_bytes=1,
        )
        logs = [
            LogFile(
                partition=partition,
                name=f".{file_id}_2.log.1_0",
                file_id=file_id,
                instant_time="2",
                version=1,
                write_token="0",
                suffix="",
                size_bytes=1,
            )
            for _ in parts[1:]
        ]
        files: list[BaseFile | LogFile] = [base, *logs]
        for each, own in zip(files, parts, strict=True):
            if is_told or self._chance.random() < 0.97:
                self._stats[each.path] = self._known(own, is_told=is_told)
        group = FileGroupId(partition, file_id)
        made = FileSlice(group=group, base_instant_time="1", base_file=base, log_files=tuple(logs))
        return Piece(made, frozenset(rows), is_told)

    def _known(self, rows: Sequence[int], *, is_told: bool) -> dict[str, ColumnStats]:
        taken = self._rows.take(pa.array(rows, pa.int64()))
        found = {}
        for name in COLUMNS:
            if name in _WITHOUT_BOUNDS:
                continue
            stats = _exact(taken.column(name), apache=self._chance.random() < 0.5)
            if not is_told:
                if self._chance.random() < 0.1:
                    continue
                stats = self._weaker(stats)
            found[name] = stats
        return found

    def _of_partition(self, rows: Sequence[int]) -> dict[str, ColumnStats]:
        known = self._known(rows, is_told=True)
        return {
            name: ColumnStats(min=s.min, max=s.max, null_count=None, value_count=None)
            for name, s in known.items()
        }

    def _weaker(self, stats: ColumnStats) -> ColumnStats:
        """Return statistics of the same values that say less."""
        low, high, nulls, count = stats.min, stats.max, stats.null_count, stats.value_count
        form = self._chance.randrange(10)
        if form == 0:
            low = None
        elif form == 1:
            high = None
        elif form == 2 and isinstance(low, str) and isinstance(high, str):
            cut = self._chance.randint(0, 3)
            low, high = low[:cut], high[:cut]
        elif form == 3:
            nulls = None
        elif form == 4:
            count = None
        elif form == 5:
            low = high = nulls = count = None
        return ColumnStats(min=low, max=high, null_count=nulls, value_count=count)


def _exact(values: pa.ChunkedArray, *, apache: bool) -> ColumnStats:
    """Return the bounds of a column as Arrow tells them; of NaN Apache makes zeros."""
    least, greatest = _least_and_greatest(values) if len(values) else (None, None)
    if pa.types.is_floating(values.type):
        nans = [v for v in values.to_pylist() if v is not None and isnan(v)]
        if nans and apache:
            least = greatest = 0.0
        elif nans:
            greatest = float("nan")
            least = greatest if least is None else least
    return ColumnStats(
        min=least, max=greatest, null_count=values.null_count, value_count=len(values)
    )


def _least_and_greatest(values: pa.ChunkedArray) -> tuple[Any, Any]:
    if pa.types.is_floating(values.type):
        values = values.filter(pc.invert(pc.is_nan(values)))
    if pa.types.is_binary(values.type) or pa.types.is_decimal(values.type):
        present = [v for v in values.to_pylist() if v is not None]
        return min(present, default=None), max(present, default=None)
    found = pc.min_max(values).as_py()
    return found["min"], found["max"]
