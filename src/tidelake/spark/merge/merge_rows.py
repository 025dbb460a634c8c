"""The rows of a merge: the table joined with the source, and what the clauses make of each pair."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from operator import and_, or_

import pyarrow as pa
from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame, Row
from pyspark.sql import functions as F  # noqa: N812 - the customary name
from pyspark.sql import types as T  # noqa: N812

from tidelake.errors import SchemaError
from tidelake.files.write_task import CHANGE, CHECK, COLUMNS, GROUP, Change
from tidelake.records import MergeSpec
from tidelake.records.schema import FILE_NAME, PARTITION_PATH, RECORD_KEY, top_level
from tidelake.spark.merge.merge_clauses import Deed, Expression, MergeRequest, Side
from tidelake.spark.merge.merge_plan import (
    ClausePlan,
    FromSource,
    FromTarget,
    MergePlan,
    On,
    Value,
    matching,
    mentions,
    sides,
    table_word,
)
from tidelake.spark.session.sql_settings import spark_reason
from tidelake.spark.types.fitting import Typed
from tidelake.spark.workers.worker_process import mapped
from tidelake.spark.write.incoming_rows import ODD, Incoming, content_hash, unreadable_rows
from tidelake.spark.write.key_columns import KeyColumns, bucket
from tidelake.spark.write.ordering import is_older_than
from tidelake.write.index import Index
from tidelake.write.key_spec import KeySpec
from tidelake.write.plan import Workload
from tidelake.write.refused_rows import bad_rows

_HERE = "_tidelake_target"
_THERE = "_tidelake_source"
_CLAUSE = "_tidelake_clause"
_OLD_KEY = "_tidelake_old_key"
_OLD_PATH = "_tidelake_old_path"
_OLD_FILE = "_tidelake_old_file"
_OLD_ORDER = "_tidelake_old_order_"
_NEW_KEY = "_tidelake_new_key"
_NEW_PATH = "_tidelake_new_path"
_MISFIT = "_tidelake_misfit_"
_STALE = "_tidelake_stale"
_UNSURE = "_tidelake_unsure"
_BAD = "_tidelake_bad_"
_CHANGE_OF = {
    Deed.UPDATE: Change.UPDATE,
    Deed.DELETE: Change.DELETE,
    Deed.INSERT: Change.INSERT,
}
_BUCKETS = r"^[0-9]{8}"


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeRows:
    """Makes the rows of one merge.

    `columns` are those of the table after it, with their types, and `required` those of them that
    may not be null. `stale_by` are ordering columns: a row whose values are lower than those that
    the table has is left out.
    """

    request: MergeRequest
    plan: MergePlan
    on: On
    columns: T.StructType
    required: frozenset[str]
    keys: KeySpec
    index: Index
    merge: MergeSpec
    stale_by: Sequence[str] = ()

    def partition_paths(self, source: DataFrame) -> DataFrame | None:
        """Return the partitions in which matches can be, as far as the source tells."""
        fields = [field.name for field in self.keys.partition]
        own = {f.name: f.dataType for f in source.schema.fields}
        if not fields or any(name not in own for name in fields):
            return None
        if self.on.by_identity:
            if self.index.type.is_global:
                return None
        elif not set(fields) <= set(self.on.names) or any(
            # Equal values of two types may be spelled in two ways, and so may 0 and -0.
            own[name] != self.columns[name].dataType
            or isinstance(own[name], T.FloatType | T.DoubleType)
            for name in fields
        ):
            return None
        spec = replace(self.keys, fields=(), named=False)
        paths = KeyColumns(source.sparkSession, spec, source.schema)
        found = source.select(paths.partition_path().alias(PARTITION_PATH))
        # Each task names its own, which takes no shuffle; there are few of them.
        return mapped(found, _distinct_rows, found.schema)

    def changes(self, target: DataFrame, source: DataFrame) -> Incoming:
        """Return the rows to write, each with what it does to the table.

        `target` are rows of the table with their meta columns. Raises `SchemaError` for expressions
        that do not fit the two.
        """
        try:
            named, theirs = self._named(target), self._with_aliases(source, target.columns)
            joined = named.join(theirs, self._matches(named, theirs), self._join())
            made = self._chosen(joined, target, source)
        except AnalysisException as cause:
            raise self.unfit(cause, source.columns) from cause
        return self._placed(made)

    def _named(self, target: DataFrame) -> DataFrame:
        """Return the table's rows under the names that expressions use."""
        expressions = self.request.expressions()
        word = table_word(expressions)
        frame = target.select("*", F.lit(True).alias(_HERE))
        if word != "t" and mentions(expressions, "t") and "t" not in target.columns:
            frame = _with_struct(frame, target, "t")
        return frame.alias(word)

    def _with_aliases(self, source: DataFrame, of_table: Sequence[str]) -> DataFrame:
        """Return the source with a mark, its keys and paths, and the names that expressions use.

        A column that is called the same, on either side, would be taken for a struct of that name.
        """
        made = [F.lit(True).alias(_THERE)]
        if self.on.by_identity:
            spec = self._keys_of_match(source)
            keys = KeyColumns(source.sparkSession, spec, source.schema)
            made += [keys.record_key().alias(_NEW_KEY), keys.partition_path().alias(_NEW_PATH)]
        frame = source.select("*", *made)
        for name in ("source", "s"):
            if mentions(self.request.expressions(), name):
                if matching(name, (*source.columns, *of_table)) is not None:
                    frame = frame.alias(name)
                else:
                    frame = _with_struct(frame, source, name)
        return frame

    def _keys_of_match(self, source: DataFrame) -> KeySpec:
        """Return what makes two rows the same: the path counts where keys repeat across it."""
        told = all(matching(f.name, source.columns) for f in self.keys.partition)
        if self.index.type.is_global or not told:
            return replace(self.keys, partition=())
        return self.keys

    def _matches(self, target: DataFrame, source: DataFrame) -> Column:
        if self.on.by_identity:
            same = target[RECORD_KEY] == F.col(_NEW_KEY)
            if self._keys_of_match(source).partition:
                same &= target[PARTITION_PATH] == F.col(_NEW_PATH)
            return same
        if self.on.condition is not None:
            return self._column(self.on.condition, target)
        names = [(name, matching(name, source.columns) or name) for name in self.on.names]
        return reduce(and_, (target[f"`{a}`"] == source[f"`{b}`"] for a, b in names))

    def _join(self) -> str:
        _, new, left = sides(self.request)
        if new:
            return "full" if left else "right"
        return "left" if left else "inner"

    def _chosen(self, joined: DataFrame, target: DataFrame, source: DataFrame) -> DataFrame:
        """Return the pairs that a clause applies to, with the values that it makes."""
        here, there = F.col(_HERE).isNotNull(), F.col(_THERE).isNotNull()
        of_side = {
            Side.MATCHED: here & there,
            Side.NOT_MATCHED: ~here & there,
            Side.NOT_MATCHED_BY_SOURCE: here & ~there,
        }
        number: Column | None = None
        for at, plan in enumerate(self.plan.clauses):
            applies = of_side[plan.clause.side]
            if plan.clause.condition is not None:
                applies &= self._column(plan.clause.condition, target)
            number = F.when(applies, at) if number is None else number.when(applies, at)
        assert number is not None
        picked = joined.select("*", number.alias(_CLAUSE)).where(F.col(_CLAUSE).isNotNull())
        values = self._typed(picked, target, source)
        old = [target[f"`{name}`"].alias(f"{_OLD_ORDER}{name}") for name in self._ordering()]
        return picked.select(
            *(self._by_clause(f.name, f.dataType, values).alias(f.name) for f in self.columns),
            *(
                self._misfit(f.name, f.dataType, values).alias(f"{_MISFIT}{f.name}")
                for f in self._doubtful(values)
            ),
            _CLAUSE,
            target[RECORD_KEY].alias(_OLD_KEY),
            target[PARTITION_PATH].alias(_OLD_PATH),
            F.substring_index(target[FILE_NAME], "_", 1).alias(_OLD_FILE),
            *old,
        )

    def _typed(
        self, picked: DataFrame, target: DataFrame, source: DataFrame
    ) -> list[dict[str, Typed]]:
        """Return the value of each column in each clause, with its type."""
        found: list[dict[str, Column]] = []
        for plan in self.plan.clauses:
            made = {name: self._value(v, target, source) for name, v in plan.values.items()}
            found.append({name: column for name, column in made.items() if column is not None})
        flat = [column for values in found for column in values.values()]
        kinds = iter(picked.select(*(c.alias(str(at)) for at, c in enumerate(flat))).schema.fields)
        return [
            {name: Typed(column, next(kinds).dataType) for name, column in values.items()}
            for values in found
        ]

    def _value(self, value: Value, target: DataFrame, source: DataFrame) -> Column | None:
        if isinstance(value, FromSource):
            return source[f"`{value.name}`"]
        if isinstance(value, FromTarget):
            # A column that the merge adds is null so far.
            return target[f"`{value.name}`"] if value.name in target.columns else None
        return self._column(value, target)

    def _column(self, expression: Expression, target: DataFrame) -> Column:
        """Return an expression; all columns of the table are those of its user, in their order."""
        if not isinstance(expression, str):
            return expression
        if "*" not in expression:
            return F.expr(expression)
        from tidelake.spark.merge.conditions import with_named_columns  # see `merge_plan.mentions`

        word = table_word(self.request.expressions())
        own = [name for name in self.columns.names if name in target.columns]
        return F.expr(with_named_columns(expression, word, own))

    def _by_clause(
        self, name: str, kind: T.DataType, values: Sequence[Mapping[str, Typed]]
    ) -> Column:
        made = F.when(F.lit(False), F.lit(None).cast(kind))
        for at, own in enumerate(values):
            if name in own:
                made = made.when(F.col(_CLAUSE) == at, own[name].fitted(kind))
        return made

    def _doubtful(self, values: Sequence[Mapping[str, Typed]]) -> list[T.StructField]:
        """Return the columns that get values of a type which theirs may not hold."""
        return [
            f
            for f in self.columns.fields
            if any(f.name in own and not own[f.name].surely_fits(f.dataType) for own in values)
        ]

    def _misfit(self, name: str, kind: T.DataType, values: Sequence[Mapping[str, Typed]]) -> Column:
        made = F.when(F.lit(False), F.lit(False))
        for at, own in enumerate(values):
            if name in own and not own[name].surely_fits(kind):
                made = made.when(F.col(_CLAUSE) == at, own[name].is_lost(kind))
        return F.coalesce(made, F.lit(False))

    def _ordering(self) -> list[str]:
        names = top_level(self.stale_by)
        return names if any(self._assigns(name) for name in names) else []

    def _assigns(self, name: str) -> bool:
        return any(
            plan.clause.deed is Deed.UPDATE
            and name in plan.values
            and not isinstance(plan.values[name], FromTarget)
            for plan in self.plan.clauses
        )

    def _placed(self, made: DataFrame) -> Incoming:
        """Return the rows with keys, paths, groups, and what is wrong with them."""
        plans = list(enumerate(self.plan.clauses))
        inserts = [at for at, plan in plans if plan.clause.deed is Deed.INSERT]
        checked = [at for at, plan in plans if plan.checks_identity]
        is_insert = _is_one_of(inserts)
        key, path = F.col(_OLD_KEY), F.col(_OLD_PATH)
        group = F.col(_OLD_FILE)
        odd = F.lit(False)
        if self.index.is_simple_bucket:
            group = F.when(group.rlike(_BUCKETS), F.substring(group, 1, 8)).otherwise(group)
        bad: dict[str, Column] = {}
        if inserts or checked:
            keys = KeyColumns(made.sparkSession, self.keys, made.schema)
            new_key, new_path = keys.record_key(), keys.partition_path()
            if inserts:
                key = F.when(is_insert, new_key).otherwise(key)
                path = F.when(is_insert, new_path).otherwise(path)
                if self.index.is_simple_bucket:
                    fields, count = self.index.hash_fields, self.index.buckets
                    number = F.lpad(bucket(keys.hashed_parts(fields), count).cast("string"), 8, "0")
                    group = F.when(is_insert, number).otherwise(group)
                    odd = is_insert & keys.is_oddly_hashed(fields)
                if not self.keys.is_made_up:
                    names = ", ".join(self.keys.fields)
                    bad[f"no value in the record key ({names})"] = is_insert & keys.is_bad_key()
                if self.keys.partition:
                    names = ", ".join(f.name for f in self.keys.partition)
                    bad[f"no value in a partition field ({names})"] = (
                        is_insert & keys.is_bad_partition()
                    )
                    bad[unreadable_rows(self.keys)] = is_insert & keys.is_unreadable_partition()
            if checked:
                moved = ~(new_key.eqNullSafe(key) & new_path.eqNullSafe(path))
                if self.keys.is_made_up:
                    moved = ~new_path.eqNullSafe(path)
                bad["values that would give it another key or partition"] = (
                    _is_one_of(checked) & moved
                )
        bad |= self._null_where_required()
        bad |= {
            f"a value that column {name.removeprefix(_MISFIT)} does not hold": F.col(f"`{name}`")
            for name in made.columns
            if name.startswith(_MISFIT)
        }
        columns = self.columns.names
        check = F.xxhash64(key, path)
        if inserts and self.keys.is_made_up:
            check = F.when(is_insert, content_hash(made, columns)).otherwise(check)
        placed = made.select(
            *(F.col(f"`{name}`") for name in columns),
            key.alias(RECORD_KEY),
            path.alias(PARTITION_PATH),
            check.alias(CHECK),
            group.alias(GROUP),
            odd.alias(ODD),
            self._per_clause(lambda plan: int(_CHANGE_OF[plan.clause.deed])).alias(CHANGE),
            self._per_clause(lambda plan: plan.column_set).alias(COLUMNS),
            self._is_stale(made).alias(_STALE),
            self._may_be_known().alias(_UNSURE),
            *(condition.alias(f"{_BAD}{at}") for at, condition in enumerate(bad.values())),
        )
        flags = {problem: F.col(f"{_BAD}{at}") for at, problem in enumerate(bad)}
        return Incoming(placed, tuple(columns), flags)

    def _may_be_known(self) -> Column:
        """Return whether a row is inserted although the table may have its key."""
        matched_by = None if self.on.by_identity else frozenset(self.on.names)
        sure: list[int] = []
        unsure: list[int] = []
        for at, plan in enumerate(self.plan.clauses):
            if plan.clause.deed is Deed.INSERT:
                made = plan.made if matched_by is None else plan.made & matched_by
                (sure if self.on.covers_identity and not made else unsure).append(at)
        nulls = (F.col(f"`{name}`").isNull() for name in self.on.may_be_null)
        return _is_one_of(unsure) | (_is_one_of(sure) & reduce(or_, nulls, F.lit(False)))

    def _null_where_required(self) -> dict[str, Column]:
        found = {}
        for name in sorted(self.required):
            brought = [at for at, plan in enumerate(self.plan.clauses) if name in plan.values]
            if brought:
                problem = f"null in {name}, which the table requires"
                found[problem] = _is_one_of(brought) & F.col(f"`{name}`").isNull()
        return found

    def _is_stale(self, made: DataFrame) -> Column:
        """Return whether a row is older than the one that the table has."""
        if not self._ordering():
            return F.lit(False)
        lower = is_older_than(made, self.stale_by, _OLD_ORDER, self.merge)
        updates = [
            at for at, plan in enumerate(self.plan.clauses) if plan.clause.deed is Deed.UPDATE
        ]
        return F.coalesce(_is_one_of(updates) & lower, F.lit(False))

    def _per_clause(self, number: Callable[[ClausePlan], int | None]) -> Column:
        made = F.when(F.lit(False), F.lit(None).cast("int"))
        for at, plan in enumerate(self.plan.clauses):
            made = made.when(F.col(_CLAUSE) == at, F.lit(number(plan)).cast("int"))
        return made

    def unfit(self, cause: AnalysisException, columns: Sequence[str]) -> SchemaError:
        """Return the error for an expression that Spark does not understand."""
        return SchemaError(
            f"the merge does not fit the table and the source: {spark_reason(cause)}",
            next_step="name columns as target.x and source.x; the table has "
            f"{', '.join(self.columns.names)}, the source has {', '.join(columns)}",
        )


