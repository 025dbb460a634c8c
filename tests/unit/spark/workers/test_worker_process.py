from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest
from pyspark.sql import types as T  # noqa: N812 - the customary name

from tidelake.spark.workers import worker_process


def test_what_only_saves_time_never_fails_a_task(monkeypatch: pytest.MonkeyPatch) -> None:
    def changed() -> None:
        raise AttributeError("Spark has no root directory any more")

    monkeypatch.setattr(worker_process, "settle", changed)
    frame = SimpleNamespace(mapInArrow=lambda run, _: run)
    run = cast("Any", worker_process.mapped(cast("Any", frame), lambda b: b, T.StructType()))
    assert list(run(iter([1, 2]))) == [1, 2]
