"""Part F: two writers and one schema."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark.sql import types as T  # noqa: N812 - the customary name

from tests.scenarios.clustering import Clustering
from tests.scenarios.lake import BUCKETS, COW, MOR, NBCC, OCC, UPSERT, Fields, Lake, row
from tests.scenarios.rules import guards
from tidelake.config import TimeBasis, WriteOperation
from tidelake.env import Env
from tidelake.errors import SchemaConflictError
from tidelake.model import Action, Commit, TableType
from tidelake.operations import compaction_run as compaction
from tidelake.operations import write_schemas
from tidelake.state.table_state import TableSchema, TableState
from tidelake.testing import ManualClock
from tidelake.timeline import table_schema
from tidelake.txn.protocol.plans import find_plan, take_over
from tidelake.txn.protocol.retry import retry_on_conflict
from tidelake.view import AsOf
from tidelake.write import schema_conflict
from tidelake.write.schema_conflict import SchemasClashError

B: Fields = {"b": T.StringType()}
C: Fields = {"c": T.LongType()}
DROPS = {"hoodie.datasource.write.schema.allow.auto.evolution.column.drop": "true"}
MERGES = {"hoodie.write.concurrency.schema.conflict.resolution.strategy": "merge"}
World = tuple[TableType, int, Mapping[str, str]]
#: Every kind of table on which writers share a schema.
WORLDS: list[World] = [
    *((kind, version, OCC) for kind in (COW, MOR) for version in (6, 8, 9)),
    *((MOR, version, {**NBCC, **BUCKETS}) for version in (8, 9)),
]


def world_name(world: World) -> str:
    kind, version, options = world
    mode = "nbcc" if "NON" in options["hoodie.write.concurrency.mode"] else "occ"
    return f"{kind}-v{version}-{mode}"


@pytest.fixture(params=WORLDS, ids=world_name)
def world(request: pytest.FixtureRequest) -> World:
    found: World = request.param
    return found


@dataclass(frozen=True, kw_only=True)
class Two:
    """A write that is under way while another one commits."""

    lake: Lake
    start: bool = True
    ours: Fields | None = None
    theirs: Fields | None = None
    options: Mapping[str, str] | None = None

    def play(self) -> dict[str, dict[str, Any]]:
        """Let both write, each to a partition of its own, and return the rows."""
        if self.start:
            self.lake.write([row("start", 1, p="s")])
        writing = self.lake.writing(
            [row("ours", 2, p="o", **_filled(self.ours))], self.options, fields=self.ours
        ).begun()
        if self.theirs is not None:
            self.lake.write([row("theirs", 3, p="t", **_filled(self.theirs))], fields=self.theirs)
        writing.commit()
        return self.lake.rows()


def _filled(fields: Fields | None) -> dict[str, Any]:
    return {
        name: "text" if isinstance(kind, T.StringType) else 7
        for name, kind in (fields or {}).items()
    }


def new(root: Path, world: World, *, has_schema: bool = True) -> Lake:
    kind, version, options = world
    return Lake(root, kind, version, options, has_schema=has_schema)


def anything_goes(patch: pytest.MonkeyPatch) -> None:
    """The last schema wins, as it did before RFC-82."""
    patch.setattr(write_schemas, "resolve", lambda _start, _now, writer, **_: writer)


def nothing_goes(patch: pytest.MonkeyPatch) -> None:
    """Every change behind a write's back is a conflict."""

    def refuse(start: str | None, now: str | None, writer: str, **_: Any) -> str:
        if now != start:
            raise SchemasClashError(8, "it changed", frozenset())
        return writer

    patch.setattr(write_schemas, "resolve", refuse)


def keeps_what_was(patch: pytest.MonkeyPatch) -> None:
    """No change of the schema is ever stored."""
    patch.setattr(write_schemas, "resolve", lambda start, now, _, **__: now or start or "{}")


def services_count(patch: pytest.MonkeyPatch) -> None:
    """Compactions say the schema, as writes do."""
    patch.setattr(table_schema, "_SERVICES", frozenset())


