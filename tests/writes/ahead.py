"""Tables written ahead, without Spark, for a reader that lives in another environment.

`python -m tests.writes.ahead FOLDER FIRST COUNT` writes a table for each seed, and beside it what
it owes to whoever asks.
"""

from __future__ import annotations

import json
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from random import Random  # noqa: TID251 - seeded

from tests.writes.cases import RandomWrites, case_for_apache
from tests.writes.quick_writer import OPERATIONS, QuickWriter
from tests.writes.table import Question, WrittenTable

_SHORTEST, _LONGEST = 3, 7


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """A table, and the questions with the answers that it owes."""

    seed: int
    told: str
    questions: list[Question]


def write(seed: int, folder: Path) -> None:
    """Write one table."""
    case = case_for_apache(seed)
    random = Random(seed)
    table = WrittenTable(QuickWriter(), folder / str(seed), case, [])
    writes = RandomWrites(case, random)
    possible = [do for do in OPERATIONS if do in case.operations]
    for _ in range(random.randint(_SHORTEST, _LONGEST)):
        table.write(writes.step(table.model, random.choice(possible)))
        table.check_now()
    if table.differences:
        raise AssertionError(table.told())
    found = Written(seed=seed, told=table.told(), questions=list(table.questions()))
    (folder / f"{seed}.json").write_text(json.dumps(asdict(found)))


def main() -> None:
    """Write as many tables as the command line asks for."""
    folder, first, count = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    folder.mkdir(parents=True, exist_ok=True)
    for seed in range(first, first + count):
        write(seed, folder)


if __name__ == "__main__":
    main()
