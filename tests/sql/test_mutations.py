"""Whatever is fed in, what comes out is statements or an error of ours, at a place in the text.

`make soak` feeds in 100,000 mutated statements, LAMINAR_MUTATIONS as many, others with each
LAMINAR_SEED.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from hypothesis import given, seed, settings
from hypothesis import strategies as st

from laminar.errors import LaminarError
from laminar.sql import forbidden_functions, parse_script, relations_of, rewrite_windows
from laminar.sql.statements import Statement
from laminar.sql.tokens import tokenize

from .mutations import mutated
from .test_specification import FIXTURES
from .test_statements import GOOD

SEEDS = [
    *(text for text, _ in GOOD),
    *(path.read_text(encoding="utf-8") for path in sorted(FIXTURES.glob("*.sql"))),
]
WORDS = sorted({token.text for text in SEEDS for token in tokenize(text)})

MUTATIONS = int(os.environ.get("LAMINAR_MUTATIONS", "0"))


def only_our_errors(run: Callable[[str], Any], text: str) -> Any:
    """Run it; an error must be ours, and if it has a place, that is a place in the text."""
    try:
        return run(text)
    except LaminarError as error:
        require_inside(error, text)
        return None


def require_inside(error: LaminarError, text: str) -> None:
    assert str(error).startswith(f"{error.code}: ")
    if error.place is None:
        return
    line, column = error.place
    lines = text.split("\n")
    assert 1 <= line <= len(lines)
    # One past the end is where something is missing.
    assert 1 <= column <= len(lines[line - 1]) + 1
    *_, excerpt, carets = error.detail.split("\n")
    assert excerpt == f"    {lines[line - 1]}".rstrip("\r")
    assert set(carets) <= set(" \t^")
    assert "^" in carets


def examples(few: int) -> Callable[[Any], Any]:
    """Try a few, the same in every run, or as many as asked, by a seed."""
    if not MUTATIONS:
        return settings(max_examples=few)
    many = settings(
        max_examples=max(few, MUTATIONS * few // 2000), derandomize=False, database=None
    )
    chosen = seed(int(os.environ.get("LAMINAR_SEED", "1")))
    return lambda test: many(chosen(test))


@examples(2000)
@given(mutated(SEEDS, WORDS))
def test_a_mutated_statement_is_read_or_refused(text: str) -> None:
    for statement in only_our_errors(parse_script, text) or []:
        assert isinstance(statement, Statement)
        assert statement.text
        assert text[statement.location.offset :].startswith(statement.text.split()[0])


@examples(800)
@given(mutated(SEEDS, WORDS))
def test_a_mutated_query_is_read_or_refused(text: str) -> None:
    for run in (relations_of, rewrite_windows, forbidden_functions):
        only_our_errors(run, text)


@examples(500)
@given(st.text(max_size=40))
def test_any_text_is_read_or_refused(text: str) -> None:
    for run in (parse_script, relations_of, rewrite_windows, forbidden_functions):
        only_our_errors(run, text)


def test_an_error_outside_the_text_would_be_seen() -> None:
    outside = LaminarError("beyond").at("SELECT 1", 3).within(2, 1)
    try:
        require_inside(outside, "SELECT 1")
    except AssertionError:
        return
    raise AssertionError("a place outside the text went unseen")


def test_every_kind_of_statement_is_mutated() -> None:
    kinds = {type(each).__name__ for text, _ in GOOD for each in parse_script(text)}
    # By name: a class with slots is made twice, and the first one may linger.
    assert kinds == {kind.__name__ for kind in Statement.__subclasses__()}