@guards(keeps_what_was)
def test_F_01_the_first_write_brings_the_schema(tmp_path: Path, world: World) -> None:
    """Case 1: nobody has said the schema, and the first write does."""
    lake = new(tmp_path, world, has_schema=False)
    assert Two(lake=lake, start=False, ours=B).play()["ours"]["b"] == "text"
    assert lake.columns() == ["id", "p", "ts", "v", "b"]


@guards(nothing_goes)
def test_F_02_two_first_writers_agree(tmp_path: Path, world: World) -> None:
    """Case 2: two first writers bring the same schema, and both commit."""
    lake = new(tmp_path, world, has_schema=False)
    assert set(Two(lake=lake, start=False, ours=B, theirs=B).play()) == {"ours", "theirs"}
    assert lake.columns() == ["id", "p", "ts", "v", "b"]


@guards(anything_goes)
def test_F_03_two_first_writers_differ(tmp_path: Path, world: World) -> None:
    """Case 3: two first writers bring different schemas, and the later one is refused."""
    lake = new(tmp_path, world, has_schema=False)
    with pytest.raises(SchemaConflictError) as refused:
        Two(lake=lake, start=False, ours=C, theirs=B).play()
    assert refused.value.facts["case of RFC-82"] == "3"
    assert_refused(lake, {"theirs"})


@guards(lambda patch: patch.setattr(write_schemas, "resolve", _refused))
def test_F_04_nobody_changes_the_schema(tmp_path: Path, world: World) -> None:
    """Case 4: nobody changes the schema, and nobody is refused."""
    lake = new(tmp_path, world)
    assert set(Two(lake=lake, theirs={}).play()) == {"start", "ours", "theirs"}
    assert lake.columns() == ["id", "p", "ts", "v"]


@guards(keeps_what_was)
def test_F_05_only_we_change_the_schema(tmp_path: Path, world: World) -> None:
    """Case 5: we add a column and nobody else does; the table has it from then on."""
    lake = new(tmp_path, world)
    found = Two(lake=lake, ours=B, theirs=None if world[1] < 8 else {}).play()
    assert found["ours"]["b"] == "text"
    assert found["start"]["b"] is None
    assert lake.columns() == ["id", "p", "ts", "v", "b"]


@guards(lambda patch: patch.setattr(write_schemas, "refuse_hidden", lambda *_: None))
@pytest.mark.parametrize("kind", [COW, MOR])
def test_F_05_version_6_goes_by_requested_times(tmp_path: Path, kind: TableType) -> None:
    """Case 5 on version 6: a change that a later request would hide is refused, then retried."""
    lake = Lake(tmp_path, kind, 6)
    with pytest.raises(SchemaConflictError, match="requested later"):
        Two(lake=lake, ours=B, theirs={}).play()
    lake.write([row("ours", 2, p="o", b="text")], fields=B)
    assert lake.rows()["ours"]["b"] == "text"


@guards(anything_goes)
def test_F_06_only_the_other_changes_the_schema(tmp_path: Path, world: World) -> None:
    """Case 6: the other adds a column; we commit without it, and it is not taken back."""
    lake = new(tmp_path, world)
    found = Two(lake=lake, theirs=B).play()
    assert found["theirs"]["b"] == "text"
    assert found["ours"]["b"] is None
    assert lake.columns() == ["id", "p", "ts", "v", "b"]


def goes_by_its_first_look(patch: pytest.MonkeyPatch) -> None:
    """A write goes by the schema that it saw before it was on the timeline."""

    def first(schemas: write_schemas.WriteSchemas, _: Any, writer: str) -> tuple[str | None, str]:
        return None if schemas.stored is None else schemas.stored.avro, writer

    patch.setattr(write_schemas.WriteSchemas, "at_begin", first)


@guards(goes_by_its_first_look)
@pytest.mark.parametrize("version", [6, 8, 9])
@pytest.mark.parametrize("operation", [UPSERT, WriteOperation.DELETE])
def test_F_06_a_file_that_is_written_anew_keeps_the_others_column(
    tmp_path: Path, version: int, operation: WriteOperation
) -> None:
    """Case 6: the other commits before we are on the timeline, and we write its file anew."""
    lake = Lake(tmp_path, COW, version, {**BUCKETS, "hoodie.bucket.index.num.buckets": "1"})
    lake.write([row("start", 1), row("gone", 1)])
    writing = lake.writing([row("gone", 2)], operation=operation)
    lake.write([row("theirs", 3, b="text")], fields=B)
    writing.begun()
    lake.write([row("last", 4, p="t", b="text", c=7)], fields={**B, **C})
    writing.commit()
    assert lake.rows()["theirs"]["b"] == "text"
    assert lake.rows()["last"]["c"] == 7
    assert lake.columns() == ["id", "p", "ts", "v", "b", "c"]


