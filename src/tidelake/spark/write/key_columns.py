"""Record keys, partition paths and buckets as Spark expressions."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the customary name
from pyspark.sql import types as T  # noqa: N812

from tidelake.config import NullPartitionPolicy, PartitionFieldType
from tidelake.errors import ConfigError, SchemaError
from tidelake.formats.partition_path import (
    DEFAULT_PARTITION,
    ENCODED_TEXT,
    MOST_NAME_BYTES,
    UNREADABLE_PATH,
)
from tidelake.write.key_spec import UNIT_MS, KeySpec, PartitionField, input_unit

_NULL_PART = "__null__"
_EMPTY_PART = "__empty__"
_UNSAFE = "\"#%'*/:=?\\{[]^\x7f" + "".join(map(chr, range(0x20)))
_UNSAFE_PATTERN = "[\\x00-\\x1f\\x7f\"#%'*/:=?\\\\{\\[\\]^]"
#: Below this scale Java prints a decimal without an exponent, whatever its value.
_PLAIN_SCALE = 6


class KeyColumns:
    """The key generator of a table over rows of one schema.

    Raises `SchemaError` when a key or partition field is no column of the rows, or is of a type
    that has no text.
    """

    def __init__(self, spark: SparkSession, spec: KeySpec, schema: T.StructType) -> None:
        self._spec = spec
        self._schema = schema
        self._zone = spark.conf.get("spark.sql.session.timeZone") or "UTC"
        self._parts = [self._text(name, "record key") for name in spec.fields]
        for field in spec.partition:
            field_type(schema, field.name, "partition")

    def record_key(self) -> Column:
        """Return the record key; null when keys are made up."""
        if self._spec.is_made_up:
            return F.lit(None).cast("string")
        if not self._spec.named:
            return self._parts[0]
        parts = [
            F.concat(F.lit(f"{name}:"), _placeholder(text))
            for name, text in zip(self._spec.fields, self._parts, strict=True)
        ]
        return F.concat_ws(",", *parts) if len(parts) > 1 else parts[0]

    def copied(self) -> str | None:
        """Return the column whose values are the record keys as they are, if there is one."""
        if self._spec.named or len(self._spec.fields) != 1:
            return None
        name = self._spec.fields[0]
        is_text = isinstance(field_type(self._schema, name, "record key"), T.StringType)
        return name if is_text and name in self._schema.names else None

    def hashed_parts(self, fields: Sequence[str]) -> list[Column]:
        """Return the texts that Hudi's bucket index hashes for some of the key fields.

        A key of one field is hashed as it is spelled, name included; null parts hash like empty
        ones.
        """
        if len(self._parts) == 1:
            return [self.record_key()]
        parts = [self._parts[self._spec.fields.index(name)] for name in fields]
        # What looks like a placeholder is taken for one.
        return [F.when(~part.isin(_NULL_PART, _EMPTY_PART), part) for part in parts]

    def is_oddly_hashed(self, fields: Sequence[str]) -> Column:
        """Return whether Hudi may take the key apart in another way than it was put together.

        The bucket index hashes what it finds in the text of a key, where a comma in a value may
        look like the end of it.
        """
        if len(self._parts) == 1 and not self._spec.named:
            key = self._parts[0]
            return key.contains(",") & F.instr(key, f"{fields[0]}:").cast("boolean")
        return reduce(lambda a, b: a | b, (part.contains(",") for part in self._parts))

    def is_bad_key(self) -> Column:
        """Return whether a row has no key: a single field without value, or all fields."""
        if self._spec.is_made_up:
            return F.lit(False)
        empty = [text.isNull() | (text == "") for text in self._parts]
        return reduce(lambda a, b: a & b, empty)

    def is_bad_partition(self) -> Column:
        """Return whether a row lacks a partition value that it must have."""
        if not self._spec.partition or self._spec.null_partition is NullPartitionPolicy.DEFAULT:
            return F.lit(False)
        nulls = [_column(field.name).isNull() for field in self._spec.partition]
        return reduce(lambda a, b: a | b, nulls)

    def is_unreadable_partition(self) -> Column:
        """Return whether `formats.partition_path.unreadable` refuses a row's partition."""
        plain = T.NumericType | T.BooleanType | T.DateType
        bad = F.lit(False)
        names = [field.name for field in self._spec.partition]
        for field in self._spec.partition:
            is_formatted = field.kind is PartitionFieldType.TIMESTAMP
            if not is_formatted and isinstance(
                field_type(self._schema, field.name, "partition"), plain
            ):
                continue
            made = self._path_part(field)
            lengths = F.transform(F.split(made, "/"), F.octet_length)
            bad = bad | made.rlike(UNREADABLE_PATH) | (F.array_max(lengths) > MOST_NAME_BYTES)
            if is_formatted:
                continue
            text = self._text(field.name, "partition")
            bad = bad | F.coalesce(text == DEFAULT_PARTITION, F.lit(False))
            if self._spec.url_encode:
                continue
            bad = bad | F.coalesce(text.rlike(ENCODED_TEXT), F.lit(False))
            for name in names if self._spec.hive_style and len(names) > 1 else ():
                bad = bad | F.coalesce(text.contains(f"/{name}="), F.lit(False))
        return bad

    def partition_path(self) -> Column:
        """Return the partition path."""
        parts = [self._path_part(field) for field in self._spec.partition]
        if not parts:
            return F.lit("")
        return F.concat_ws("/", *parts) if len(parts) > 1 else parts[0]

    def _path_part(self, field: PartitionField) -> Column:
        if field.kind is PartitionFieldType.TIMESTAMP:
            text = self._formatted_time(field.name)
        else:
            text = self._text(field.name, "partition")
        text = F.when(text.isNull() | (text == ""), DEFAULT_PARTITION).otherwise(text)
        if self._spec.url_encode:
            text = _escaped(text)
        return F.concat(F.lit(f"{field.name}="), text) if self._spec.hive_style else text

    def _text(self, name: str, role: str) -> Column:
        kind = field_type(self._schema, name, role)
        column = _column(name)
        if isinstance(kind, T.StringType):
            return column
        if isinstance(kind, T.BinaryType):
            return F.lower(F.hex(column))
        if isinstance(kind, T.TimestampType):
            if self._spec.consistent_timestamps:
                return _java_timestamp(column)
            return F.unix_micros(column).cast("string")
        if isinstance(kind, T.TimestampNTZType):
            if self._spec.consistent_timestamps:
                return _java_timestamp(column)
            return F.unix_micros(F.to_utc_timestamp(column, "UTC")).cast("string")
        if isinstance(kind, T.DecimalType):
            return _java_decimal(column, kind)
        if isinstance(kind, T.NumericType | T.BooleanType | T.DateType):
            return column.cast("string")
        raise SchemaError(
            f"{role} field {name} is of type {kind.simpleString()}, which has no text",
            next_step="use a column of a simple type, or a field of the struct as struct.field",
        )

    def _formatted_time(self, name: str) -> Column:
        settings = self._spec.timebased
        output = settings.get("output.dateformat")
        if output is None:
            raise ConfigError(
                f"partition field {name} is a formatted time, but there is no format",
                next_step="set hoodie.keygen.timebased.output.dateformat",
            )
        moment = self._moment(name)
        zone = settings.get("output.timezone") or settings.get("timezone") or self._zone
        if zone != self._zone:
            moment = F.from_utc_timestamp(F.to_utc_timestamp(moment, self._zone), zone)
        return F.date_format(moment, _spark_pattern(output))

    def _moment(self, name: str) -> Column:
        settings = self._spec.timebased
        kind = field_type(self._schema, name, "partition")
        column = _column(name)
        if isinstance(kind, T.TimestampType):
            return column
        unit = input_unit(settings)
        if unit is None:
            return self._parsed(column.cast("string"))
        factor = UNIT_MS[unit]
        number = F.unix_date(column) if isinstance(kind, T.DateType) else column.cast("double")
        if isinstance(kind, T.IntegralType | T.StringType):
            number = column.cast("bigint")
        millis = F.floor(number * F.lit(factor)) if factor < 1 else number * F.lit(factor)
        # Hudi takes a null for the first moment after the epoch.
        return F.timestamp_millis(F.coalesce(millis.cast("bigint"), F.lit(1)))

    def _parsed(self, column: Column) -> Column:
        settings = self._spec.timebased
        patterns = [p for p in settings.get("input.dateformat", "").split(",") if p]
        if not patterns:
            raise ConfigError(
                "the partition field is text, but there is no format to read it with",
                next_step="set hoodie.keygen.timebased.input.dateformat",
            )
        zone = settings.get("input.timezone") or settings.get("timezone")
        parsed = [self._parsed_as(column, pattern, zone) for pattern in patterns]
        return F.coalesce(*parsed) if len(parsed) > 1 else parsed[0]

    def _parsed_as(self, column: Column, pattern: str, zone: str | None) -> Column:
        found = F.try_to_timestamp(column, F.lit(_spark_pattern(pattern)))
        if zone is None or zone == self._zone or "Z" in _unquoted(pattern):
            return found
        return F.from_utc_timestamp(F.to_utc_timestamp(found, zone), self._zone)