def _is_one_of(clauses: Sequence[int]) -> Column:
    return F.col(_CLAUSE).isin(*clauses) if clauses else F.lit(False)


def _with_struct(frame: DataFrame, of: DataFrame, name: str) -> DataFrame:
    """Return the frame with the columns of another once more, as fields of a struct."""
    return frame.select("*", F.struct(*(of[f"`{n}`"] for n in of.columns)).alias(name))


def _distinct_rows(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    seen: set[str | None] = set()
    for batch in batches:
        seen.update(batch.column(0).unique().to_pylist())
    yield pa.RecordBatch.from_pydict({PARTITION_PATH: pa.array(list(seen), pa.string())})


def count_changes(rows: Incoming, *, may_match_twice: bool) -> tuple[Workload, int]:
    """Run the rows once and count them; raise `SchemaError` for rows that may not be written.

    That includes rows of the table which several source rows match, unless that is fine. The second
    number is of rows to insert whose keys are still to be looked for; see `unsure_inserts`.
    """
    problems = list(rows.bad)
    counts = F.col(_STALE) == F.lit(False)
    by = [PARTITION_PATH, GROUP]
    each = rows.frame.groupBy(*by, *([] if may_match_twice else [RECORD_KEY])).agg(
        F.count_if(counts).alias("rows"),
        F.bit_xor(F.when(counts, F.col(CHECK))).alias("check"),
        F.count_if(counts & F.col(ODD)).alias("odd"),
        F.count_if(F.col(CHANGE) != int(Change.INSERT)).alias("matches"),
        F.count_if(counts & F.col(_UNSURE)).alias("unsure"),
        *(F.count_if(rows.bad[p]).alias(f"bad{at}") for at, p in enumerate(problems)),
    )
    if not may_match_twice:
        twice = F.col("matches") > 1
        each = each.groupBy(*by).agg(
            *(
                F.sum(n).alias(n)
                for n in ("rows", "odd", "unsure", *(f"bad{at}" for at in range(len(problems))))
            ),
            F.bit_xor("check").alias("check"),
            F.count_if(twice).alias("twice"),
            F.max(F.when(twice, F.col(RECORD_KEY))).alias("example"),
        )
    found = each.collect()
    if not may_match_twice:
        _refuse_matched_twice(found)
    for at, problem in enumerate(problems):
        wrong = sum(row[f"bad{at}"] for row in found)
        if wrong:
            raise bad_rows(problem, wrong)
    checksum = 0
    for row in found:
        checksum ^= row["check"] or 0
    workload = Workload(
        counts={(row[PARTITION_PATH], row[GROUP]): row["rows"] for row in found if row["rows"]},
        checksum=checksum,
        oddly_hashed=sum(row["odd"] for row in found),
    )
    return workload, sum(row["unsure"] for row in found)


def unsure_inserts(rows: Incoming) -> Incoming:
    """Return the rows to insert of which no match says that the table lacks their keys."""
    return rows.with_frame(rows.frame.where(F.col(_UNSURE)))


def without_stale(rows: Incoming) -> Incoming:
    """Return the rows that take effect."""
    return rows.with_frame(rows.frame.where(~F.col(_STALE)))


def _refuse_matched_twice(found: Sequence[Row]) -> None:
    count = sum(row["twice"] for row in found)
    if count:
        example = next(row["example"] for row in found if row["twice"])
        raise SchemaError(
            f"{count} row{'s' if count > 1 else ''} of the table, such as the one with key "
            f"{example!r}, match{'' if count > 1 else 'es'} several rows of the source, and which "
            "of them counts is not said",
            next_step="leave one source row for each, such as the newest; nothing was written",
        )
