"""Apache Hudi as a reader of the tables that the write tests make."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from pyspark.sql import SparkSession

from tests.interop import apache_hudi
from tests.writes.cases import DAYS, Case
from tests.writes.model import COLUMNS, Row


@dataclass(frozen=True, slots=True, kw_only=True)
class ApacheReader:
    """Reads with the Apache Hudi of the session."""

    spark: SparkSession
    root: Path
    case: Case

    def ask(self, question: Mapping[str, Any]) -> list[Row]:
        """Return the answer to a `Question`."""
        kind = question["kind"]
        if kind == "incremental":
            options = {
                "hoodie.datasource.query.type": "incremental",
                "hoodie.datasource.read.begin.instanttime": apache_hudi.begin(question["start"]),
                "hoodie.datasource.read.end.instanttime": question["end"],
            }
        elif kind == "base files":
            options = {"hoodie.datasource.query.type": "read_optimized"}
        else:
            options = {"as.of.instant": question["end"]} if kind == "as of" else {}
        frame = self.spark.read.format("hudi").options(**options).load(str(self.root))
        rows = [dict(zip(COLUMNS, row, strict=True)) for row in frame.select(*COLUMNS).collect()]
        return [self._as_written(row, is_window=kind == "incremental") for row in rows]

    def _as_written(self, row: dict[str, Any], *, is_window: bool) -> Row:
        keys = self.case.keys
        if keys.is_encoded and is_window:
            # Apache decodes the values of paths in snapshots only.
            row["city"] = unquote(row["city"])
        if "day" in keys.partition:
            # Formatted times come back as text, or as the folder is named.
            day = int(str(row["day"]).replace("-", ""))
            row["day"] = _DAY_OF_FOLDER.get(day, day)
        return row


def _folder(epoch_ms: int) -> int:
    return int(datetime.fromtimestamp(epoch_ms / 1000, tz=timezone.utc).strftime("%Y%m%d"))


_DAY_OF_FOLDER = {_folder(day): day for day in DAYS}
