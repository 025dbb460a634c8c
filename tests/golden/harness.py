"""The golden tables: unpack one, ask it what Apache Hudi was asked, compare the answers."""

from __future__ import annotations

import json
import os
import sys
import zipfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from enum import Enum
from functools import cache
from pathlib import Path
from typing import Any, Protocol, TypeAlias

from tests.heartbeats import expire
from tidelake.errors import TidelakeError

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

HERE = Path(__file__).parent
TABLES = HERE / "tables"

Row = Mapping[str, Any]


class Frame(Protocol):
    """What is asked of a DataFrame."""

    def toJSON(self) -> Any:  # noqa: N802 - Spark's name
        """Return the rows as texts, behind a `collect`."""


class Readable(Protocol):
    """The doors of a table that the questions go through."""

    def read(self, *, as_of: str | None = None) -> Frame:
        """Return the snapshot, or the table as of a time."""

    def read_optimized(self) -> Frame:
        """Return the base files' rows."""

    def incremental(self, *, start: str | None = None, end: str | None = None) -> Frame:
        """Return the rows written in a window."""

    def changes(self, *, start: str | None = None, end: str | None = None) -> Frame:
        """Return the changes made in a window."""


class Refusal:
    """The owed answer is an error."""


REFUSAL = Refusal()

Answer: TypeAlias = "Sequence[Row] | Refusal"


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """An answer of Apache that is wrong, and how the right one differs from it."""

    reason: str
    owed_error: bool = False
    values: Mapping[str, Mapping[str, object]] = field(default_factory=dict)
    remove: Sequence[Row] = ()
    add: Sequence[Row] = ()

    def mend(self, apache: Answer) -> Answer:
        """Return what is owed instead of `apache`'s answer."""
        if self.owed_error:
            return REFUSAL
        if isinstance(apache, Refusal):
            return self.add
        rows = [
            {k: self.values[k].get(v, v) if k in self.values else v for k, v in row.items()}
            for row in apache
        ]
        left = Counter(canonical(rows))
        gone = Counter(canonical(self.remove))
        if gone - left:
            raise ValueError(f"rows to remove that Apache did not give: {gone - left}")
        return [json.loads(row) for row in (left - gone).elements()] + list(self.add)


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """One query, and the answers that are right."""

    kind: str
    apache: Answer
    also: Answer | None = None
    as_of: str | None = None
    start: str | None = None
    end: str | None = None
    fault: Fault | None = None

    @property
    def label(self) -> str:
        """Return the name by which `apache_faults.toml` knows the query."""
        return _label(self.kind, self.as_of, self.start, self.end)

    def ask(self, table: Readable) -> Frame:
        """Put the question to `table` through its public doors."""
        if self.kind == "snapshot":
            return table.read()
        if self.kind == "read_optimized":
            return table.read_optimized()
        if self.kind == "as of":
            return table.read(as_of=self.as_of)
        if self.kind == "incremental":
            return table.incremental(start=self.start, end=self.end)
        return table.changes(start=self.start, end=self.end)


@dataclass(frozen=True, slots=True, kw_only=True)
class Golden:
    """One golden table and everything that is asked of it."""

    name: str
    table_type: str
    options: Mapping[str, str]
    mtimes_ms: Mapping[str, int]
    questions: Sequence[Question]


class Verdict(Enum):
    """How an answer compares."""

    SAME = "same"
    BETTER = "right where Apache is at fault"
    DIFFERS = "differs"


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """A verdict, and for a difference what was seen."""

    verdict: Verdict
    story: str = ""


def names() -> list[str]:
    """Return the names of all golden tables."""
    return sorted(path.stem for path in TABLES.glob("*.zip"))


@cache
def load(name: str) -> Golden:
    """Return the table called `name` with its questions."""
    with zipfile.ZipFile(HERE / "expected.zip") as packed:
        expected = json.loads(packed.read(f"{name}.json"))
    known = faults().get(name, {})
    questions = tuple(_questions(expected, known))
    unused = known.keys() - {question.label for question in questions}
    if unused:
        raise ValueError(f"apache_faults.toml: {name} was never asked {sorted(unused)}")
    return Golden(
        name=name,
        table_type=expected["type"],
        options=expected.get("options", {}),
        mtimes_ms=expected.get("mtimes_ms", {}),
        questions=questions,
    )


@cache
def faults() -> Mapping[str, Mapping[str, Fault]]:
    """Return the known faults of Apache by table and query."""
    listed = tomllib.loads((HERE / "apache_faults.toml").read_text())
    found: dict[str, dict[str, Fault]] = {}
    for entry in listed.get("fault", []):
        fault = Fault(
            reason=entry["reason"],
            owed_error=entry.get("owed") == "error",
            values=entry.get("values", {}),
            remove=[json.loads(row) for row in entry.get("remove", ())],
            add=[json.loads(row) for row in entry.get("add", ())],
        )
        for query in entry["queries"]:
            found.setdefault(entry["table"], {})[query] = fault
    return found


def unpack(golden: Golden, into: Path) -> Path:
    """Unpack the table below `into` and return its root."""
    with zipfile.ZipFile(TABLES / f"{golden.name}.zip") as packed:
        packed.extractall(into)
    roots = [p.parent for p in into.rglob(".hoodie") if p.is_dir() and "__MACOSX" not in p.parts]
    root = min(roots, key=lambda path: len(path.parts))
    expire(root)
    for name, modified_ms in golden.mtimes_ms.items():
        if (root / name).exists():
            # Through nanoseconds: a float of seconds loses the last millisecond.
            os.utime(root / name, ns=(modified_ms * 1_000_000, modified_ms * 1_000_000))
    return root


