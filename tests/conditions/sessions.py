"""Settings of a session under which a text of SQL means one thing or another."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from random import Random  # noqa: TID251 - seeded

from pyspark.sql import SparkSession

_ZONES = (
    *("UTC", "America/New_York", "Europe/Berlin", "Asia/Kolkata", "Australia/Lord_Howe"),
    *("Pacific/Apia", "+18:00", "-18:00"),
)
_SWITCHES = (
    "spark.sql.caseSensitive",
    "spark.sql.ansi.doubleQuotedIdentifiers",
    "spark.sql.parser.escapedStringLiterals",
    "spark.sql.legacy.typeCoercion.datetimeToString.enabled",
    "spark.sql.legacy.exponentLiteralAsDecimal.enabled",
    "spark.sql.legacy.consecutiveStringLiterals.enabled",
    "spark.sql.parser.quotedRegexColumnNames",
    "spark.sql.ansi.enforceReservedKeywords",
    "spark.sql.legacy.bangEqualsNot",
    "spark.sql.legacy.duplicateBetweenInput",
)
#: Rules that make plans faster and no answer another one: with them a batch takes twenty times as
#: long.
_OPTIMIZER = "org.apache.spark.sql.catalyst.optimizer."
_RULES = (
    *("SimplifyCasts", "BooleanSimplification", "NullPropagation", "ConstantPropagation"),
    *("OptimizeIn", "LikeSimplification", "ReorderAssociativeOperator", "SimplifyConditionals"),
    *("PushFoldableIntoBranches", "SimplifyBinaryComparison", "UnwrapCastInBinaryComparison"),
    *("CombineConcats", "FoldablePropagation", "ColumnPruning", "NestedColumnAliasing"),
    *("OptimizeCsvJsonExprs", "CollapseProject", "ReplaceNullWithFalseInPredicate"),
    *("SimplifyExtractValueOps", "SimplifyCaseConversionExpressions", "ConstantFolding"),
)
#: What a text may ask for in the place of `${...}`.
VARIABLES = {"test.word": "a", "test.number": "7", "test.quoted": "'a'"}


def drawn(chance: Random) -> dict[str, str]:
    """Return settings of a session; the usual ones come often."""
    made = {
        "spark.sql.ansi.enabled": chance.choice(["true", "TRUE", "false", "False", "false", ""]),
        "spark.sql.session.timeZone": chance.choice(_ZONES),
        "spark.sql.timestampType": chance.choice(
            ["TIMESTAMP_LTZ", "TIMESTAMP_LTZ", "TIMESTAMP_NTZ"]
        ),
        "spark.sql.legacy.timeParserPolicy": chance.choice(["CORRECTED", "LEGACY", "EXCEPTION"]),
    }
    for name in _SWITCHES:
        if chance.random() < 0.15:
            made[name] = chance.choice(["true", "True"])
    if chance.random() < 0.97:
        made["spark.sql.codegen.wholeStage"] = "false"
        made["spark.sql.codegen.factoryMode"] = "NO_CODEGEN"
        made["spark.sql.optimizer.excludedRules"] = ",".join(_OPTIMIZER + r for r in _RULES)
    return {name: value for name, value in made.items() if value}


def told(settings: Mapping[str, str]) -> str:
    """Return the settings that bear on answers."""
    return str(
        {
            n: value
            for n, value in settings.items()
            if _OPTIMIZER not in value and "codegen" not in n
        }
    )


def has_quoted_names(settings: Mapping[str, str]) -> bool:
    """Return whether double quotes hold names."""
    is_ansi = settings.get("spark.sql.ansi.enabled", "true").lower() == "true"
    return is_ansi and "spark.sql.ansi.doubleQuotedIdentifiers" in settings


@contextmanager
def under(spark: SparkSession, settings: Mapping[str, str]) -> Iterator[None]:
    """Set what a session is to do, and take it back."""
    given = {**VARIABLES, **settings}
    # Without a default of its own a setting that nobody made is none here.
    before = {name: spark.conf.get(name, None) for name in given}
    for name, value in given.items():
        spark.conf.set(name, value)
    try:
        yield
    finally:
        for name, earlier in before.items():
            if earlier is None:
                spark.conf.unset(name)
            else:
                spark.conf.set(name, earlier)
