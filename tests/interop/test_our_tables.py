"""Apache Hudi reads the tables that tidelake writes, and carries on where we stop."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime, timezone
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the customary name

from tests.interop.apache_hudi import VERSION, write_options
from tests.interop.shared_table import COW, MOR, Kind, SharedTable
from tests.interop.truth import Row, rows
from tidelake import Table

pytestmark = [pytest.mark.interop, pytest.mark.timeout(900)]

KEYGEN = "org.apache.hudi.keygen"
LATEST = "org.apache.hudi.common.model.OverwriteWithLatestAvroPayload"
BUCKET = {"hoodie.index.type": "BUCKET", "hoodie.bucket.index.num.buckets": "2"}
#: New groups for new keys, so that a key that is not found shows as a second row.
NO_PACKING = {"hoodie.parquet.small.file.limit": "0"}
SIMPLE = {"hoodie.index.type": "SIMPLE", **NO_PACKING}
BLOOM = {"hoodie.index.type": "BLOOM", **NO_PACKING}
GLOBAL = {"hoodie.index.type": "GLOBAL_SIMPLE"}
PARQUET_LOGS = {"hoodie.logfile.data.block.format": "parquet"}
FLAT = {
    "hoodie.datasource.write.hive_style_partitioning": "false",
    "hoodie.datasource.write.partitionpath.urlencode": "true",
}
BY_MONTH = {
    "hoodie.keygen.timebased.timestamp.type": "EPOCHMILLISECONDS",
    # Apache reads folders of custom key generators as the type of their column, here a number.
    "hoodie.keygen.timebased.output.dateformat": "yyyyMM",
    "hoodie.keygen.timebased.timezone": "UTC",
    "hoodie.datasource.write.hive_style_partitioning": "false",
}


def key_generator(name: str, options: Mapping[str, str] | None = None) -> dict[str, str]:
    return {"hoodie.datasource.write.keygenerator.class": f"{KEYGEN}.{name}", **(options or {})}


def month(row: Row) -> str:
    return datetime.fromtimestamp(row.at / 1000, timezone.utc).strftime("%Y%m")


#: Apache builds a metadata table of our files where it has no other settings; it takes its time.
NO_METADATA = {"hoodie.metadata.enable": "false"}


def plain(version: int, table_type: str, options: Mapping[str, str] | None = None) -> Kind:
    return Kind(
        table_type=table_type,
        table_version=version,
        options=options or {},
        apache=NO_METADATA if options else {},
    )


KINDS: dict[str, Kind] = {
    **{
        f"v{version}-{name}{extra}": plain(version, table_type, options)
        for version in (6, 8, 9)
        for name, table_type, extra, options in (
            ("cow", COW, "", {}),
            ("mor", MOR, "", {}),
            ("cow", COW, "-bucket", BUCKET),
            ("mor", MOR, "-bucket", BUCKET),
            ("mor", MOR, "-parquet-logs", PARQUET_LOGS),
        )
    },
    "v9-cow-simple": plain(9, COW, SIMPLE),
    "v9-mor-simple": plain(9, MOR, SIMPLE),
    "v9-cow-bloom": plain(9, COW, BLOOM),
    "v6-mor-bloom": plain(6, MOR, BLOOM),
    "v9-cow-global": plain(9, COW, GLOBAL),
    "v9-cow-flat": Kind(
        table_type=COW, path=lambda row: row.region, options=FLAT, apache=NO_METADATA
    ),
    "v9-mor-commit-time": Kind(table_type=MOR, ordering="", apache=NO_METADATA),
    "v9-mor-two-orderings": Kind(table_type=MOR, ordering="ts,at", apache=NO_METADATA),
    **{
        f"v{version}-mor-latest-payload": Kind(
            table_type=MOR,
            table_version=version,
            ordering="",
            options={"hoodie.datasource.write.payload.class": LATEST},
            apache=NO_METADATA,
        )
        for version in (6, 8)
    },
    "v9-mor-one-folder": Kind(
        table_type=MOR,
        partition_by="",
        path=lambda row: "",  # noqa: ARG005 - every row is in the one
        options=key_generator("NonpartitionedKeyGenerator"),
        apache=NO_METADATA,
    ),
    "v8-cow-complex": Kind(
        table_type=COW,
        table_version=8,
        key="id,region",
        partition_by="region,day",
        path=lambda row: f"region={row.region}/day={row.day}",
        options=key_generator("ComplexKeyGenerator"),
        apache=NO_METADATA,
    ),
    "v9-cow-timestamp": Kind(
        table_type=COW,
        partition_by="at",
        path=month,
        options=key_generator("TimestampBasedKeyGenerator", BY_MONTH),
        apache=NO_METADATA,
        unlike=("at",),
    ),
    "v9-mor-custom": Kind(
        table_type=MOR,
        partition_by="region:SIMPLE,at:TIMESTAMP",
        path=lambda row: f"{row.region}/{month(row)}",
        options=key_generator("CustomKeyGenerator", BY_MONTH),
        apache=NO_METADATA,
        unlike=("at",),
    ),
}
#: Older releases read the versions that they write themselves.
NEWEST = VERSION == "1.2.0"
OLDER = {
    "0.15.0": ["v6-cow", "v6-mor", "v6-mor-bucket", "v6-mor-parquet-logs"],
    "1.0.2": ["v8-cow", "v8-mor", "v8-mor-bucket", "v8-mor-parquet-logs"],
}

#: What CI has time for.
SAMPLE = ("v6-mor", "v9-mor-bucket")


def services(kind: Kind) -> dict[str, str]:
    found = {
        "hoodie.clean.automatic": "true",
        "hoodie.clean.commits.retained": "1",
        "hoodie.keep.min.commits": "2",
        "hoodie.keep.max.commits": "3",
        "hoodie.metadata.enable": "false",  # with it, archival waits for a compaction of its own
    }
    if kind.table_type == MOR:
        found["hoodie.compact.inline"] = "true"
        found["hoodie.compact.inline.max.delta.commits"] = "1"
    return found


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=pytest.mark.sample if name in SAMPLE else ())
        for name in (KINDS if NEWEST else OLDER[VERSION])
    ],
)
def test_apache_reads_and_continues_what_we_write(
    name: str, hudi_spark: SparkSession, tmp_path: Path
) -> None:
    kind = KINDS[name]
    table = SharedTable(hudi_spark, tmp_path / name, kind)
    table.we("bulk_insert", rows(range(40), ts=10))
    table.check("bulk_insert")
    table.we("insert", rows(range(40, 60), ts=10))
    table.check("insert")
    table.we("upsert", rows([*range(10, 25), *range(60, 66)], ts=20, note="changed"))
    table.check_last_turn("upsert")
    table.we("upsert", rows(range(20, 30), ts=15, note="late"))
    table.check("late upsert")
    table.we("delete", rows(range(22, 28), ts=1))
    table.check_last_turn("delete")
    table.we("insert_overwrite", rows(range(1, 20, 3), ts=5, note="instead"))
    table.check("insert_overwrite")
    table.we("upsert", rows(range(0, 30, 4), ts=30, note="again"))
    table.check_last_turn("upsert after overwrite")
    table.we_delete_partitions([kind.path(rows([2], ts=1)[0])])
    table.check("delete_partitions")
    table.check_history("ours")

    table.they("upsert", rows([*range(12), 71], ts=40, note="theirs"))
    table.check_last_turn("their upsert")
    table.they("delete", rows(range(3, 9), ts=41))
    table.check_last_turn("their delete")
    for turn in range(3):
        changed = rows(range(turn, 30, 5), ts=50 + turn, note="served")
        table.they("upsert", changed, services(kind))
        table.check(f"services {turn}")
    table.we("upsert", rows(range(0, 30, 3), ts=60, note="ours again"))
    table.check_last_turn("ours again")
    table.we("insert_overwrite_table", rows(range(5, 25), ts=61, note="all new"))
    table.check_last_turn("insert_overwrite_table")
    table.they("upsert", rows(range(0, 30, 6), ts=70, note="theirs at last"), services(kind))
    table.check_last_turn("theirs at last")
    assert not table.differences, "\n".join(table.differences)


TYPES = {
    "id": "concat('k', n)",
    "ts": "cast({ts} as bigint)",
    "p": "concat('p', n % 2)",
    "flag": "n % 2 = 0",
    "small": "cast(n as int)",
    "real": "cast(n / 8 as float)",
    "wide": "cast(n / 3 as double)",
    "cents": "cast(n / 4 as decimal(9, 2))",
    "euros": "cast(-n * 1000 / 7 as decimal(18, 4))",
    "atoms": "cast(n * 1234567890123 as decimal(38, 10))",
    "day": "date_add(date'1969-12-30', cast(n as int))",
    "moment": "timestamp_micros(-3 + n * 1000001 + {ts})",
    "bits": "cast(concat('b', n) as binary)",
    "word": "concat('ü,:/= ', n, ' {ts}')",
    "list": "array(cast(n as string), 'x')",
    "rows": "array(named_struct('a', n, 'b', cast(n as string)))",
    "map": "map('a', n, concat('k', n), {ts})",
    "nested": "named_struct('x', n, 'y', named_struct('z', array(n, 1L)))",
}


@pytest.mark.skipif(not NEWEST, reason="the release that writes every table version")
@pytest.mark.parametrize("log_format", ["avro", "parquet"])
@pytest.mark.parametrize("table_type", [COW, MOR])
@pytest.mark.parametrize("table_version", [6, 8, 9])
def test_apache_reads_every_type_and_rewrites_it(
    table_version: int, table_type: str, log_format: str, hudi_spark: SparkSession, tmp_path: Path
) -> None:
    if (table_type, log_format) == (COW, "parquet"):
        pytest.skip("copy-on-write tables have no logs")
    path = str(tmp_path / "types")

    def made(first: int, end: int, ts: int) -> DataFrame:
        keys = ("id", "ts", "p")
        columns = [
            f"{text.format(ts=ts)} as {name}"
            if name in keys
            else f"if(n % 5 = 4, null, {text.format(ts=ts)}) as {name}"
            for name, text in TYPES.items()
        ]
        return hudi_spark.range(first, end, 1, 1).withColumnRenamed("id", "n").selectExpr(*columns)

    options = {"hoodie.logfile.data.block.format": log_format}
    table = Table.create(
        hudi_spark,
        path,
        made(0, 1, 1),
        name="types",
        key="id",
        partition_by="p",
        ordering="ts",
        table_type=table_type,
        table_version=table_version,
        options=options,
    )
    table.bulk_insert(made(0, 20, 1))
    table.upsert(made(5, 25, 2))
    owed = texts(made(0, 5, 1)) + texts(made(5, 25, 2))
    assert texts(apache_rows(hudi_spark, path)) == sorted(owed)

    given = {
        **write_options("types", table_type, table_version, partition_by="p"),
        **options,
        **services(Kind(table_type=table_type)),
    }
    made(24, 30, 3).write.format("hudi").options(**given).mode("append").save(path)
    owed = texts(made(0, 5, 1)) + texts(made(5, 24, 2)) + texts(made(24, 30, 3))
    assert texts(apache_rows(hudi_spark, path)) == sorted(owed)
    assert texts(table.read()) == sorted(owed)


def apache_rows(spark: SparkSession, path: str) -> DataFrame:
    return spark.read.format("hudi").load(path).select(*TYPES)


def texts(frame: DataFrame) -> list[str]:
    found = frame.select(F.to_json(F.struct("*"))).collect()
    # Whoever rewrites a map may order it anew.
    return sorted(json.dumps(json.loads(row[0]), sort_keys=True) for row in found)
