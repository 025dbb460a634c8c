"""One configuration key: its name, type, default and meaning, and how a value of it is read."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TypeVar

from tidelake.errors import ConfigError, TidelakeError, UnsupportedTableError
from tidelake.model import Word
from tidelake.model.numbers import whole_number

W = TypeVar("W", bound=Word)


class Kind(Word):
    """What the text of a value stands for."""

    TEXT = "text"
    BOOLEAN = "boolean"
    INTEGER = "integer"
    NUMBER = "number"
    WORD = "word"
    LIST = "list"


class Scope(Word):
    """Where a key is set: in `hoodie.properties`, or by the person who reads or writes."""

    TABLE = "table"
    READ = "read"
    WRITE = "write"


@dataclass(frozen=True, slots=True, kw_only=True)
class Key:
    """A key as tidelake reads it; `aliases` are older or foreign names, tried after `name`."""

    name: str
    kind: Kind
    scope: Scope
    doc: str
    default: str | None = None
    aliases: tuple[str, ...] = ()
    choices: tuple[str, ...] = ()
    ours: bool = False
    """Whether tidelake made the key up; Apache Hudi ignores it."""

    @property
    def names(self) -> tuple[str, ...]:
        """Return every name under which the key may be given, the best first."""
        return (self.name, *self.aliases)

    def given(self, settings: Mapping[str, str]) -> tuple[str, str] | None:
        """Return the name that was used and its value, or None when the key is not set.

        An empty value counts as not set: Hudi writes `key=` for a list that became empty.
        """
        for name in self.names:
            value = settings.get(name, "").strip()
            if value:
                return name, value
        return None

    def text(self, settings: Mapping[str, str]) -> str | None:
        """Return the value as it stands, or the default."""
        found = self.given(settings)
        return found[1] if found else self.default

    def needed(self, settings: Mapping[str, str]) -> str:
        """Return the value; raise `ConfigError` when there is none."""
        value = self.text(settings)
        if value is None:
            raise ConfigError(f"{self.name} is not given", next_step=f"set {self.name}: {self.doc}")
        return value

    def items(self, settings: Mapping[str, str]) -> tuple[str, ...]:
        """Return the parts of a comma list, without blanks."""
        parts = (part.strip() for part in (self.text(settings) or "").split(","))
        return tuple(part for part in parts if part)

    def flag(self, settings: Mapping[str, str]) -> bool:
        """Return the value as a boolean; raise `ConfigError` for anything but true and false."""
        value = (self.text(settings) or "false").lower()
        if value not in ("true", "false"):
            raise self.refuse(settings, "true or false")
        return value == "true"

    def number(self, settings: Mapping[str, str]) -> int | None:
        """Return the value as an integer, or None when there is none; raise `ConfigError` else."""
        value = self.text(settings)
        if value is None:
            return None
        found = whole_number(value)
        if found is None:
            raise self.refuse(settings, "a whole number")
        return found

    def count(self, settings: Mapping[str, str], *, least: int = 0) -> int | None:
        """Return the value as a number of something; raise `ConfigError` below `least`."""
        found = self.number(settings)
        if found is not None and found < least:
            raise self.refuse(settings, f"whole numbers from {least} on")
        return found

    def fraction(self, settings: Mapping[str, str]) -> float:
        """Return the value as a number between 0 and 1; raise `ConfigError` for another."""
        try:
            found = float(self.text(settings) or "")
        except ValueError:
            found = 0.0
        if not 0 < found < 1:
            raise self.refuse(settings, "numbers between 0 and 1")
        return found

    def word(self, settings: Mapping[str, str], words: type[W]) -> W | None:
        """Return the value as one of `words`, whatever its case, or None when there is none."""
        value = self.text(settings)
        if value is None:
            return None
        for word in words:
            if word.value.lower() == value.lower():
                return word
        raise self.refuse(settings, ", ".join(word.value for word in words))

    def refuse(self, settings: Mapping[str, str], allowed: str) -> TidelakeError:
        """Return the error that says the value given for this key is none of `allowed`."""
        name, value = self.given(settings) or (self.name, self.default)
        problem = f"{name} is {value!r}, and tidelake knows {allowed}"
        if self.scope is not Scope.TABLE:
            return ConfigError(problem, next_step=f"give {name} one of these, or leave it out")
        if self.kind is Kind.WORD:
            return UnsupportedTableError(
                problem,
                next_step="read this table with the engine that wrote it, "
                "or look for a newer tidelake that knows it",
            )
        return ConfigError(
            problem,
            next_step="correct the line in .hoodie/hoodie.properties; its checksum still holds",
        )


@dataclass(frozen=True, slots=True)
class Declare:
    """Declares keys that are set in one place."""

    scope: Scope

    def __call__(
        self,
        name: str,
        kind: Kind,
        doc: str,
        *,
        default: str | None = None,
        aliases: tuple[str, ...] = (),
        choices: tuple[str, ...] = (),
        ours: bool = False,
    ) -> Key:
        """Return a key of that place."""
        return Key(
            name=name,
            kind=kind,
            scope=self.scope,
            doc=doc,
            default=default,
            aliases=aliases,
            choices=choices,
            ours=ours,
        )


def spelled(words: Iterable[Word]) -> tuple[str, ...]:
    """Return words as they are spelled in values."""
    return tuple(word.value for word in words)
