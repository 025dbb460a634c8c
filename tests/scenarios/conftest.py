"""Every scenario is played twice: with the rule that it guards, and without.

A test with `@pytest.mark.guards(plant)` must pass as it is, and fail once `plant`, a function of a
monkeypatch, has taken the rule out of the code.
"""

from __future__ import annotations

from collections.abc import Generator

import pytest
from pluggy import Result

from tidelake.errors import TidelakeError

_FAILURES = (AssertionError, KeyError, pytest.fail.Exception, TidelakeError)


@pytest.fixture(autouse=True)
def rule(request: pytest.FixtureRequest) -> str:
    """Return whether the rule is `kept` or `broken`."""
    return str(getattr(request, "param", "kept"))


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if metafunc.definition.get_closest_marker("guards") is not None:
        metafunc.parametrize("rule", ["kept", "broken"], indirect=True)


@pytest.hookimpl(hookwrapper=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> Generator[None, Result[object], None]:
    marker = pyfuncitem.get_closest_marker("guards")
    if marker is None or pyfuncitem.funcargs.get("rule") != "broken":
        yield
        return
    with pytest.MonkeyPatch.context() as patch:
        for plant in marker.args:
            plant(patch)
        outcome = yield
    if outcome.excinfo is None:
        outcome.force_exception(AssertionError("this passes without the rule that it guards"))
    elif issubclass(outcome.excinfo[0], _FAILURES):
        outcome.force_result(True)
