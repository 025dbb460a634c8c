"""Random conditions in Spark SQL, as people write them and as nobody should."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, datetime, timedelta
from decimal import Decimal
from math import isfinite, isnan
from random import Random  # noqa: TID251 - seeded
from typing import Any, TypeVar

from tests.conditions.rows import COLUMNS, ROWS

Picked = TypeVar("Picked")
_COMPARISONS = ("=", "=", "==", "<>", "!=", "<", "<=", ">", ">=")
_TYPES = (
    *("TINYINT", "SMALLINT", "INT", "BIGINT", "FLOAT", "DOUBLE", "DECIMAL(3,1)", "DECIMAL(20,5)"),
    *("STRING", "BOOLEAN", "DATE", "TIMESTAMP", "TIMESTAMP_NTZ", "TIMESTAMP_LTZ", "BINARY"),
)
_ZONES = ("Z", "+02:00", "-11:30", "+18:00", " UTC", " Europe/Berlin", " America/New_York", "+2:00")
_COMMENTS = ("/* or i = 5 */", "-- and false\n", "/* /* nested */ or true */", "--\r", "/**/")
_WHOLE = ("i", "l", "order", "current_date", "Target")
_TEXTS = ("s", "u", "comment")
_SCALARS = tuple(name for name in COLUMNS if name not in ("a", "r", "p", "y"))


@dataclass(frozen=True, slots=True)
class Condition:
    """A text, and what kind of test it is; `is_plain` says that any session understands it."""

    text: str
    kind: str
    is_plain: bool = True


class Grammar:
    """Draws conditions on the columns of the rows."""

    def __init__(
        self, chance: Random, *, has_quoted_names: bool = False, tells_case: bool = False
    ) -> None:
        self._chance = chance
        self._tells_case = tells_case
        self._has_quoted_names = has_quoted_names
        self._is_plain = True

    def draw(self) -> Condition:
        """Return a condition."""
        self._is_plain = True
        depth = self._chance.choice([0, 0, 0, 1, 1, 2])
        if depth == 0:
            kind, text = self._leaf()
        else:
            kind, text = "combined", self._combined(depth)
        if self._chance.random() < 0.04:
            text = self._with_comment(text)
        return Condition(text, kind, self._is_plain)

    def simple(self) -> Condition:
        """Return a column beside values of its type, a form that is worth pruning by."""
        self._is_plain = True
        column = self._chance.choice([n for n in _SCALARS if n not in ("b", "end", "f", "g")])
        name, first, second = f"`{column}`", self._own(column), self._own(column)
        form = self._chance.choice(["comparison", "in", "between", "null", "like"])
        if form == "comparison":
            text = f"{name} {self._chance.choice(['=', '<', '<=', '>', '>='])} {first}"
        elif form == "in":
            text = f"{name} IN ({first}, {second})"
        elif form == "between":
            text = f"{name} BETWEEN {first} AND {second}"
        elif form == "like" and column in _TEXTS:
            text = f"{name} LIKE '{self._chance.choice('abgx7c')}%'"
        else:
            text = f"{name} IS {self._chance.choice(['', 'NOT '])}NULL"
        return Condition(text, f"simple {form}")

    def _own(self, column: str) -> str:
        """Return the plainest literal of a column's type."""
        value = self._value(column)
        kind = _kind(column)
        if kind == "string":
            return "'" + str(value).replace("\\", "").replace("'", "").replace("$", "") + "'"
        if kind == "date":
            return f"DATE'{value}'"
        if kind in ("timestamp", "timestamp_ntz"):
            return f"TIMESTAMP'{_plain(value)}'"
        return str(value)

    def _combined(self, depth: int) -> str:
        if depth == 0:
            return self._leaf()[1]
        form = self._chance.choice(["AND", "and", "OR", "Or", "NOT", "(", "!", "IS", "="])
        first = self._combined(depth - 1)
        if form == "NOT":
            return self._pick(f"NOT ({first})", f"NOT {first}", f"not(not ({first}))")
        if form == "!":
            return f"! ({first})"
        if form == "(":
            return f"(( {first} ))"
        if form == "IS":
            word = self._pick("TRUE", "FALSE", "NULL", "NOT TRUE", "NOT FALSE", "NOT NULL")
            return f"({first}) IS {word}"
        second = self._combined(depth - 1)
        if form == "=":
            return f"({first}) {self._pick('=', '<>', '<=>')} ({second})"
        made = f"{first} {form} {second}"
        return made if self._chance.random() < 0.5 else f"({made})"

    def _leaf(self) -> tuple[str, str]:
        forms = {
            "comparison": self._comparison,
            "IN": self._membership,
            "BETWEEN": self._between,
            "null": self._null_test,
            "LIKE": self._like,
            "cast literal": self._cast_literal,
            "cast column": self._cast_column,
            "boolean": self._boolean,
            "function": self._function,
            "nested": self._nested,
            "CASE": self._case,
            "two columns": self._two_columns,
            "odd": self._odd,
        }
        weights = [6, 5, 3, 3, 3, 4, 1, 1, 2, 1, 1, 1, 1]
        kind = self._chance.choices(list(forms), weights)[0]
        return kind, forms[kind]()

    def _comparison(self) -> str:
        column = self._chance.choice(_SCALARS)
        literal, sign = self._literal(column), self._chance.choice(_COMPARISONS)
        if self._chance.random() < 0.25:
            return f"{literal} {sign} {self._name(column)}"
        return f"{self._name(column)}{self._space()}{sign}{self._space()}{literal}"

    def _membership(self) -> str:
        column = self._chance.choice(_SCALARS)
        count = self._chance.choice([1, 2, 2, 3, 5])
        members = [
            "NULL" if self._chance.random() < 0.1 else self._literal(column) for _ in range(count)
        ]
        word = self._pick("IN", "IN", "NOT IN", "in")
        made = f"{self._name(column)} {word} ({', '.join(members)})"
        return f"NOT {made}" if self._chance.random() < 0.15 else made

    def _between(self) -> str:
        column = self._chance.choice(_SCALARS)
        word = self._pick("BETWEEN", "between", "NOT BETWEEN")
        low, high = self._literal(column), self._literal(column)
        return f"{self._name(column)} {word} {low} AND {high}"

    def _null_test(self) -> str:
        column = self._chance.choice(list(COLUMNS))
        name = self._name(column)
        form = self._chance.randrange(5)
        if form == 0:
            return f"{name} IS {self._pick('', 'NOT ')}NULL"
        if form == 1:
            return f"{name} <=> NULL"
        if form == 2:
            return self._pick(f"isnull({name})", f"isnotnull({name})", f"NOT {name} IS NULL")
        literal = self._literal(column) if column in _SCALARS else "NULL"
        word = self._pick("<=>", "IS DISTINCT FROM", "IS NOT DISTINCT FROM")
        if form == 3:
            return f"{name} {word} {literal}"
        return f"NOT ({name} {word} {literal})"

    def _like(self) -> str:
        column = self._chance.choice(_TEXTS)
        name, text = self._name(column), str(self._value(column))
        cut = text[: self._chance.randint(0, len(text))]
        pattern = self._pick(f"{cut}%", f"{cut}_", cut, f"%{cut}", f"{cut}%{text[-1:]}", "%", "_%")
        if self._chance.random() < 0.3:
            sign = self._pick("!", "#", "a", "%")
            self._is_plain = False
            pattern = self._pick(f"{cut}{sign}%%", f"{cut}{sign}_", f"{sign}{sign}{cut}%")
            return f"{name} LIKE {self._text(pattern)} ESCAPE '{sign}'"
        quoted = self._text(pattern)
        form = self._chance.randrange(8)
        if form == 0:
            return f"{name} RLIKE {quoted}"
        if form == 1:
            return f"{name} ILIKE {quoted}"
        if form == 2:
            return f"{name} LIKE {self._pick('ANY', 'ALL', 'SOME')} ({quoted}, 'a%')"
        return f"{name} {self._pick('LIKE', 'like', 'NOT LIKE')} {quoted}"

    def _cast_literal(self) -> str:
        column = self._chance.choice(_SCALARS)
        target = self._pick(*_TYPES)
        inner = self._literal(self._chance.choice(_SCALARS) if self._rarely(0.4) else column)
        if column in _WHOLE and self._rarely(0.6):
            # Numbers that wrap around in the type that they are cast to.
            bits = {"TINYINT": 8, "SMALLINT": 16, "INT": 32}
            target = self._pick(*bits)
            value = self._value(column) + self._pick(-1, 0, 1) * 2 ** bits[target]
            inner = str(value)
        self._is_plain = False
        made = self._pick(
            f"CAST({inner} AS {target})",
            f"CAST({inner} AS {target})",
            f"TRY_CAST({inner} AS {target})",
            f"({inner})::{target}",
            f"{target.partition('(')[0]}({inner})",
        )
        if self._rarely(0.3):
            return f"{self._name(column)} {self._pick('IN', 'NOT IN')} ({made}, {inner})"
        return f"{self._name(column)} {self._chance.choice(_COMPARISONS)} {made}"

    def _cast_column(self) -> str:
        column = self._chance.choice(_SCALARS)
        target = self._pick(*_TYPES)
        other = self._chance.choice(_SCALARS)
        self._is_plain = False
        cast = self._pick("CAST", "TRY_CAST")
        sign = self._chance.choice(_COMPARISONS)
        return f"{cast}({self._name(column)} AS {target}) {sign} {self._literal(other)}"

    def _boolean(self) -> str:
        name = self._name(self._pick("b", "end"))
        word = self._pick("", " = true", " <> FALSE", " IS TRUE", " IS NOT FALSE", " = (NOT true)")
        return self._pick(f"{name}{word}", f"NOT {name}{word}", f"!{name}", f"true = {name}")

    def _function(self) -> str:
        number, text = self._name(self._pick(*_WHOLE)), self._name(self._pick(*_TEXTS))
        day, moment = self._name(self._pick("d", "date")), self._name(self._pick("t", "z"))
        return self._pick(
            f"abs(cast({number} as bigint)) = 7",
            f"{number} % 2 = 1",
            f"- cast({number} as decimal(20)) < 5",
            f"coalesce({number}, 7) = 7",
            f"upper({text}) = 'GOLF'",
            f"length({text}) > 2",
            f"{text} || 'x' = 'ax'",
            f"substring({text}, 1, 2) IN ('ab', 'go')",
            f"startswith({text}, 'g')",
            f"year({day}) = 2026",
            f"{day} > date_sub(DATE'2026-01-03', 2)",
            f"{day} = DATE'2026-01-01' + INTERVAL '1' DAY",
            f"{moment} >= TIMESTAMP'2026-01-01' - INTERVAL 3 HOURS",
            f"{moment} < timestamp_seconds(0)",
            f"date_trunc('DAY', {moment}) = TIMESTAMP'2026-01-01'",
            f"{day} = to_date('2026-01-01', 'yyyy-MM-dd')",
            f"if({number} > 5, {text} = 'a', true)",
            f"nvl({text}, 'a') = 'a'",
            f"{number} IN (abs(-7), 8)",
            f"isnan({self._name(self._pick('f', 'g'))})",
            f"{number} + 1 > 8 AND {number} = 7 + 1",
            f"greatest({number}, 3) = 3",
            f"{text} = concat('a', 'b')",
            f"{text} = 'a' || 'b'",
            f"{day} < current_date()",
            f"{number} = 3 & 7",
            f"{number} < 5 * 2",
        )

    def _nested(self) -> str:
        inner, other = self._pick("a.i", "A.I", "a.`i`", "`a`.i"), self._pick("a.u", "a . u")
        sign = self._chance.choice(_COMPARISONS)
        return self._pick(
            f"{inner} {sign} {self._chance.randint(-6, 16)}",
            f"{other} {sign} 't{self._chance.randrange(20)}'",
            f"{other} LIKE 't1%'",
            f"{inner} IS NULL",
            f"{inner} IN (1, 2, 7)",
            f"r[0] {sign} {self._chance.randrange(20)}",
            "array_contains(r, 7)",
            f"p['k'] {sign} {self._chance.randrange(20)}",
            "element_at(p, 'k') = 7",
            "a IS NULL",
            "size(r) = 2",
            "exists(r, x -> x > 5)",
            "a = named_struct('i', 2, 'u', 't7')",
            "r IS NOT NULL AND i > 5",
        )

    def _case(self) -> str:
        first, second = self._leaf()[1], self._leaf()[1]
        column = self._chance.choice(_SCALARS)
        name, literal = self._name(column), self._own_or_null(column)
        return self._pick(
            f"CASE WHEN {first} THEN true ELSE {second} END",
            f"CASE {name} WHEN {literal} THEN true END",
            f"CASE WHEN {first} THEN {name} END = {literal}",
            f"CASE WHEN {first} THEN false END",
        )

    def _two_columns(self) -> str:
        first, second = self._chance.choice(_SCALARS), self._chance.choice(_SCALARS)
        if self._rarely(0.6):
            second = self._pick(*[n for n in _SCALARS if _kind(n) == _kind(first)])
        self._is_plain = _kind(first) == _kind(second)
        sign = self._pick(*_COMPARISONS, "<=>")
        return f"{self._name(first)} {sign} {self._name(second)}"

    def _odd(self) -> str:
        name = self._name(self._pick("i", "l", "order"))
        text = self._name(self._pick("s", "u"))
        self._is_plain = False
        return self._pick(
            f"{name} = 7 AS x",
            f"{name} < 8 = true",
            f"true = {name} < 8",
            f"{name} = 7 IS NULL",
            f"{name} = 7 IS NOT DISTINCT FROM true",
            f"{name} BETWEEN 1 AND 8 = true",
            f"({name}, {text}) = (7, 'a')",
            f"({name}, {text}) IN ((7, 'a'), (8, 'abc'))",
            f"{name} IN ((7), (8))",
            f"{name} NOT IN (7) IS NULL",
            f"{text} = 'a' COLLATE UTF8_LCASE",
            f"{text} COLLATE UTF8_LCASE = 'GOLF'",
            f"IDENTIFIER('i') = 7 AND {name} IS NOT NULL",
            f"IDENTIFIER('l') <= 7 OR {name} = 8",
            f"{text} = '${{test.word}}'",
            f"{name} = ${{test.number}}",
            f"{text} LIKE '${{test.word}}%'",
            f"{text} = ${{test.quoted}}",
            f"{text} = X'61'",
            f"{text} = R'a'",
            f"{text} = 'a' 'b'",
            f"{text} = 'it''s'",
            # Each query takes a job of its own.
            self._pick(f"{name} = (SELECT 7)", f"{name} IN (VALUES 7, 8)", f"{name} IN (SELECT 7)"),
            f"{name} = +7",
            f"{name} = - -7",
            f"- {name} = -7",
            f"-{name} < -7",
            f"~{name} = -8",
            f"{name} = '7' || ''",
            f"d > INTERVAL '1' DAY + DATE'2026-01-01' AND {name} > 1",
            f"{name} = 7 {self._pick('AND', 'OR')} true",
            f"{name} = 7 OR NULL",
            f"NULL AND {name} = 7",
            f"{name} = 7L OR {name} = 8S OR {name} = 0Y",
            f"{name} > 1e0 AND {name} < 10D AND {name} <> 8BD",
            f"{name} != 7 == false",
            f"not {name} = 7 and {text} is not null or {name} is null",
            f"{name} = 7 or {name} = 8 and {text} = 'a'",
            f"TIME'10:00:00' > TIME'09:00:00' AND {name} = 7",
            f"{name} = 0x7",
            f"{name} = 7 -- {text} = 'a'",
            f"{name} /* = 8 or i */ = 7",
            f"{text} = 'a' -- \n or {name} = 7",
            f"{text} = '/* ' or {name} = 7 or {text} = ' */'",
            f"{text} = '-- ' or {name} = 7",
            f"{text} = '\\'' or {name} = 7 or {text} = '\\''",
            f'{text} = "a" or {name} = 7',
            f"{text} = \"a' or i = '7\"",
            f"{text} < \"b'\" or {name} = 7 or {text} = '\"'",
        )

    def _name(self, column: str) -> str:
        name = self._pick(column, f"`{column}`")
        if not self._tells_case or self._rarely(0.05):
            name = self._pick(name, column, column.upper(), column.title(), f"`{column.upper()}`")
        if self._has_quoted_names and self._rarely(0.3):
            name = f'"{column}"'
        return name

    def _value(self, column: str) -> Any:
        value = None
        while value is None:
            value = COLUMNS[column][2][self._chance.randrange(ROWS)]
        if self._rarely(0.3):
            if _kind(column) == "int":
                value += self._pick(-1, 1)
            elif _kind(column) == "date" and 2 < value.year < 9000:
                value += timedelta(days=self._pick(-1, 1))
            elif _kind(column).startswith("timestamp") and 2 < value.year < 9000:
                value += timedelta(seconds=self._pick(-1, 1, 3600, -3600, 64800, -0.000001))
        return value

    def _own_or_null(self, column: str) -> str:
        return "NULL" if self._rarely(0.1) else self._literal(column)

    def _literal(self, column: str) -> str:
        """Return a literal, most times one that goes with the type of a column."""
        if self._rarely(0.06):
            self._is_plain = False
            column = self._chance.choice(_SCALARS)
        value, kind = self._value(column), _kind(column)
        if kind == "int":
            return self._whole(int(value))
        if kind in ("float", "double"):
            return self._float(float(value))
        if kind.startswith("decimal"):
            return self._decimal(value)
        if kind == "string":
            return self._text(str(value))
        if kind == "boolean":
            return self._pick("true", "false", "TRUE", "(1 = 1)", "CAST('f' AS BOOLEAN)")
        if kind == "date":
            return self._date(value)
        return self._moment(value)

    def _whole(self, value: int) -> str:
        if self._rarely(0.55):
            return str(value)
        self._is_plain = False
        return self._pick(
            *(f"{value}L", f"'{value}'", f"' {value} '", f"'+{abs(value)}'", f"'0{abs(value)}'"),
            *(f"{value}.0", f"{value}.5", f"{value}.", f"{value}e0", f"{value}D", f"{value}F"),
            *(f"{value}BD", f"{value}Y", f"{value}S", f"CAST({value} AS TINYINT)", f"{value}.00BD"),
            *(f"CAST({value} AS SMALLINT)", f"CAST({value} AS INT)", f"CAST('{value}' AS BIGINT)"),
            *(f"-({-value})", f"+{abs(value)}", f"({value})", f"{value / 10}e1", f"'{value}.0'"),
            *(f"CAST({value} AS FLOAT)", f"CAST({value} AS DOUBLE)", f"CAST({value} AS STRING)"),
            *(f"CAST({value} AS DECIMAL(5,1))", f"'{value}' ", f"INT({value})", f"{value}::bigint"),
            *(f"CAST({value}.7 AS INT)", "'x'", "true", "NULL", f"CAST({value + 256} AS TINYINT)"),
        )

    def _float(self, value: float) -> str:
        if isnan(value) or not isfinite(value):
            self._is_plain = False
            name = "NaN" if isnan(value) else "Infinity" if value > 0 else "-Infinity"
            big = "1e39" if value > 0 else "-1e39"
            return self._pick(
                f"double('{name}')", f"CAST('{name}' AS FLOAT)", f"CAST({big} AS FLOAT)"
            )
        text = repr(value).replace("e+", "e")
        if self._rarely(0.5):
            return text
        self._is_plain = False
        return self._pick(
            *(f"{text}D", f"{text}F", f"CAST({text} AS FLOAT)", f"'{text}'", "0.0", "-0.0", "-0D"),
            *(f"CAST({text} AS DOUBLE)", f"-({text})", "0", "CAST(1e-60 AS FLOAT)", "1e39", "7"),
            *("0.1", "0.1F", "0.3BD", "16777217", "1E1", "3.4e38F", "CAST(16777217 AS FLOAT)"),
        )

    def _decimal(self, value: Decimal) -> str:
        text = f"{value:f}"
        if self._rarely(0.55):
            return text
        self._is_plain = False
        return self._pick(
            *(f"{text}BD", f"'{text}'", f"{text}001" if "." in text else f"{text}.001"),
            *(f"CAST({text} AS DECIMAL(5,1))", f"CAST({text} AS DOUBLE)", f"{text}D", f"-({text})"),
            *(f"CAST({text} AS INT)", "7", "'7'", "7L", "1e1", "0.1", "1.1D", f"round({text}, 0)"),
            *(f"CAST('{text}' AS DECIMAL(38,18))", "7.0000000000000001", "true", f"{text}e0"),
        )

    def _text(self, text: str) -> str:
        quoted = "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
        form = self._chance.randrange(10)
        if form == 0 and '"' not in text and not self._has_quoted_names:
            return '"' + text.replace("\\", "\\\\") + '"'
        if form == 1:
            return "'" + text.replace("\\", "\\\\").replace("'", "''") + "'"
        if form == 2 and "'" not in text:
            return f"{self._pick('r', 'R')}'{text}'"
        if form == 3:
            return "'" + "".join(f"\\u{ord(c):04x}" if ord(c) < 65536 else c for c in text) + "'"
        if form == 4 and self._rarely(0.3):
            self._is_plain = False
            return self._pick("7", "7.0", "DATE'2026-01-01'", "true", "1e3", "X'61'", "NULL")
        if form == 5:
            cut = len(text) // 2
            return self._pick(
                quoted, f"'{text[:cut]}' '{text[cut:]}'" if "'" not in text else quoted
            )
        return quoted

    def _date(self, value: date) -> str:
        day = value.isoformat()
        if self._rarely(0.5):
            return self._pick(f"DATE'{day}'", f"'{day}'", f"date '{day}'")
        self._is_plain = False
        loose = f"{value.year:04d}-{value.month}-{value.day}"
        return self._pick(
            *(f"CAST('{day}' AS DATE)", f"'{loose}'", f"DATE'{loose}'", f"'{value.year:04d}'"),
            *(
                f"'{day} 10:00:00'",
                f"'{day}T10'",
                f"TIMESTAMP'{day}'",
                f"' {day} '",
                f"date('{day}')",
            ),
            *(
                f"TIMESTAMP'{day} 12:00:00'",
                f"TIMESTAMP_NTZ'{day}'",
                f"'{day[:7]}'",
                f"'{day} junk'",
            ),
            *(f"TIMESTAMP'{day} 12:00:00+14:00'", f"to_date('{day}')", f"TIMESTAMP_LTZ'{day}'"),
            *(f"'{day}' ", f"make_date({value.year},{value.month},{value.day})", "'epoch'"),
            *(f"CAST(TIMESTAMP'{day} 23:00:00Z' AS DATE)", "7", "'today'", f"DATE '{day}T00:00'"),
        )

    def _moment(self, value: datetime) -> str:
        plain, word = _plain(value), self._pick("TIMESTAMP", "TIMESTAMP_NTZ", "TIMESTAMP_LTZ")
        day, zone = plain[:10], self._pick(*_ZONES)
        if self._rarely(0.5):
            return self._pick(f"{word}'{plain}'", f"'{plain}'", f"{word}'{plain}{zone}'")
        self._is_plain = False
        return self._pick(
            *(f"'{plain}{zone}'", f"CAST('{plain}' AS {word})", f"CAST('{plain}{zone}' AS {word})"),
            *(f"'{plain.replace(' ', 'T')}'", f"'{plain.replace(' ', 'T')}{zone}'", f"DATE'{day}'"),
            *(f"'{day}'", f"{word}'{day}'", f"{word}'{day} 12:00'", f"'{plain[:16]}'", "'epoch'"),
            *(f"to_timestamp('{plain}')", f"CAST(DATE'{day}' AS {word})", f"{word}'{plain[:13]}'"),
            *(f"CAST({word}'{plain}{zone}' AS TIMESTAMP)", f"{word} '{day[:7]}'", "1767225600"),
            *(
                f"'{plain}000'",
                f"{word}'{plain}999'" if "." in plain else f"{word}'{plain}.9999999'",
            ),
            *(f"CAST({word}'{plain}' AS DATE)", f"'{day}T{plain[11:]}Z'", "timestamp_micros(0)"),
        )

    def _with_comment(self, text: str) -> str:
        comment = self._pick(*_COMMENTS)
        spaces = [at for at, sign in enumerate(text) if sign == " "]
        at = self._chance.choice(spaces) if spaces else len(text)
        return f"{text[:at]} {comment} {text[at:]}"

    def _space(self) -> str:
        return self._chance.choice([" ", " ", " ", "", "\n", "\t"])

    def _rarely(self, share: float) -> bool:
        return self._chance.random() < share

    def _pick(self, *of: Picked) -> Picked:
        return self._chance.choice(of)


def _kind(column: str) -> str:
    kind = COLUMNS[column][0]
    return "int" if kind == "bigint" else kind


def _plain(value: datetime) -> str:
    return value.replace(tzinfo=None).isoformat(sep=" ")
