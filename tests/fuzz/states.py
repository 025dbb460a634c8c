"""Random states of whole tables: what crashes, losses, strangers and damage leave, mixed.

Each is read rightly, refused with an error of ours, or `check` or a warning says that rows may be
wrong. What no reader can tell is named in `UNTELLABLE`, with the reason.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from random import Random  # noqa: TID251 - every instance is seeded

from tests.fuzz import codecs
from tests.fuzz.cases import Case, sound_table
from tests.fuzz.mutations import mutate, truncate

#: Kinds of files in which a changed bit may decode to another sound value: their formats have no
#: checksum, and nothing else says the same.
UNTELLABLE = {
    "log": "Avro and Parquet blocks of logs have no checksum; record counts and lengths are kept",
    "footer": "pages of base files carry no checksum unless their writer was told to",
    "properties": "the checksum covers the names of table and database alone",
    "instant": "commits, plans and savepoints have no checksum",
    "archive": "archived instants have no checksum",
    "history": "pages of history files carry no checksum",
    "schema history": "the schema history has no checksum",
    "index definitions": "index definitions have no checksum",
    "hashing metadata": "hashing metadata has no checksum",
    "partition metadata": "nothing but its presence is read",
    "hfile": "Hudi writes HFiles without checksums",
}
#: Ways to change a state that keep the content of every file: no excuse for other rows.
_STRUCTURAL = ("empty", "stub", "remove", "pipe", "foreign", "pending", "drop")
_PENDING = (".requested", ".inflight")
#: Names of files that somebody else may have put there.
STRANGERS = ("notes.txt", "part-0000.parquet", ".hidden", "x.commit", "1.log")
#: A write that has just begun, by a clock that is far ahead.
PENDING_NAME = "20990101000000000.deltacommit.requested"
_OF_CONTENT = ("flip", "cut", "swap")


@dataclass(frozen=True, slots=True)
class Step:
    """One thing that was done to a table."""

    what: str
    path: str

    @property
    def kind(self) -> str | None:
        """Return the kind of the file."""
        return codecs.kind_of(self.path)

    @property
    def is_untellable(self) -> bool:
        """Return whether other rows may follow although nobody can tell.

        A timeline whose completed file is gone is that of a write that never completed, unless a
        later one was built on it.
        """
        if self.what == "flip":
            return self.kind in UNTELLABLE
        if self.what == "remove" and self.kind == "archive":
            return True  # no list says which files the archive of version 6 has
        return self.what == "remove" and self.kind == "instant" and not self.path.endswith(_PENDING)


def are_untellable(steps: Sequence[Step]) -> bool:
    """Return whether other rows may follow although nobody can tell.

    That is so, too, when a data file went together with what the commit that wrote it said.
    """
    said = any(step.kind == "instant" and step.what in _OF_CONTENT for step in steps)
    gone = any(step.kind in ("footer", "log") and step.what == "remove" for step in steps)
    return (said and gone) or any(step.is_untellable for step in steps)


def attempt_state(case: Case) -> str:
    """Put the table into a random state, ask it everything, and compare rows."""
    from tests.fuzz import tables  # only where a table is read: it loads much

    root, options, middle, sound = sound_table(case.table)
    with _changed(root, Random(f"{case.table}/{case.seed}")) as steps, tables.words() as said:
        answers = tables.ask_all(root, options, middle)
    other = [n for n in answers if n != "check" and answers[n] not in (None, sound[n])]
    if not other:
        refused = any(answers[n] is None and sound[n] is not None for n in answers)
        return "refused" if refused else "same rows"
    if said or answers["check"] is None or answers["check"] != sound["check"]:
        return "other rows, told"
    if are_untellable(steps):
        return "other rows, untellable"
    raise AssertionError(f"other rows of {other} without a word after {steps}")


@contextmanager
def _changed(root: Path, random: Random) -> Iterator[list[Step]]:
    """Change files of the table, and put everything back at the end."""
    kept: dict[Path, tuple[bytes, os.stat_result] | None] = {}
    folders: list[tuple[Path, Path]] = []
    steps: list[Step] = []
    try:
        for _ in range(random.choice((1, 1, 2, 3))):
            steps += _step(root, random, kept, folders)
        yield steps
    finally:
        for folder, aside in reversed(folders):
            shutil.rmtree(folder, ignore_errors=True)
            aside.rename(folder)
        for path, before in kept.items():
            path.unlink(missing_ok=True)
            if before is not None:
                path.write_bytes(before[0])
                os.utime(path, ns=(before[1].st_atime_ns, before[1].st_mtime_ns))


def _step(
    root: Path,
    random: Random,
    kept: dict[Path, tuple[bytes, os.stat_result] | None],
    folders: list[tuple[Path, Path]],
) -> list[Step]:
    paths = sorted(
        path for path in root.rglob("*") if path.is_file() and not path.name.endswith(".crc")
    )
    by_kind = codecs.kinds(str(path.relative_to(root)) for path in paths)
    if not by_kind:
        return []
    names = by_kind[random.choice(sorted(by_kind))]
    name = random.choice(names)
    path = root / name
    what = random.choice((*_STRUCTURAL, *_OF_CONTENT, *_OF_CONTENT))
    if what == "drop":
        folder = root / ".hoodie" / random.choice(("metadata", "timeline"))
        if not folder.is_dir() or folders or kept:
            return []
        aside = Path(f"{root}.aside")
        folder.rename(aside)
        folders.append((folder, aside))
        return [Step(what, str(folder.relative_to(root)))]
    if what in ("foreign", "pending"):
        path = _stranger(root, random, name) if what == "foreign" else _pending(root)
        if path.exists():
            return []
        kept.setdefault(path, None)
        path.write_bytes(random.randbytes(20) if what == "foreign" else b"")
        return [Step(what, str(path.relative_to(root)))]
    data, stat = path.read_bytes(), path.stat()
    kept.setdefault(path, (data, stat))
    if what == "remove":
        path.unlink()
        return [Step(what, name)]
    if what == "pipe":
        path.unlink()
        os.mkfifo(path)
        return [Step(what, name)]
    alike = [(root / other).read_bytes() for other in names if (root / other).is_file()]
    changed = new_content(what, data, random, alike)
    path.write_bytes(changed)
    os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    return [] if changed == data else [Step(what, name)]


def new_content(what: str, data: bytes, random: Random, alike: Sequence[bytes]) -> bytes:
    """Return what becomes of a file; one of `alike`, its kind, may be put in its place."""
    seed = str(random.random())
    if what == "flip":
        return mutate(data, seed)
    if what == "cut":
        return truncate(data, seed)
    if what == "swap":
        return random.choice(alike or [data])
    return b"" if what == "empty" else data[: random.randint(1, 5)]


def _stranger(root: Path, random: Random, name: str) -> Path:
    folder = (root / name).parent
    return folder / random.choice(STRANGERS)


def _pending(root: Path) -> Path:
    folder = root / ".hoodie" / "timeline"
    folder = folder if any(folder.glob("*.*")) else root / ".hoodie"
    return folder / PENDING_NAME
