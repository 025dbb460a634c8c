from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from pyspark.sql import types as T  # noqa: N812 - the customary name

from tests.conftest import Unpack
from tidelake.errors import (
    ConfigError,
    NotATableError,
    StorageError,
    TidelakeError,
    UnsupportedTableError,
)
from tidelake.formats import properties
from tidelake.spark.datasource.writer import TidelakeWriter
from tidelake.txn import Transaction

STRUCT = T.StructType([T.StructField("id", T.StringType()), T.StructField("v", T.LongType())])


def writer(path: Path | str, **options: str) -> TidelakeWriter:
    given = {"path": str(path), "hoodie.datasource.write.recordkey.field": "id"}
    more = {name.replace("__", "."): value for name, value in options.items()}
    return TidelakeWriter({**given, **more}, STRUCT, overwrite=False)


def content(root: Path) -> dict[str, bytes]:
    return {str(p.relative_to(root)): p.read_bytes() for p in root.rglob("*") if p.is_file()}


def refused(root: Path, error: type[TidelakeError], said: str, **options: str) -> None:
    before = content(root)
    with pytest.raises(error, match=said):
        writer(root, **options)
    assert content(root) == before


@pytest.mark.parametrize("name", ["rows.csv", "part-0.parquet", "_delta_log/0.json"])
def test_a_folder_with_other_data_is_left_alone(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(b"x")
    refused(tmp_path, NotATableError, name.partition("/")[0])


def test_tables_whose_base_files_are_not_parquet_are_refused(tmp_path: Path) -> None:
    writer(tmp_path)
    path = tmp_path / ".hoodie" / "hoodie.properties"
    stored = properties.decode(path.read_bytes())
    shutil.rmtree(tmp_path / ".hoodie" / ".temp", ignore_errors=True)
    for form, said in (("ORC", "'ORC', and tidelake knows PARQUET"), ("HFILE", "format HFILE")):
        changed = {**stored, "hoodie.table.base.file.format": form}
        path.write_bytes(properties.encode(changed))
        refused(tmp_path, UnsupportedTableError, said)


def test_a_table_of_another_format_is_not_made(tmp_path: Path) -> None:
    refused(tmp_path, ConfigError, "'ORC'", hoodie__table__base__file__format="ORC")


def test_the_metadata_table_is_not_written_as_a_table(golden_table: Unpack, tmp_path: Path) -> None:
    root = shutil.copytree(golden_table("v9_cow_full_mdt_default"), tmp_path / "t")
    refused(root / ".hoodie" / "metadata", UnsupportedTableError, "metadata table of another")


def test_an_option_that_nobody_knows_is_refused(tmp_path: Path) -> None:
    refused(tmp_path, ConfigError, "did you mean", hoodie__datasource__write__recordkey__fild="id")


def test_a_write_that_cannot_start_is_rolled_back_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Left behind, it would give signs of life for as long as Spark keeps the process."""
    writer(tmp_path)
    before = content(tmp_path / ".hoodie" / "timeline")

    def fail(_: Transaction) -> None:
        raise StorageError("inflight", "made to fail")

    monkeypatch.setattr(Transaction, "start", fail)
    with pytest.raises(StorageError, match="made to fail"):
        writer(tmp_path, hoodie__datasource__write__operation="bulk_insert")
    assert not list((tmp_path / ".hoodie" / ".heartbeat").glob("*"))
    after = content(tmp_path / ".hoodie" / "timeline")
    assert {name.partition(".")[2] for name in after.keys() - before.keys()} >= {"rollback"}
