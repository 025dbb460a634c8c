"""Play every scenario and print a line for each: `make scenarios`."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

_NAME = re.compile(r"test_([A-G])_([0-9]{2})_")


class Scoreboard:
    """What became of each scenario, and what it says."""

    def __init__(self) -> None:
        self.says: dict[str, str] = {}
        self.failed: set[str] = set()

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Note what each scenario says."""
        for item in items:
            found = scenario(item.nodeid)
            function = getattr(item, "function", None)
            if found is not None and function is not None:
                says = (function.__doc__ or "").strip().partition("\n")[0]
                self.says.setdefault(found, says)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Note what failed."""
        found = scenario(report.nodeid)
        if found is not None and report.failed:
            self.failed.add(found)


def scenario(nodeid: str) -> str | None:
    """Return the id of the scenario that a test plays."""
    found = _NAME.search(nodeid)
    return None if found is None else f"{found[1]}-{found[2]}"


def main() -> int:
    """Return 0 when every scenario is as it is owed."""
    board = Scoreboard()
    folder = str(Path(__file__).parent)
    code = pytest.main(["-q", "-q", "--no-header", folder, *sys.argv[1:]], plugins=[board])
    for found, says in sorted(board.says.items()):
        print(f"{found}  {'FAIL' if found in board.failed else 'pass'}  {says}")
    print(f"{len(board.says)} scenarios, {len(board.failed)} failed")
    return int(code)


if __name__ == "__main__":
    sys.exit(main())