def settings(golden: Golden, root: Path, *, cross: bool = False) -> list[dict[str, str]]:
    """Return the option sets under which every answer must be the same.

    Each way to list files and each way to merge occurs; with `cross`, in every combination.
    """
    metadata = ["true", "false"] if (root / ".hoodie" / "metadata").is_dir() else [None]
    merge = ["mask", "rows"] if golden.table_type == "MERGE_ON_READ" else [None]
    if cross:
        pairs = [(listing, path) for listing in metadata for path in merge]
    else:
        rounds = max(len(metadata), len(merge))
        pairs = [(metadata[i % len(metadata)], merge[i % len(merge)]) for i in range(rounds)]
    return [
        {
            **golden.options,
            **({"hoodie.metadata.enable": listing} if listing else {}),
            **({"hoodie.read.merge.path": path} if path else {}),
        }
        for listing, path in pairs
    ]


def judge(question: Question, open_table: Callable[[], Readable]) -> Outcome:
    """Ask `question` of a freshly opened table and compare the answer with what is owed."""
    got: list[str] | Exception
    try:
        texts: list[str] = question.ask(open_table()).toJSON().collect()
        got = canonical(json.loads(text) for text in texts)
    except Exception as error:  # noqa: BLE001 - any failure is an answer to report
        got = error
    if question.fault is not None:
        if _equal(got, question.fault.mend(question.apache)):
            return Outcome(verdict=Verdict.BETTER)
    elif any(_equal(got, owed) for owed in (question.apache, question.also) if owed is not None):
        return Outcome(verdict=Verdict.SAME)
    return Outcome(verdict=Verdict.DIFFERS, story=_story(question, got))


def canonical(rows: Iterable[Row]) -> list[str]:
    """Return the rows in one spelling and order: no nulls, no meta columns, numbers by value."""
    return sorted(json.dumps(_plain(_parsed(row)), sort_keys=True) for row in rows)


def _parsed(row: Row) -> Row:
    if not {"op", "ts_ms"} <= row.keys():
        return _user(row)
    # Apache prints the images of a change row in several spellings.
    return {**row, "before": _image(row.get("before")), "after": _image(row.get("after"))}


def _image(value: object) -> object:
    value = json.loads(value) if isinstance(value, str) else value
    return _user(value) if isinstance(value, dict) else value


def _user(row: Row) -> Row:
    return {k: v for k, v in row.items() if not k.startswith("_hoodie_")}


def _plain(value: object) -> object:
    if isinstance(value, Mapping):
        return {k: _plain(v) for k, v in value.items() if v is not None}
    if isinstance(value, list):
        return [_plain(v) for v in value]
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return format(Decimal(repr(value)).normalize(), "f")
    return value


def _equal(got: list[str] | Exception, owed: Answer) -> bool:
    if isinstance(owed, Refusal):
        return isinstance(got, TidelakeError)
    return got == canonical(owed)


def _story(question: Question, got: list[str] | Exception) -> str:
    owed = question.fault.mend(question.apache) if question.fault else question.apache
    if isinstance(got, Exception):
        said = " ".join(str(got).split())[:300]
        return f"got {type(got).__name__}: {said}, owed {_size(owed)}"
    if isinstance(owed, Refusal):
        return f"got {len(got)} rows, owed an error"
    want, have = Counter(canonical(owed)), Counter(got)
    missing, extra = list((want - have).elements()), list((have - want).elements())
    shown = [f"missing {row}" for row in missing[:2]] + [f"extra {row}" for row in extra[:2]]
    return (
        f"got {len(got)} rows, owed {_size(owed)}; {len(missing)} missing, {len(extra)} extra: "
        + "; ".join(shown)
    )


def _size(answer: Answer) -> str:
    return "an error" if isinstance(answer, Refusal) else f"{len(answer)} rows"


def _questions(expected: Mapping[str, Any], known: Mapping[str, Fault]) -> Iterator[Question]:
    also = expected.get("also", {})
    for kind in ("snapshot", "read_optimized"):
        if kind in expected:
            yield Question(
                kind=kind,
                apache=_answer(expected[kind]),
                also=_answer(also[kind]) if kind in also else None,
                fault=known.get(kind),
            )
    for as_of, rows in expected.get("as_of", {}).items():
        other = also.get("as_of", {}).get(as_of)
        yield Question(
            kind="as of",
            as_of=as_of,
            apache=_answer(rows),
            also=None if other is None else _answer(other),
            fault=known.get(_label("as of", as_of, None, None)),
        )
    for kind in ("incremental", "cdc"):
        others = {(window["start"], window["end"]): window for window in also.get(kind, [])}
        for window in expected.get(kind, []):
            start, end = window["start"], window["end"]
            other = others.get((start, end))
            yield Question(
                kind=kind,
                start=start,
                end=end,
                apache=_answer(window),
                also=None if other is None else _answer(other),
                fault=known.get(_label(kind, None, start, end)),
            )


def _answer(found: Any) -> Answer:
    if isinstance(found, dict):
        return REFUSAL if "refused" in found else found["rows"]
    rows: list[Row] = found
    return rows


def _label(kind: str, as_of: str | None, start: str | None, end: str | None) -> str:
    if kind == "as of":
        return f"as of {as_of}"
    if kind in ("incremental", "cdc"):
        return f"{kind} ({start}, {end or 'now'}]"
    return kind
