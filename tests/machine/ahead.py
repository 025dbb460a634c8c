"""Tables that the machine leaves, for a reader that lives in another environment.

`python -m tests.machine.ahead FOLDER FIRST COUNT` plays seeds from FIRST on until COUNT tables owe
the same rows to every engine. Beside each table lies what it owes.
"""

from __future__ import annotations

import json
import shutil
import sys
from itertools import count
from pathlib import Path

from tests.machine.play import play
from tests.machine.readers import hudi_rs
from tests.machine.rows import values


def main() -> None:
    """Leave as many tables as the command line asks for."""
    folder, first, wanted = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    folder.mkdir(parents=True, exist_ok=True)
    left = 0
    for seed in count(first):
        if left == wanted:
            return
        root = folder / str(seed)
        found = play(seed, root, None, others=[hudi_rs])
        if found.wrong:
            raise AssertionError(found.told())
        if found.rows is None or not found.rows.now:
            shutil.rmtree(root)
            continue
        columns = list(found.rows.columns)
        owed = {
            "told": found.told(),
            "columns": columns,
            "rows": values(found.rows.plain, columns),
        }
        (folder / f"{seed}.json").write_text(json.dumps(owed))
        left += 1


if __name__ == "__main__":
    main()
