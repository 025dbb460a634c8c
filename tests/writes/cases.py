"""The kinds of tables that the tests write, and random writes to them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from random import Random  # noqa: TID251 - every one of them is seeded
from typing import TypeVar

from tests.writes.model import Condition, Do, Identity, Model, Row, Step, Values, without_ties
from tidelake.config import CdcMode

T = TypeVar("T")

CITIES = ("oslo", "rom", "bern")
#: Cities whose names do not make folder names as they stand.
ODD_CITIES = ("são/paulo", "a b=c", "x%2Fy")
DAYS = (1_794_700_800_000, 1_794_787_200_000)
DROP_COLUMNS = "hoodie.datasource.write.drop.partition.columns"
CDC = "hoodie.table.cdc.enabled"
CDC_MODE = "hoodie.table.cdc.supplemental.logging.mode"
#: Bucket indexes that name the files of a bucket for good.
RING = (("hoodie.index.bucket.engine", "CONSISTENT_HASHING"),)
FIXED_IDS = (("hoodie.write.concurrency.mode", "NON_BLOCKING_CONCURRENCY_CONTROL"),)
_NOTES = ("a", "", "ü, 雪", None, "'quoted', \"too\"")


@dataclass(frozen=True, slots=True, kw_only=True)
class Keys:
    """A key generator, and the columns it takes."""

    name: str
    key: tuple[str, ...] = ("id",)
    partition: tuple[str, ...] = ("city",)
    options: tuple[tuple[str, str], ...] = ()
    cities: tuple[str, ...] = CITIES
    is_hive_style: bool = True
    is_encoded: bool = False
    is_typed: bool = False
    """Whether the options name the partition columns, with a type each."""

    def values(self, row: Row) -> Values:
        """Return what the partition path of a row is made of."""
        return tuple(_day(row[n]) if n == "day" else row[n] for n in self.partition)

    def path(self, partition: Values) -> str:
        """Return the partition path."""
        texts = [str(value) for value in partition]
        if self.is_encoded:
            texts = [t.replace("%", "%25").replace("/", "%2F").replace("=", "%3D") for t in texts]
        if self.is_hive_style:
            texts = [f"{name}={text}" for name, text in zip(self.partition, texts, strict=True)]
        return "/".join(texts)


_TIMEBASED = (
    ("hoodie.keygen.timebased.timestamp.type", "EPOCHMILLISECONDS"),
    ("hoodie.keygen.timebased.output.dateformat", "yyyy-MM-dd"),
)
_CLASS = "hoodie.datasource.write.keygenerator.class"
_PACKAGE = "org.apache.hudi.keygen."

KEYS = {
    keys.name: keys
    for keys in (
        Keys(name="simple"),
        Keys(
            name="encoded",
            cities=ODD_CITIES,
            is_hive_style=False,
            is_encoded=True,
            options=(
                ("hoodie.datasource.write.hive_style_partitioning", "false"),
                ("hoodie.datasource.write.partitionpath.urlencode", "true"),
            ),
        ),
        Keys(name="complex", key=("id", "region"), partition=("region", "city")),
        Keys(
            name="timestamp",
            partition=("day",),
            options=((_CLASS, f"{_PACKAGE}TimestampBasedKeyGenerator"), *_TIMEBASED),
        ),
        Keys(
            name="custom",
            partition=("city", "day"),
            is_typed=True,
            options=(
                (_CLASS, f"{_PACKAGE}CustomKeyGenerator"),
                ("hoodie.datasource.write.partitionpath.field", "city:SIMPLE,day:TIMESTAMP"),
                *_TIMEBASED,
            ),
        ),
        Keys(name="unpartitioned", partition=()),
        Keys(name="made up", key=()),
    )
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A table to write."""

    version: int = 9
    mor: bool = False
    index: str = "SIMPLE"
    keys: Keys = KEYS["simple"]
    log_format: str = "avro"
    by_event_time: bool = True
    extra: tuple[tuple[str, str], ...] = ()
    """Further options."""

    @property
    def name(self) -> str:
        """Return the case as a person reads it."""
        kind = f"mor-{self.log_format}" if self.mor else "cow"
        order = "" if self.by_event_time else "-commit_time"
        extra = "".join(f"-{name.rpartition('.')[2]}={value}" for name, value in self.extra)
        return f"v{self.version}-{kind}-{self.index.lower()}-{self.keys.name}{order}{extra}"

    @property
    def identity(self) -> Identity:
        """Return what makes two rows of the table the same."""
        return Identity(
            key=self.keys.key,
            partition=self.keys.values,
            is_global=self.index.startswith("GLOBAL") or not self.keys.partition,
            by_event_time=self.by_event_time,
        )

    @property
    def options(self) -> Mapping[str, str]:
        """Return Hudi's options for it."""
        found = {
            "hoodie.index.type": self.index,
            # The whole past is asked for.
            "hoodie.clean.automatic": "false",
            **dict(self.keys.options),
        }
        if self.index == "BUCKET":
            found["hoodie.bucket.index.num.buckets"] = "3"
        if self.mor:
            found["hoodie.logfile.data.block.format"] = self.log_format
        if not self.by_event_time:
            found["hoodie.write.record.merge.mode"] = "COMMIT_TIME_ORDERING"
        return {**found, **dict(self.extra)}

    @property
    def logs_changes(self) -> bool:
        """Return whether the table keeps track of its changes."""
        return CDC in dict(self.extra)

    @property
    def operations(self) -> tuple[Do, ...]:
        """Return what can be done to such a table."""
        return tuple(
            do
            for do in Do
            if do is not Do.COMPACT
            and (self.keys.key or do not in (Do.UPSERT, Do.DELETE))
            and (self.keys.partition or do is not Do.DELETE_PARTITIONS)
        )


