from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidelake.formats.instant_name import LAYOUT_1, LAYOUT_2, ON_TIMELINE, InstantName
from tidelake.model import Action, State

T = "20261115074309704"
C = "20261115074311002"

LAYOUT_2_NAMES = [
    (f"{T}.commit.requested", Action.COMMIT, State.REQUESTED, None),
    (f"{T}.inflight", Action.COMMIT, State.INFLIGHT, None),
    (f"{T}_{C}.commit", Action.COMMIT, State.COMPLETED, C),
    (f"{T}.deltacommit.inflight", Action.DELTACOMMIT, State.INFLIGHT, None),
    (f"{T}.clustering.requested", Action.CLUSTERING, State.REQUESTED, None),
    (f"{T}_{C}.replacecommit", Action.REPLACECOMMIT, State.COMPLETED, C),
    (f"{T}.compaction.inflight", Action.COMPACTION, State.INFLIGHT, None),
    (f"{T}.logcompaction.requested", Action.LOGCOMPACTION, State.REQUESTED, None),
    (f"{T}.savepoint.inflight", Action.SAVEPOINT, State.INFLIGHT, None),
    (f"{T}_{C}.savepoint", Action.SAVEPOINT, State.COMPLETED, C),
    (f"{T}_{C}.indexing", Action.INDEXING, State.COMPLETED, C),
]


@pytest.mark.parametrize(("name", "action", "state", "completion_time"), LAYOUT_2_NAMES)
def test_names_of_layout_2_come_apart_and_together(
    name: str, action: Action, state: State, completion_time: str | None
) -> None:
    parsed = InstantName.parse(name, LAYOUT_2)
    assert parsed == InstantName(
        requested_time=T, action=action, state=state, completion_time=completion_time
    )
    assert parsed.format() == name


def test_completed_file_of_layout_1_has_no_completion_time() -> None:
    parsed = InstantName.parse(f"{T}.deltacommit", LAYOUT_1)
    assert parsed is not None
    assert (parsed.state, parsed.completion_time) == (State.COMPLETED, None)


def test_layout_1_ignores_names_of_layout_2() -> None:
    assert InstantName.parse(f"{T}_{C}.commit", LAYOUT_1) is None


def test_legacy_completed_file_is_seen_in_layout_2() -> None:
    parsed = InstantName.parse(f"{T}.commit", LAYOUT_2)
    assert parsed is not None
    assert parsed.completion_time is None


@pytest.mark.parametrize("time", ["20210101000000", T, f"{T}010", "00000000000000000"])
def test_times_of_any_length_are_kept_as_written(time: str) -> None:
    parsed = InstantName.parse(f"{time}.deltacommit", LAYOUT_1)
    assert parsed is not None
    assert parsed.requested_time == time


@pytest.mark.parametrize(
    "name",
    [
        "hoodie.properties",
        f".{T}.commit.crc",
        f"{T}.commit.crc",
        f"{T}.commit.tmp",
        f"{T}.compaction",
        f"{T}_{C}.clustering",
        f"{T}_{C}.deltacommit.inflight",
        f"{T}.savepoint.requested",
        f"{T}.commit.inflight",
        f"{T}.COMMIT",
        "२०२६.commit",
        f"{T}.commit\n",
        "",
    ],
)
def test_foreign_files_are_no_instants(name: str) -> None:
    assert InstantName.parse(name, LAYOUT_2) is None


def test_a_pending_name_refuses_a_completion_time() -> None:
    with pytest.raises(ValueError, match="COMPLETED only"):
        InstantName(requested_time=T, action=Action.CLEAN, state=State.INFLIGHT, completion_time=C)


@given(
    st.sampled_from(sorted(ON_TIMELINE)),
    st.from_regex(r"[0-9]{14,20}", fullmatch=True),
    st.from_regex(r"[0-9]{17}", fullmatch=True),
)
def test_every_name_hudi_writes_survives_the_round_trip(
    kind: tuple[Action, State], requested: str, completion: str
) -> None:
    action, state = kind
    name = InstantName(
        requested_time=requested,
        action=action,
        state=state,
        completion_time=completion if state is State.COMPLETED else None,
    )
    assert InstantName.parse(name.format(), LAYOUT_2) == name