@guards(nothing_goes)
def test_F_07_both_make_the_same_change(tmp_path: Path, world: World) -> None:
    """Case 7: both add the same column, and both commit."""
    lake = new(tmp_path, world)
    found = Two(lake=lake, ours=B, theirs=B).play()
    assert found["ours"]["b"] == found["theirs"]["b"] == "text"
    assert lake.columns() == ["id", "p", "ts", "v", "b"]


@guards(anything_goes)
def test_F_08_both_make_different_changes(tmp_path: Path, world: World) -> None:
    """Case 8: each adds a column of its own, and the later one is refused."""
    lake = new(tmp_path, world)
    with pytest.raises(SchemaConflictError) as refused:
        Two(lake=lake, ours=C, theirs=B).play()
    assert refused.value.facts["case of RFC-82"] == "8"
    assert refused.value.facts["the other changed"] == "b string is new"
    assert refused.value.facts["this write changed"] == "c bigint is new"
    assert refused.value.overlap == {"b", "c"}
    assert_refused(lake, {"start", "theirs"})


def _refused(*_: Any, **__: Any) -> str:
    raise SchemasClashError(4, "no", frozenset())


def assert_refused(lake: Lake, left: set[str]) -> None:
    """Hold a table to what a refused write leaves: no instant, no file, no change of the schema."""
    assert set(lake.rows()) == left
    assert lake.columns() == ["id", "p", "ts", "v", "b"]
    timeline = lake.state().timeline
    assert len(timeline.writes()) == len(left)
    assert [i for i in timeline.pending if i.action is not Action.ROLLBACK] == []
    assert [path for path in lake.root.glob("*o/*") if "metadata" not in path.name] == []


@guards(anything_goes)
@pytest.mark.parametrize("kind", [COW, MOR])
@pytest.mark.parametrize("first", ["b", "c"])
def test_F_09_merging_keeps_the_columns_of_both(
    tmp_path: Path, kind: TableType, first: str
) -> None:
    """Case 8, merging by the table's word: both columns stay, the earlier commit's one first."""
    lake = Lake(tmp_path, kind, 9, MERGES)
    lake.options = {n: v for n, v in lake.options.items() if n not in MERGES}
    ours, theirs = (C, B) if first == "b" else (B, C)
    found = Two(lake=lake, ours=ours, theirs=theirs).play()
    assert lake.columns() == ["id", "p", "ts", "v", first, "c" if first == "b" else "b"]
    filled = {"ours": _filled(ours), "theirs": _filled(theirs), "start": {}}
    for key, brought in filled.items():
        assert {n: found[key][n] for n in "bc"} == {"b": None, "c": None, **brought}
    assert lake.incremental("0").keys() == found.keys()


def joins_all(patch: pytest.MonkeyPatch) -> None:
    """Types that no third holds without loss become text."""
    real = schema_conflict._JOINS
    wide = {
        **real,
        frozenset({"int", "string"}): "string",
        frozenset({"long", "string"}): "string",
        frozenset({"long", "double"}): "double",
        frozenset({"long", "float"}): "float",
    }
    patch.setattr(schema_conflict, "_JOINS", wide)


