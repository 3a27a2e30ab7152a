"""The statements of a recursion. No Spark."""

from __future__ import annotations

from dataclasses import replace

import pytest

from laminar.delta.change import State
from laminar.delta.fixpoint import recurse, recurse_anew
from laminar.delta.program import Recursed

from .test_programs import PATHS, program

STILL = State(changed=False, positive=True)
MORE = State(insert_only=True, positive=True)


def recursed(most: int | None = 100) -> Recursed:
    found = program(f"{PATHS} SELECT * FROM r").relations[0]
    assert isinstance(found, Recursed)
    return replace(found, node=replace(found.node, most=most))


def statement(relation: Recursed, state: State, *, existed: bool = True) -> str:
    states = {"u": state, "v#1": State(positive=True)}
    found = recurse(relation, states, existed=existed, first=False)
    assert found is not None
    assert found.delta is not None
    assert found.insert_only is state.insert_only
    return found.delta


def test_where_nothing_changes_there_is_no_statement() -> None:
    states = {"u": STILL, "v#1": STILL}
    assert recurse(recursed(), states, existed=True, first=False) is None


def test_what_is_stored_meets_what_changes() -> None:
    assert "v_1_" in statement(recursed(), MORE)
    assert "v_1_" not in statement(recursed(), MORE, existed=False)


def test_a_step_follows_no_row_that_is_taken_back() -> None:
    plain, signed = statement(recursed(), MORE), statement(recursed(), State())
    assert plain.count("HAVING") == 1
    assert signed.count("HAVING") == 3  # what it begins with, what it is joined to, the result


@pytest.mark.parametrize(
    ("most", "state", "said"),
    [
        (5, MORE, "MAX RECURSION LEVEL 6"),
        (5, State(), "MAX RECURSION LEVEL 6"),
        (2**31 - 1, MORE, "MAX RECURSION LEVEL 2147483647"),
        (2**31 - 1, State(), "MAX RECURSION LEVEL 1000"),
        (None, State(), "MAX RECURSION LEVEL 1000"),
    ],
)
def test_the_recursion_ends_one_level_after_its_limit(
    most: int | None, state: State, said: str
) -> None:
    found = statement(recursed(most), state)
    assert said in found
    assert ("RAISE_ERROR" in found) is (most is not None)


def test_without_a_limit_only_signs_are_given_up() -> None:
    assert "MAX RECURSION" not in statement(recursed(None), MORE)
    states = {"u": State(), "v#1": State()}
    assert "MAX RECURSION" not in recurse_anew(recursed(None), states, first=False)


def test_computed_anew_it_takes_back_what_is_stored() -> None:
    states = {"u": State(), "v#1": State()}
    found = recurse_anew(recursed(), states, first=False)
    assert "-__weight" in found
    assert "u__after" in found
    assert "u__delta" not in found