def field_type(schema: T.StructType, path: str, role: str) -> T.DataType:
    """Return the type of a column or, by a dotted path, of a struct's field."""
    found: T.DataType = schema
    for name in path.split("."):
        fields = {f.name: f for f in found.fields} if isinstance(found, T.StructType) else {}
        if name not in fields:
            raise SchemaError(
                f"{role} field {path} is no column of the rows",
                next_step=f"the rows have {', '.join(schema.names)}",
            )
        found = fields[name].dataType
    return found


def is_nullable(schema: T.StructType, path: str) -> bool:
    """Return whether a column, or field of a struct, may be null."""
    found: T.DataType = schema
    for name in path.split("."):
        if not isinstance(found, T.StructType):
            return True
        field = found[name]
        if field.nullable:
            return True
        found = field.dataType
    return False


def _column(path: str) -> Column:
    return F.col(".".join(f"`{name}`" for name in path.split(".")))


def _placeholder(text: Column) -> Column:
    return F.when(text.isNull(), _NULL_PART).when(text == "", _EMPTY_PART).otherwise(text)


def _escaped(text: Column) -> Column:
    made = F.replace(text, F.lit("%"), F.lit("%25"))
    for char in _UNSAFE.replace("%", ""):
        made = F.replace(made, F.lit(char), F.lit(f"%{ord(char):02X}"))
    return F.when(text.rlike(_UNSAFE_PATTERN), made).otherwise(text)