def no_joins(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(schema_conflict, "_JOINS", {})


@guards(joins_all)
def test_F_10_the_same_name_with_another_type(tmp_path: Path) -> None:
    """Both add b, as int and as text: a conflict even when changes are merged."""
    lake = Lake(tmp_path, COW, 9, MERGES)
    with pytest.raises(SchemaConflictError):
        Two(lake=lake, ours={"b": T.IntegerType()}, theirs=B).play()
    assert lake.columns() == ["id", "p", "ts", "v", "b"]


@guards(no_joins)
def test_F_10_int_and_long_make_long(tmp_path: Path) -> None:
    """Both add b, as int and as long: merged, it is long."""
    lake = Lake(tmp_path, COW, 9, MERGES)
    Two(lake=lake, ours={"b": T.IntegerType()}, theirs={"b": T.LongType()}).play()
    assert lake.rows()["ours"]["b"] == 7
    assert types_of(lake)["b"] == "long"


def types_of(lake: Lake) -> dict[str, str]:
    raw = json.loads(lake.state().schema().avro)
    return {
        f["name"]: next(t for t in f["type"] if t != "null")
        if isinstance(f["type"], list)
        else f["type"]
        for f in raw["fields"]
    }


PROMOTIONS = [(T.LongType(), T.DoubleType()), (T.LongType(), T.FloatType())]


def promoted(lake: Lake, theirs: T.DataType, ours: T.DataType) -> None:
    """Let two writers make a number wider, each its own way."""
    lake.write([row("start", 1, p="s", n=1)], fields={"n": T.IntegerType()})
    writing = lake.writing([row("ours", 2, p="o", n=2)], fields={"n": ours}).begun()
    lake.write([row("theirs", 3, p="t", n=3)], fields={"n": theirs})
    writing.commit()


@guards(anything_goes)
@pytest.mark.parametrize(("theirs", "ours"), PROMOTIONS, ids=["long-double", "long-float"])
def test_F_11_promotion_against_promotion(
    tmp_path: Path, theirs: T.DataType, ours: T.DataType
) -> None:
    """Two wider types that do not hold each other's values are a conflict."""
    lake = Lake(tmp_path, COW)
    with pytest.raises(SchemaConflictError):
        promoted(lake, theirs, ours)
    assert types_of(lake)["n"] == "long"


@guards(joins_all)
@pytest.mark.parametrize(("theirs", "ours"), PROMOTIONS, ids=["long-double", "long-float"])
def test_F_11_merging_joins_without_loss_alone(
    tmp_path: Path, theirs: T.DataType, ours: T.DataType
) -> None:
    """Merged, long against double or float stays a conflict, because it would lose digits."""
    lake = Lake(tmp_path, COW, 9, MERGES)
    with pytest.raises(SchemaConflictError):
        promoted(lake, theirs, ours)
    assert types_of(lake)["n"] == "long"


@guards(no_joins)
def test_F_11_merging_float_and_double_makes_double(tmp_path: Path) -> None:
    """Merged, float against double is double."""
    lake = Lake(tmp_path, COW, 9, MERGES)
    Two(lake=lake, ours={"b": T.FloatType()}, theirs={"b": T.DoubleType()}).play()
    assert types_of(lake)["b"] == "double"


def extends_anything(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(schema_conflict, "extends", lambda _old, _new: True)


def merges_all_changes(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(schema_conflict, "_extends", lambda _old, _new: True)


def altered(lake: Lake, change: str) -> None:
    """Let somebody else change column a without a row."""
    if change == "renamed":
        rename(lake, "a", "z")
    elif change == "dropped":
        lake.write([row("theirs", 3, p="t")], DROPS)
    else:
        fields = json.loads(lake.state().schema().avro)["fields"]
        moved = [*fields[:-2], fields[-1], fields[-2]]
        commit_schema(lake, json.dumps({**json.loads(lake.state().schema().avro), "fields": moved}))


@guards(merges_all_changes)
@pytest.mark.parametrize("change", ["renamed", "dropped", "moved"])
def test_F_12_merging_takes_additions_alone(tmp_path: Path, change: str) -> None:
    """Merging, the other renames, drops or moves a column and we add one: a conflict."""
    lake = Lake(tmp_path, COW, 9, MERGES)
    own = {"a": T.StringType()}
    lake.write([row("start", 1, p="s", a="1")], fields=own)
    writing = lake.writing([row("ours", 2, p="o", a="2", c=7)], fields={**own, **C}).begun()
    altered(lake, change)
    columns = lake.columns()
    with pytest.raises(SchemaConflictError, match="more than added columns"):
        writing.commit()
    assert lake.columns() == columns


@guards(merges_all_changes)
def test_F_12_our_drop_does_not_merge_with_an_addition(tmp_path: Path) -> None:
    """Merging, we drop a column and the other adds one: a conflict, and the column stays."""
    lake = Lake(tmp_path, COW, 9, MERGES)
    lake.write([row("start", 1, p="s", a="1")], fields={"a": T.StringType()})
    writing = lake.writing([row("ours", 2, p="o")], DROPS).begun()
    lake.write([row("theirs", 3, p="t", b="text")], fields=B)
    with pytest.raises(SchemaConflictError, match="this write's change is more"):
        writing.commit()
    assert lake.columns() == ["id", "p", "ts", "v", "a", "b"]
    lake.write([row("ours", 2, p="o", b="text")], DROPS, fields=B)
    assert lake.columns() == ["id", "p", "ts", "v", "b"]
    assert lake.rows()["theirs"]["b"] == "text"


@guards(extends_anything)
def test_F_13_a_rename_behind_our_back(tmp_path: Path) -> None:
    """Case 6 with a rename: our rows are under the old name, so we are refused."""
    lake = Lake(tmp_path, COW)
    lake.write([row("start", 1, p="s", a="1")], fields={"a": T.StringType()})
    writing = lake.writing([row("ours", 2, p="o", a="2")], fields={"a": T.StringType()}).begun()
    rename(lake, "a", "z")
    with pytest.raises(SchemaConflictError, match="renamed, dropped or moved"):
        writing.commit()


def rename(lake: Lake, old: str, new: str) -> None:
    """Commit what Apache Hudi's ALTER TABLE does: a schema, and no rows."""
    schema = lake.state().schema().avro.replace(f'"name":"{old}"', f'"name":"{new}"')
    assert new in schema
    commit_schema(lake, schema)


def commit_schema(lake: Lake, schema: str) -> None:
    writing = lake.writing([])
    txn = writing.session.begin(UPSERT, None, looked_up=False)
    txn.start()
    txn.commit([], schema=schema)


@guards(services_count)
def test_F_14_a_compaction_does_not_turn_the_schema_back(tmp_path: Path) -> None:
    """A compaction planned under S1 completes after S2 was committed: the table stays at S2."""
    lake = Lake(tmp_path, MOR, 9, BUCKETS)
    lake.write([row("a", 1)])
    lake.write([row("a", 2)])
    compactor = lake.compactor()
    planned = compactor.schedule()
    assert planned is not None
    session = compactor._session()
    with take_over(
        lake.env(),
        session.config,
        session.state.timeline,
        requested_time=planned,
        action=Action.COMPACTION,
        operation="COMPACT",
        keeper=session.keeper,
        concurrency=session.concurrency,
        roll_back=False,
    ) as txn:
        instant = find_plan(session.state.timeline, planned, Action.COMPACTION)
        lake.write([row("b", 3, b="text")], fields=B)
        compactor._carried_out(session, txn, instant)
    assert lake.columns() == ["id", "p", "ts", "v", "b"]
    assert lake.rows()["b"]["b"] == "text"
    lake.compactor().both()
    assert lake.rows()["b"]["b"] == "text"
    assert lake.columns() == ["id", "p", "ts", "v", "b"]


def compactions_go_by_the_first_schema(patch: pytest.MonkeyPatch) -> None:
    def oldest(state: TableState, _: str) -> TableSchema:
        time = state.timeline.writes()[0].completion_time or ""
        return state.schema(AsOf(time=time, basis=TimeBasis.COMPLETION))

    patch.setattr(compaction, "_schema", oldest)


@guards(compactions_go_by_the_first_schema)
def test_F_15_logs_of_every_schema_are_folded_together(tmp_path: Path) -> None:
    """Columns come and grow between writes, compactions and cleans: each row keeps its values."""
    lake = Lake(tmp_path, MOR, 9, BUCKETS)
    wider = {"v": T.DoubleType()}
    first = lake.write([row("a", 1), row("b", 1), row("c", 1)])
    lake.write([row("b", 2, b="text")], fields=B)
    owed: dict[str, tuple[Any, ...]] = {
        "a": (1, None, None),
        "b": (2, "text", None),
        "c": (1, None, None),
    }

    def found() -> dict[str, tuple[Any, ...]]:
        return {k: (r["v"], r.get("b"), r.get("c")) for k, r in lake.rows().items()}

    assert found() == owed
    lake.compactor().both()
    assert found() == owed
    lake.write([row("c", 3, 2.5, c=7)], fields={**wider, **C})  # type: ignore[arg-type]
    lake.write([row("a", 4)])
    owed |= {"a": (4, None, None), "c": (2.5, None, 7)}
    assert found() == owed
    lake.compactor().both()
    lake.table_services({"hoodie.clean.commits.retained": "1"}).clean()
    assert found() == owed
    assert types_of(lake)["v"] == "double"
    assert lake.incremental(first.completion_time or "").keys() == {"a", "b", "c"}


NESTED = T.StructType([T.StructField("x", T.IntegerType())])
WITH_Y = T.StructType([*NESTED.fields, T.StructField("y", T.StringType())])
WITH_Z = T.StructType([T.StructField("x", T.LongType()), T.StructField("z", T.LongType())])


def nested(lake: Lake, wrap: Any) -> dict[str, dict[str, Any]]:
    """Let two writers change a struct, each its own way."""

    def value(**fields: Any) -> Any:
        return [fields] if wrap is T.ArrayType else fields

    def fields(kind: T.StructType) -> Fields:
        return {"n": wrap(kind) if wrap is T.ArrayType else kind}

    lake.write([row("start", 1, p="s", n=value(x=1))], fields=fields(NESTED))
    ours = row("ours", 2, p="o", n=value(x=1 << 40, z=2))
    writing = lake.writing([ours], fields=fields(WITH_Z)).begun()
    lake.write([row("theirs", 3, p="t", n=value(x=3, y="text"))], fields=fields(WITH_Y))
    writing.commit()
    return {k: r["n"][0] if wrap is T.ArrayType else r["n"] for k, r in lake.rows().items()}


@guards(anything_goes)
@pytest.mark.parametrize("wrap", [None, T.ArrayType], ids=["struct", "array"])
def test_F_18_changes_inside_a_column_count(tmp_path: Path, wrap: Any) -> None:
    """Two writers add fields to one struct, alone or in an array: a conflict, or merged both."""
    refusing = Lake(tmp_path / "refusing", COW)
    with pytest.raises(SchemaConflictError):
        nested(refusing, wrap)
    assert set(refusing.rows()) == {"start", "theirs"}
    assert nested(Lake(tmp_path / "merging", MOR, 9, MERGES), wrap) == {
        "start": {"x": 1, "y": None, "z": None},
        "theirs": {"x": 3, "y": "text", "z": None},
        "ours": {"x": 1 << 40, "y": None, "z": 2},
    }


def newest_by_request(patch: pytest.MonkeyPatch) -> None:
    by_request = lambda _config, timeline: timeline.writes()  # noqa: E731
    patch.setattr("tidelake.txn.protocol.transaction.writes_in_order", by_request)
    patch.setattr(
        "tidelake.state.table_state.TableState.writes_by_time", lambda s: s.timeline.writes()
    )


@guards(newest_by_request)
@pytest.mark.parametrize("version", [8, 9])
def test_F_16_the_newest_schema_is_that_of_the_latest_completion(
    tmp_path: Path, version: int
) -> None:
    """A (S2) [1,9] and B (S1) [2,4]: whoever comes at 10 finds S2."""
    lake = Lake(tmp_path, COW, version)
    lake.write([row("start", 1, p="s")])
    first = lake.writing([row("a", 2, p="o", b="text")], fields=B).begun()
    second = lake.writing([row("b", 3, p="t")]).begun()
    second.commit()
    first.commit()
    assert lake.columns() == ["id", "p", "ts", "v", "b"]
    late = lake.writing([row("c", 4, p="u", b="late")], fields=B).begun()
    late.commit()
    assert lake.rows()["c"]["b"] == "late"


def deletes_have_a_schema(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(write_schemas, "_WITHOUT_SCHEMA", frozenset())


@guards(deletes_have_a_schema)
def test_F_17_a_delete_has_no_schema_of_its_own(tmp_path: Path) -> None:
    """A delete adopts the table's schema as it is by then, even after a rename."""
    lake = Lake(tmp_path, COW)
    lake.write(
        [row("start", 1, p="s", a="1"), row("b", 1, p="t", a="1")], fields={"a": T.StringType()}
    )
    deleting = lake.writing([row("b", 2, p="t")], operation=WriteOperation.DELETE).begun()
    rename(lake, "a", "z")
    deleting.commit()
    assert lake.columns() == ["id", "p", "ts", "v", "z"]


@guards(anything_goes)
def test_F_19_a_schema_conflict_is_gone_on_a_retry(tmp_path: Path) -> None:
    """Case 8 with a retry: the second attempt starts at S2, and S2 with our column is committed."""
    lake = Lake(tmp_path, COW)
    lake.write([row("start", 1, p="s")])
    attempts: list[int] = []

    def attempt() -> Commit:
        attempts.append(1)
        writing = lake.writing([row("ours", 2, p="o", c=7)], fields=C).begun()
        if len(attempts) == 1:
            lake.write([row("theirs", 3, p="t", b="text")], fields=B)
        return writing.commit()

    clock = ManualClock()
    done = retry_on_conflict(Env(lake.storage, clock), 1, attempt)
    assert done.attempts == len(attempts) == 2
    assert lake.columns() == ["id", "p", "ts", "v", "b", "c"]
    assert lake.rows()["ours"]["c"] == 7
    assert lake.rows()["theirs"]["b"] == "text"


def clusterings_say_the_schema(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(table_schema, "_SERVICES", frozenset({"COMPACT"}))


@guards(clusterings_say_the_schema)
def test_F_20_a_long_clustering_leaves_the_schema_alone(tmp_path: Path) -> None:
    """A clustering that was planned before a new column does not take it off the table."""
    lake = Lake(tmp_path, COW)
    lake.write([row("a", 1, p="s")])
    before = lake.state().schema().avro
    clustering = Clustering(lake, "p=s")
    clustering.start()
    lake.write([row("b", 2, p="t", b="text")], fields=B)
    clustering.commit(schema=before)
    assert lake.columns() == ["id", "p", "ts", "v", "b"]
    assert lake.rows()["b"]["b"] == "text"
    assert lake.rows()["a"]["b"] is None


COLUMNS = st.dictionaries(
    st.sampled_from(["b", "c", "d"]),
    st.sampled_from([T.LongType(), T.StringType(), T.IntegerType()]),
    max_size=3,
)


@settings(
    max_examples=12,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
    derandomize=True,
)
@given(ours=COLUMNS, theirs=COLUMNS)
def test_merged_schemas_read_every_row(
    tmp_path_factory: pytest.TempPathFactory, ours: Fields, theirs: Fields
) -> None:
    """Whatever two writers add, each row reads back as it was written, or a writer is refused."""
    lake = Lake(tmp_path_factory.mktemp("merged"), COW, 9, MERGES)
    refused = False
    try:
        found = Two(lake=lake, ours=ours, theirs=theirs).play()
    except SchemaConflictError:
        refused, found = True, lake.rows()
    assert set(found) == {"start", "theirs"} | (set() if refused else {"ours"})
    for key, fields in (("theirs", theirs), ("ours", {} if refused else ours)):
        for name, value in _filled(fields).items():
            assert found[key][name] == value
    assert refused == any(_kinds_clash(ours.get(n), theirs.get(n)) for n in {*ours, *theirs})


def _kinds_clash(one: T.DataType | None, other: T.DataType | None) -> bool:
    if one is None or other is None or one == other:
        return False
    return T.StringType() in (one, other)


def merges_regardless(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(write_schemas.WriteSchemas, "merges", property(lambda _: True))


@guards(merges_regardless)
def test_F_08_non_blocking_writers_merge_partial_rows_alone(tmp_path: Path) -> None:
    """Case 8, merging, without blocking: whole rows would null the other's column: refused."""
    lake = Lake(tmp_path, MOR, 9, {**NBCC, **BUCKETS, **MERGES})
    with pytest.raises(SchemaConflictError):
        Two(lake=lake, ours=C, theirs=B).play()
    partial = {"hoodie.write.partial.update.schema": "*"}
    lake.write([row("ours", 2, p="o", c=7)], partial, fields=C)
    assert lake.columns() == ["id", "p", "ts", "v", "b", "c"]