#: Every operation, in an order in which each finds something to do.
SCRIPT = (
    Do.BULK_INSERT,
    Do.UPSERT,
    Do.DELETE,
    Do.INSERT,
    Do.UPDATE_WHERE,
    Do.INSERT_OVERWRITE,
    Do.UPSERT,
    Do.DELETE_PARTITIONS,
    Do.DELETE_WHERE,
    Do.INSERT_OVERWRITE_TABLE,
    Do.UPSERT,
)
INDEXES = ("BUCKET", "SIMPLE", "BLOOM", "GLOBAL_SIMPLE", "GLOBAL_BLOOM")


class RandomWrites:
    """Writes drawn from a seed, with an eye on what the table holds."""

    def __init__(self, case: Case, random: Random) -> None:
        self._case = case
        self._random = random
        self._past: list[str] = []

    def step(self, model: Model, do: Do | None = None) -> Step:
        """Return the next write.

        In logs a row that comes back after its delete and is older than it was loses against the
        base row that was deleted, for hudi-rs and for us; no such rows are made.
        """
        made = self._step(model, do)
        if made.do is Do.DELETE or not self._case.mor or not self._case.keys.key:
            return made
        least = [model.graves.get(model.identity.of(row), 0) for row in made.rows]
        rows = [{**row, "ts": max(row["ts"], ts)} for row, ts in zip(made.rows, least, strict=True)]
        return replace(made, rows=without_ties(rows, model.identity))

    def _step(self, model: Model, do: Do | None) -> Step:
        random = self._random
        identity = model.identity
        if do is None:
            choice = (*self._case.operations, Do.UPSERT, Do.UPSERT, Do.DELETE)
            do = random.choice([d for d in choice if d in self._case.operations])
        if not model.states and do not in (Do.UPSERT, Do.INSERT, Do.BULK_INSERT):
            do = Do.BULK_INSERT
        if do in (Do.DELETE_WHERE, Do.UPDATE_WHERE):
            return Step(do=do, where=self._condition(), note=random.choice(_NOTES))
        if do is Do.DELETE_PARTITIONS:
            known = model.partitions()
            if not known:
                return self._step(model, Do.INSERT)
            return Step(do=do, partitions=(random.choice(known),))
        if do is Do.DELETE:
            known_rows = random.sample(model.rows, min(len(model.rows), random.randint(0, 3)))
            strangers = [self._row(f"stranger{at}") for at in range(random.randint(0, 1))]
            return Step(do=do, rows=(*known_rows, *strangers))
        if do is Do.UPSERT:
            rows = [self._changed(row) for row in self._some(model.rows, 5)]
            rows += [self._row(f"k{random.randint(0, 9)}") for _ in range(random.randint(0, 5))]
            return Step(do=do, rows=without_ties(rows, identity))
        rows = [self._row(self._new_id()) for _ in range(random.randint(1, 6))]
        taken = {row["id"] for row in (*model.rows, *rows)}
        rows += [self._row(key) for key in self._some(self._past, 2) if key not in taken]
        if do is Do.INSERT_OVERWRITE:
            touched = {identity.partition(row) for row in rows}
            again = [r for r in self._some(model.rows, 3) if identity.partition(r) in touched]
            rows += [{**row, "ts": random.randint(0, 9)} for row in again]
        return Step(do=do, rows=tuple(rows))

    def _some(self, given: Sequence[T], most: int) -> list[T]:
        return self._random.sample(given, min(len(given), self._random.randint(0, most)))

    def _new_id(self) -> str:
        self._past.append(f"n{len(self._past)}")
        return self._past[-1]

    def _row(self, key: str) -> Row:
        random = self._random
        return {
            "id": key,
            "region": random.choice(("n", "s")),
            "city": random.choice(self._case.keys.cities),
            "day": random.choice(DAYS),
            "ts": random.randint(0, 20),
            "fare": random.randint(0, 400) / 4,
            "note": random.choice(_NOTES),
        }

    def _changed(self, row: Row) -> Row:
        fresh = self._row(row["id"])
        kept = {name: row[name] for name in ("region", "city", "day")}
        # Under a global index a key may come back in another partition.
        moves = self._case.index.startswith("GLOBAL") and self._random.random() < 0.5
        made = {**fresh, **({} if moves else kept)}
        return {**made, **{name: row[name] for name in self._case.keys.key}}

    def _condition(self) -> Condition:
        random = self._random
        limit = random.randint(0, 100)
        city = random.choice(self._case.keys.cities)
        return random.choice(
            (
                Condition(f"fare < {limit}", lambda row: row["fare"] < limit),
                Condition(f"city = '{city}'", lambda row: row["city"] == city),
                Condition("note IS NULL", lambda row: row["note"] is None),
                Condition(
                    f"ts > 10 AND fare >= {limit}",
                    lambda row: row["ts"] > 10 and row["fare"] >= limit,
                ),
            )
        )


