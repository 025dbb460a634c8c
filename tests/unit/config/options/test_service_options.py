from __future__ import annotations

import pytest

from tidelake.config import CleanPolicy, ServiceOptions, WriteOptions
from tidelake.errors import ConfigError


def services(**settings: str) -> ServiceOptions:
    options = {f"hoodie.{name.replace('_', '.')}": value for name, value in settings.items()}
    return WriteOptions.from_options(options).services


def test_the_defaults_are_apaches() -> None:
    found = services()
    assert (found.clean.automatic, found.archive.automatic) == (True, True)
    assert found.clean.policy is CleanPolicy.COMMITS
    assert (found.clean.commits, found.clean.hours, found.clean.file_versions) == (10, 24, 3)
    assert (found.archive.min_commits, found.archive.max_commits) == (20, 30)


@pytest.mark.parametrize(
    ("name", "policy"),
    [
        ("clean_commits_retained", CleanPolicy.COMMITS),
        ("cleaner_hours_retained", CleanPolicy.HOURS),
        ("cleaner_fileversions_retained", CleanPolicy.FILE_VERSIONS),
    ],
)
def test_the_policy_follows_the_number_that_is_given(name: str, policy: CleanPolicy) -> None:
    assert services(**{name: "4"}).clean.policy is policy
    assert services(**{name: "4", "cleaner_policy": "KEEP_LATEST_COMMITS"}).clean.policy is (
        CleanPolicy.COMMITS
    )


def test_both_spellings_of_a_number_count() -> None:
    assert services(clean_commits_retained="3").clean.commits == 3
    assert services(cleaner_commits_retained="3").clean.commits == 3


@pytest.mark.parametrize(
    "settings",
    [
        {"keep_min_commits": "5", "clean_commits_retained": "5"},
        {"keep_min_commits": "10"},
        {"keep_min_commits": "20", "keep_max_commits": "20"},
        {"keep_max_commits": "5"},
    ],
)
def test_archiving_what_a_clean_keeps_is_refused(settings: dict[str, str]) -> None:
    with pytest.raises(ConfigError, match=r"hoodie\.keep") as refused:
        services(**settings)
    assert "above" in refused.value.next_step


@pytest.mark.parametrize(
    ("settings", "bounds"),
    [
        ({"clean_commits_retained": "100"}, (110, 120)),
        ({"clean_commits_retained": "1", "keep_max_commits": "3"}, (2, 3)),
        ({"clean_commits_retained": "1", "keep_min_commits": "2"}, (2, 30)),
        ({"keep_min_commits": "40"}, (40, 50)),
        ({"keep_min_commits": "2", "cleaner_fileversions_retained": "1"}, (2, 30)),
    ],
)
def test_a_bound_that_is_not_given_follows_the_others(
    settings: dict[str, str], bounds: tuple[int, int]
) -> None:
    found = services(**settings).archive
    assert (found.min_commits, found.max_commits) == bounds


@pytest.mark.parametrize(
    "settings",
    [
        {"clean_commits_retained": "0"},
        {"clean_policy": "KEEP_EVERYTHING"},
        {"clean_automatic": "perhaps"},
        {"keep_max_commits": "many"},
    ],
)
def test_a_wrong_value_is_refused(settings: dict[str, str]) -> None:
    with pytest.raises(ConfigError):
        services(**settings)
