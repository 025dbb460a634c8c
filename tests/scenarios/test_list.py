"""No scenario is forgotten."""

from __future__ import annotations

import re
from pathlib import Path

#: The histories of which the outcome is owed, by part.
OWED = {
    "A": tuple(range(1, 15)),
    "B": tuple(range(1, 32)),
    "C": tuple(range(1, 27)),
    "F": tuple(range(1, 21)),
}


def test_every_scenario_has_a_test() -> None:
    text = "".join(path.read_text() for path in Path(__file__).parent.glob("test_*.py"))
    found = set(re.findall(r"def test_([A-G]_[0-9]{2})_", text))
    assert found == {f"{part}_{number:02d}" for part, numbers in OWED.items() for number in numbers}
