from __future__ import annotations

import dataclasses
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from laminar.errors.store import ManifestCorrupt
from laminar.model.state import FORM, Clocks, EngineState, UnfinishedRestore
from laminar.model.trace import Manifest
from laminar.store.durable_files import seal
from laminar.store.manifests import _decode

FAILURE = {"count": 1, "reason": "1 / 0", "failed_at_ms": 5, "retry_at_ms": 9}

# What the first release wrote, key by key: a folder that was written then has to open for ever.
WRITTEN: dict[str, Any] = {
    "fused": ["f", "g"],
    "views": {"v": {"columns": [["n", "bigint"]], "reads": ["t"], "strategy": "incremental"}},
    "operators": {"op": "AP9z"},
    "settings": {"retained_epochs": "7"},
    "sinks": [{"name": "out", "relation": "v", "options": {}}],
    "report": {"rows_in": 3, "views": []},
    "said": {"t": 11},
    "parts": {"t": {"p": 12}},
    "clocks": {"emitted_at": {"v": 1}, "aged_to": {"v#1": 2}, "late": {"t": 3}},
    "cuts": {"4": {"t": 10}, "12": {"t": 11}},
    "paused": ["v"],
    "held": {"v": 4},
    "filled": {"v": 2},
    "failures": {"v": FAILURE},
    "gated": ["t"],
    "stepped_ms": {"v": 99},
    "commits": {"v": 6},
}

STATE = EngineState(
    fused=frozenset({"g", "f"}),
    outlines=WRITTEN["views"],
    operators={"op": b"\x00\xffs"},
    settings={"retained_epochs": "7"},
    sinks=({"name": "out", "relation": "v", "options": {}},),
    report={"rows_in": 3, "views": []},
    said={"t": 11},
    parts={"t": {"p": 12}},
    clocks=Clocks({"v": 1}, {"v#1": 2}, {"t": 3}),
    cuts={4: {"t": 10}, 12: {"t": 11}},
    paused=frozenset({"v"}),
    behind={"v": 4},
    filled={"v": 2},
    failures={"v": FAILURE},
    gated=frozenset({"t"}),
    stepped_ms={"v": 99},
    commits={"v": 6},
)

RESTORED = {"checkpoint": 3, "pushed": {"t": 5}, "last": {"t": 9}}


def through_text(state: EngineState) -> EngineState:
    return EngineState.from_json(json.loads(json.dumps(state.to_json())))


def test_a_state_is_written_under_the_keys_it_always_had() -> None:
    assert STATE.to_json() == WRITTEN
    assert list(STATE.to_json()) == list(WRITTEN)
    assert EngineState.from_json(WRITTEN) == STATE


def test_every_field_has_a_form_and_a_key_of_its_own() -> None:
    fields = [field.name for field in dataclasses.fields(EngineState)]
    assert [each.name for each in FORM] == [name for name in fields if name != "unknown"]
    assert len({each.key for each in FORM}) == len(FORM)


def test_what_older_versions_did_not_write_has_a_default() -> None:
    assert EngineState.from_json({}) == EngineState()
    assert EngineState.from_json(dict.fromkeys(WRITTEN)) == EngineState()
    for key in WRITTEN:
        lacking = {each: WRITTEN[each] for each in WRITTEN if each != key}
        part = next(each for each in FORM if each.key == key)
        default = getattr(EngineState(), part.name)
        assert EngineState.from_json(lacking) == dataclasses.replace(STATE, **{part.name: default})


def test_keys_of_another_version_are_handed_on() -> None:
    state = EngineState.from_json({**WRITTEN, "quota": {"v": 1}})
    assert dataclasses.replace(state, paused=frozenset()).to_json()["quota"] == {"v": 1}


def test_what_is_left_to_do_is_written_only_if_there_is_something() -> None:
    assert not {"rebuild", "restored"} & set(EngineState().to_json())
    left = UnfinishedRestore(3, {"t": 5}, {"t": 9}, ({"epoch": 7, "ranges": []},))
    state = EngineState(rebuild=("w", "v"), restored=left)
    assert state.to_json()["rebuild"] == ["w", "v"]
    assert through_text(state) == state
    # Before epochs in flight were kept with a checkpoint, nothing was said of them.
    assert EngineState.from_json({"restored": RESTORED}).restored == dataclasses.replace(
        left, in_flight=()
    )


NAMES = st.text(max_size=6)
NUMBERS = st.dictionaries(NAMES, st.integers())
PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | NAMES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=6,
)
OBJECTS = st.dictionaries(NAMES, PLAIN, max_size=3)
SETS = st.frozensets(NAMES, max_size=3)
KEYS = {each.key for each in FORM}
STATES = st.builds(
    EngineState,
    fused=SETS,
    outlines=st.dictionaries(NAMES, OBJECTS, max_size=2),
    operators=st.dictionaries(NAMES, st.binary(max_size=8), max_size=2),
    settings=st.dictionaries(NAMES, NAMES, max_size=2),
    sinks=st.lists(OBJECTS, max_size=2).map(tuple),
    report=OBJECTS,
    said=NUMBERS,
    parts=st.dictionaries(NAMES, NUMBERS, max_size=2),
    clocks=st.builds(Clocks, NUMBERS, NUMBERS, NUMBERS),
    cuts=st.dictionaries(st.integers(0), NUMBERS, max_size=2),
    paused=SETS,
    behind=NUMBERS,
    filled=NUMBERS,
    failures=st.dictionaries(NAMES, OBJECTS, max_size=2),
    gated=SETS,
    stepped_ms=NUMBERS,
    commits=NUMBERS,
    rebuild=st.lists(NAMES, max_size=2).map(tuple),
    restored=st.none()
    | st.builds(
        UnfinishedRestore,
        st.integers(),
        NUMBERS,
        NUMBERS,
        st.lists(OBJECTS, max_size=2).map(tuple),
    ),
    unknown=st.dictionaries(NAMES.filter(lambda key: key not in KEYS), PLAIN, max_size=2),
)


@given(STATES)
def test_a_state_survives_text(state: EngineState) -> None:
    assert through_text(state) == state


@given(STATES)
def test_so_it_does_in_a_manifest(state: EngineState) -> None:
    manifest = Manifest(1, {}, {}, [], {}, state, "")
    assert Manifest.from_json(json.loads(json.dumps(manifest.to_json()))) == manifest


@pytest.mark.parametrize(
    "broken",
    [
        {"held": 3},
        {"clocks": {"of tomorrow": {}}},
        {"cuts": {"four": {}}},
        {"operators": {"op": "!"}},
        {"restored": {"last": {}}},
        {"fused": 1},
    ],
)
def test_a_state_that_makes_no_sense_is_a_damaged_manifest(
    broken: dict[str, Any], tmp_path: Any
) -> None:
    whole = Manifest(1, {}, {}, [], {}, EngineState(), "").to_json()
    with pytest.raises(ManifestCorrupt, match="cannot be understood"):
        _decode(tmp_path, seal({**whole, "state": broken}))
