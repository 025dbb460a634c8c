from __future__ import annotations

import pytest

from tests.unit.write.tables import table
from tidelake.config import WriteOptions
from tidelake.errors import ConfigError
from tidelake.model.numbers import whole_number

MANY = "9" * 5000


@pytest.mark.parametrize(
    ("text", "number"), [("0", 0), ("-5", -5), ("007", 7), ("9" * 18, 10**18 - 1)]
)
def test_whole_numbers(text: str, number: int) -> None:
    assert whole_number(text) == number


@pytest.mark.parametrize(
    "text", ["", "-", "--5", "+5", "1_0", "1.5", "\u0665", "\u00b2", MANY, "5\n"]
)
def test_what_java_takes_for_no_whole_number(text: str) -> None:
    assert whole_number(text) is None


@pytest.mark.parametrize("text", ["--5", "-", MANY])
def test_an_option_that_is_no_number_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="a whole number"):
        WriteOptions.from_options({"hoodie.keep.min.commits": text})


def test_a_table_created_as_no_version_has_logs_of_any_write() -> None:
    made = table(properties={"hoodie.table.initial.version": MANY})
    assert not made.logs_name_their_write
