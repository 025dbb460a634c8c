"""What texts of SQL say about columns; whatever is not understood says nothing.

Texts are parsed and never searched: words inside of a literal or a comment are no part of them.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError
from sqlglot.tokens import Token, TokenType  # type: ignore[attr-defined] # where all releases have them

from tidelake.read.predicate import hides_names

_COMPARISONS = (exp.EQ, exp.LT, exp.LTE, exp.GT, exp.GTE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Qualifiers:
    """Which word before a dot means a row of the table, and which may mean anything.

    `doubtful` are names of columns, which may be structs, and words by which the source as well as
    the table could be meant. `by_case` are columns, in small letters, of which one side has several
    that differ in case alone: whether a session tells them apart is not known here.
    """

    table: str
    doubtful: frozenset[str]
    by_case: frozenset[str] = frozenset()

    @classmethod
    def of(
        cls, table: str, doubtful: Collection[str], sides: Iterable[Collection[str]] = ()
    ) -> Qualifiers:
        """Take words in any case, and the columns of both `sides`."""
        folded = [Counter(name.lower() for name in columns) for columns in sides]
        return cls(
            table=table.lower(),
            doubtful=frozenset(name.lower() for name in doubtful),
            by_case=frozenset(n for names in folded for n, count in names.items() if count > 1),
        )

    def is_table(self, qualifier: str) -> bool:
        """Return whether columns behind a qualifier are those of the table."""
        return qualifier == self.table and qualifier not in self.doubtful

    def is_same_column(self, one: str, other: str) -> bool:
        """Return whether two names mean columns of one name, in any session."""
        folded = one.lower()
        return one == other or (folded == other.lower() and folded not in self.by_case)

    def is_source(self, qualifier: str) -> bool:
        """Return whether columns behind a qualifier are those of the source."""
        return qualifier != self.table and qualifier not in self.doubtful


def equal_columns(condition: str, qualifiers: Qualifiers) -> list[str] | None:
    """Return the columns of a condition that says nothing but `target.x = source.x and ...`."""
    found = []
    for part in _conjuncts(condition):
        if part is None or not isinstance(part, exp.EQ) or not _has_only_sides(part):
            return None
        left, right = _qualified(part.this), _qualified(part.expression)
        if left is None or right is None or not qualifiers.is_same_column(left[1], right[1]):
            return None
        if qualifiers.is_table(right[0]):
            left, right = right, left
        if not (qualifiers.is_table(left[0]) and qualifiers.is_source(right[0])):
            return None
        found.append(left[1])
    return found or None


def source_column(text: str, qualifiers: Qualifiers) -> str | None:
    """Return the name, in small letters, of a source column that is all that the text says."""
    parts = list(_conjuncts(text))
    found = _qualified(parts[0]) if len(parts) == 1 else None
    if found is None or not qualifiers.is_source(found[0]):
        return None
    name = found[1].lower()
    return None if name in qualifiers.by_case else name


def table_condition(condition: str, qualifiers: Qualifiers) -> str | None:
    """Return what the condition says of the table's row alone, as a condition on its columns.

    Only comparisons with literals are taken, of those parts that all have to hold.
    """
    made = []
    for part in _conjuncts(condition):
        if not isinstance(part, _COMPARISONS) or not _has_only_sides(part):
            continue
        left, right = part.this, part.expression
        if _is_literal(left):
            left, right = right, left
        column = _qualified(left)
        if column is None or not qualifiers.is_table(column[0]) or not _is_literal(right):
            continue
        plain = part.copy()
        for node in plain.find_all(exp.Column):
            node.set("table", None)
            node.this.set("quoted", True)
        made.append(plain.sql(dialect="spark"))
    return " AND ".join(made) or None


def mentions_qualifier(text: str, qualifier: str) -> bool:
    """Return whether the text may name columns behind a qualifier."""
    if hides_names(text):
        return True
    tokens = _tokens(text)
    if tokens is None:
        return may_mention(text, qualifier)
    return any(
        token.text.lower() == qualifier.lower()
        and token.token_type is not TokenType.STRING
        and after.token_type is TokenType.DOT
        and before.token_type is not TokenType.DOT
        for before, token, after in zip([_START, *tokens], tokens, tokens[1:], strict=False)
    )


def may_mention(text: str, qualifier: str) -> bool:
    """Return the same of a text that is no SQL, such as what a Column prints of itself."""
    return bool(re.search(rf"\b{re.escape(qualifier)}`?\s*\.", text, re.IGNORECASE))


def names_all_columns(text: str) -> bool:
    """Return whether the text may mean columns that it does not name, as `target.*` does."""
    if hides_names(text):
        return True
    tokens = _tokens(text)
    if tokens is None:
        return "*" in text
    before = {TokenType.DOT, TokenType.L_PAREN, TokenType.COMMA}
    return any(
        token.token_type is TokenType.STAR and last.token_type in before
        for last, token in zip([_START, *tokens[:-1]], tokens, strict=True)
    )


def with_named_columns(text: str, qualifier: str, columns: Sequence[str]) -> str:
    """Return the text with `columns` in the place of all that are behind a qualifier (`t.*`)."""
    tokens = _tokens(text) or []
    stars = [
        (word.start, star.end + 1)
        for before, word, dot, star in zip(
            [_START, *tokens], tokens, tokens[1:], tokens[2:], strict=False
        )
        if word.text.lower() == qualifier.lower()
        and word.token_type is not TokenType.STRING
        and dot.token_type is TokenType.DOT
        and star.token_type is TokenType.STAR
        and before.token_type is not TokenType.DOT
    ]
    quoted = (f"`{name.replace('`', '``')}`" for name in columns)
    named = ", ".join(f"{qualifier}.{name}" for name in quoted)
    for start, end in reversed(stars):
        text = text[:start] + named + text[end:]
    return text


_START = Token(TokenType.L_PAREN, "(")


def _tokens(text: str) -> list[Token] | None:
    try:
        return sqlglot.tokenize(text, dialect="spark") or None
    except SqlglotError:
        return None


def _conjuncts(condition: str) -> Iterator[exp.Expression | None]:
    """Return the parts that all have to hold; one None when the text is not understood."""
    if "\\" in condition or "${" in condition:
        yield None  # what a backslash means, and what stands for a variable, is the session's
        return
    try:
        parsed = sqlglot.parse(condition, dialect="spark")
    except (SqlglotError, RecursionError):
        yield None
        return
    if len(parsed) != 1 or not isinstance(parsed[0], exp.Expression):
        yield None
        return
    todo: list[exp.Expression] = [parsed[0]]
    while todo:
        node = todo.pop(0)
        if isinstance(node, exp.Paren):
            todo.insert(0, node.this)
        elif isinstance(node, exp.And) and _has_only_sides(node):
            todo[:0] = [node.this, node.expression]
        else:
            yield node


def _has_only_sides(node: exp.Expression) -> bool:
    """Return whether no other argument changes what the node means."""
    return not any(v for name, v in node.args.items() if name not in ("this", "expression"))


def _qualified(node: object) -> tuple[str, str] | None:
    """Return qualifier, in small letters, and name of a column that has exactly one of each."""
    if not isinstance(node, exp.Column) or node.args.get("db") or node.args.get("catalog"):
        return None
    if not isinstance(node.this, exp.Identifier) or not node.table:
        return None
    return str(node.table).lower(), str(node.name)


def _is_literal(node: object) -> bool:
    if isinstance(node, exp.Neg):
        return isinstance(node.this, exp.Literal) and not node.this.is_string
    return isinstance(node, exp.Literal)
