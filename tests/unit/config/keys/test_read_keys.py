from __future__ import annotations

from collections import Counter
from pathlib import Path

from tidelake.config.document import options_page
from tidelake.config.keys import read_keys as keys


def test_every_name_is_declared_once_in_its_scope() -> None:
    counted = Counter((key.scope, name) for key in keys.ALL for name in key.names)
    assert [name for name, count in counted.items() if count > 1] == []


def test_defaults_are_among_the_choices() -> None:
    wrong = [k.name for k in keys.ALL if k.choices and k.default not in (None, *k.choices)]
    assert wrong == []


def test_the_options_page_is_what_the_registry_says() -> None:
    page = Path(__file__).parents[4] / "docs" / "options.md"
    assert page.read_text() == options_page(), "run: python -m tidelake.config > docs/options.md"
