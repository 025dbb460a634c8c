"""The kinds of tables that the machine plays with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from random import Random  # noqa: TID251 - every one of them is seeded

from tests.machine.rows import Row, Values, order

GLOBAL = ("GLOBAL_SIMPLE", "GLOBAL_BLOOM", "RECORD_INDEX")
_MOVES = {
    "GLOBAL_SIMPLE": "hoodie.simple.index.update.partition.path",
    "GLOBAL_BLOOM": "hoodie.bloom.index.update.partition.path",
    "RECORD_INDEX": "hoodie.record.index.update.partition.path",
}
_ORDERINGS = ((), ("ts",), ("ts",), ("ts", "seq"), ("day",), ("at",), ("x",), ("s",))


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """A kind of table, and how it is written."""

    version: int
    mor: bool
    index: str
    key: tuple[str, ...] = ("id",)
    partition: tuple[str, ...] = ("p",)
    ordering: tuple[str, ...] = ("ts",)
    moves: bool = True
    """Whether a key that arrives with another partition moves there, under a global index."""
    statistics: bool = False
    cdc: str | None = None
    log_format: str = "avro"
    small_files: bool = True
    has_nulls: bool = True
    """Whether ordering columns may be null."""
    is_ring: bool = False

    @property
    def is_global(self) -> bool:
        """Return whether a key is once in the table, whatever its partition."""
        return self.index in GLOBAL or not self.partition

    @property
    def takes_partial(self) -> bool:
        """Return whether rows without all columns have room in the logs."""
        return self.version >= 8 and not (self.index in GLOBAL and self.moves)

    @property
    def is_for_all(self) -> bool:
        """Return whether other engines owe the same rows, as far as whole rows are written.

        They merge logs by the ordering field whatever the merge mode is, have no rule for nulls in
        it, and compare NaN and texts in ways of their own. hudi-rs 0.5 takes one ordering column.
        """
        if not self.mor:
            return len(self.ordering) < 2
        return self.ordering in (("ts",), ("at",), ("day",)) and not self.has_nulls

    @property
    def has_spark_doors_only(self) -> bool:
        """Return whether keys are found by queries of Spark alone."""
        return self.index in GLOBAL

    def place(self, row: Row) -> Values:
        """Return the partition of a row."""
        return tuple(row[name] for name in self.partition)

    def identity(self, row: Row) -> Values:
        """Return what no two rows of the table share."""
        own = tuple(row[name] for name in self.key)
        return own if self.is_global else (*self.place(row), *own)

    def order(self, row: Row) -> int:
        """Return how new a row is; all rows are alike where the later write wins."""
        return order(row, self.ordering)

    @property
    def told(self) -> str:
        """Return the kind as a person reads it."""
        parts = [f"v{self.version}", "mor-" + self.log_format if self.mor else "cow"]
        parts += [self.index.lower() + ("-ring" if self.is_ring else "")]
        parts += ["" if self.moves or self.index not in GLOBAL else "stays"]
        parts += [f"key={'+'.join(self.key)}", f"by={'+'.join(self.ordering) or 'commit'}"]
        parts += ["" if self.partition else "one-folder", "stats" if self.statistics else ""]
        parts += ["nulls" if self.has_nulls and self.ordering else ""]
        parts += [f"cdc={self.cdc}" if self.cdc else "", "" if self.small_files else "new-files"]
        return " ".join(part for part in parts if part)

    @property
    def options(self) -> Mapping[str, str]:
        """Return Hudi's options for every write."""
        found = {
            "hoodie.index.type": self.index,
            "hoodie.clean.automatic": "false",
            "hoodie.archive.automatic": "false",
            "hoodie.bloom.index.filter.type": "SIMPLE",
            "hoodie.index.bloom.num_entries": "50",
            "hoodie.parquet.compression.codec": "uncompressed",
        }
        if self.index == "BUCKET":
            found["hoodie.bucket.index.num.buckets"] = "2"
            if self.is_ring:
                found["hoodie.index.bucket.engine"] = "CONSISTENT_HASHING"
        if self.index in _MOVES:
            found[_MOVES[self.index]] = str(self.moves).lower()
        if self.index == "RECORD_INDEX":
            found["hoodie.metadata.record.index.enable"] = "true"
        if self.statistics or self.index == "RECORD_INDEX":
            found["hoodie.metadata.enable"] = "true"
        if self.statistics:
            found["hoodie.metadata.index.column.stats.enable"] = "true"
        if self.mor:
            found["hoodie.logfile.data.block.format"] = self.log_format
        if not self.small_files:
            found["hoodie.parquet.small.file.limit"] = "0"
        if not self.ordering:
            found["hoodie.write.record.merge.mode"] = "COMMIT_TIME_ORDERING"
        if self.cdc:
            found["hoodie.table.cdc.enabled"] = "true"
            found["hoodie.table.cdc.supplemental.logging.mode"] = self.cdc
        return found


def random_kind(random: Random) -> Kind:
    """Return some kind of table."""
    version = random.choice((6, 8, 9, 9))
    mor = random.random() < 0.6
    indexes = ["SIMPLE", "SIMPLE", "BLOOM", "BUCKET", "BUCKET", "GLOBAL_SIMPLE", "GLOBAL_BLOOM"]
    if version >= 8:
        indexes.append("RECORD_INDEX")
    index = random.choice(indexes)
    is_global = index in GLOBAL
    return Kind(
        version=version,
        mor=mor,
        index=index,
        key=("id",) if is_global or random.random() < 0.7 else ("id", "k"),
        partition=("p",) if is_global or random.random() < 0.85 else (),
        ordering=random.choice([one for one in _ORDERINGS if len(one) < 2 or version == 9]),
        moves=random.random() < 0.5,
        statistics=version >= 8 and random.random() < 0.4,
        cdc=random.choice(("OP_KEY_ONLY", "DATA_BEFORE", "DATA_BEFORE_AFTER"))
        if random.random() < 0.3
        else None,
        log_format=random.choice(("avro", "parquet")),
        small_files=random.random() < 0.7,
        has_nulls=random.random() < 0.5,
        is_ring=index == "BUCKET" and mor and random.random() < 0.3,
    )