def _java_decimal(column: Column, kind: T.DecimalType) -> Column:
    """Return a decimal as Java's BigDecimal prints it: tiny values get an exponent."""
    plain = F.format_string("%s", column.cast("string"))
    if kind.scale <= _PLAIN_SCALE:
        return plain
    digits = F.regexp_replace(F.regexp_replace(plain, r"^-|\.", ""), r"^0+(?=\d)", "")
    exponent = F.length(digits) - F.lit(1 + kind.scale)
    mantissa = F.when(
        F.length(digits) > 1, F.concat(digits.substr(1, 1), F.lit("."), F.substring(digits, 2, 40))
    ).otherwise(digits)
    sign = F.when(column < 0, "-").otherwise("")
    tiny = F.concat(sign, mantissa, F.lit("E"), exponent.cast("string"))
    return F.when(exponent < -_PLAIN_SCALE, tiny).otherwise(plain)


def _java_timestamp(column: Column) -> Column:
    """Return a time as `java.sql.Timestamp` prints it, in the zone of the session."""
    text = F.date_format(column, "yyyy-MM-dd HH:mm:ss.SSSSSS")
    return F.regexp_replace(text, r"(\.\d+?)0+$", "$1")


def _spark_pattern(joda: str) -> str:
    """Return a Joda pattern as Spark takes it; a `Z` also reads the letter Z."""
    parts = joda.split("'")
    for at in range(0, len(parts), 2):
        text = parts[at].replace("ZZ", "Z")
        parts[at] = text.replace("Z", "[XXX][XX][X]")
    return "'".join(parts)


def _unquoted(pattern: str) -> str:
    return "".join(pattern.split("'")[::2])


def bucket(parts: Sequence[Column], buckets: int) -> Column:
    """Return the bucket that Hudi's simple bucket index gives to the texts `parts` of a key."""
    return F.pmod(_list_hash(parts), F.lit(buckets)).cast("int")


def _list_hash(parts: Sequence[Column]) -> Column:
    # Java's List.hashCode in 32 bits; wide arithmetic and a mask, because ANSI mode refuses to
    # overflow.
    value: Column = F.lit(1).cast("bigint")
    mask = F.lit(0xFFFFFFFF)
    for part in parts:
        own = F.call_function(
            "java_method", F.lit("java.util.Objects"), F.lit("hashCode"), part
        ).cast("bigint")
        value = (value * 31 + F.coalesce(own, F.lit(0))).bitwiseAND(mask)
    return value.bitwiseAND(F.lit(0x7FFFFFFF))