def _day(epoch_ms: int) -> str:
    return datetime.fromtimestamp(epoch_ms / 1000, tz=timezone.utc).strftime("%Y-%m-%d")


#: Options that lay out the same rows in other files and blocks.
EXTRA = (
    (),
    (("hoodie.parquet.small.file.limit", "0"),),
    (("hoodie.parquet.max.file.size", "1"), ("hoodie.parquet.small.file.limit", "1")),
    (("hoodie.logfile.data.block.max.size", "1"),),
    (("hoodie.logfile.max.size", "1"),),
    (("hoodie.write.record.positions", "false"),),
    *(((CDC, "true"), (CDC_MODE, mode.value)) for mode in CdcMode),
    ((DROP_COLUMNS, "true"),),
)


def random_case(random: Random) -> Case:
    """Return some kind of table."""
    keys = random.choice(list(KEYS.values()))
    mor = random.random() < 0.6
    index = random.choice(("BUCKET", "BUCKET", "SIMPLE", "BLOOM")) if keys.key else "SIMPLE"
    # A folder's name does not tell the time from which it was made.
    extra = random.choice(EXTRA[:-1] if "day" in keys.partition else EXTRA)
    if index == "BUCKET" and mor:
        extra = random.choice((extra, RING))
    return Case(
        version=random.choice((6, 8, 9)),
        mor=mor,
        index=index,
        keys=keys,
        log_format=random.choice(("avro", "parquet")),
        by_event_time=random.random() < 0.8,
        extra=extra,
    )


def case_for_apache(seed: int) -> Case:
    """Return some kind of table that Apache Hudi reads as it was written."""
    case = random_case(Random(seed))
    keys = case.keys
    if keys.is_typed:
        # It takes the folders of a custom key generator for values of their column, a number.
        options = {**dict(keys.options), "hoodie.keygen.timebased.output.dateformat": "yyyyMMdd"}
        keys = replace(keys, options=tuple(options.items()))
    extra = () if CDC in dict(case.extra) else case.extra
    return replace(case, keys=keys, by_event_time=True, extra=extra)
