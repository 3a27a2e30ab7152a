"""Whatever is fed in, what comes out is statements or an error of ours."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from laminar.errors import LaminarError
from laminar.sql import forbidden_functions, parse_script, relations_of, rewrite_windows
from laminar.sql.statements import Statement
from laminar.sql.tokens import tokenize

from .test_specification import FIXTURES
from .test_statements import GOOD

SEEDS = [
    *(text for text, _ in GOOD),
    *(path.read_text(encoding="utf-8") for path in sorted(FIXTURES.glob("*.sql"))),
]
WORDS = sorted({token.text for text in SEEDS for token in tokenize(text)})


@st.composite
def mutated(draw: st.DrawFn) -> str:
    """A good statement in which some tokens are dropped, doubled, swapped or replaced."""
    tokens = [token.text for token in tokenize(draw(st.sampled_from(SEEDS)))]
    for _ in range(draw(st.integers(1, 4))):
        if not tokens:
            break
        at = draw(st.integers(0, len(tokens) - 1))
        match draw(st.integers(0, 4)):
            case 0:
                del tokens[at]
            case 1:
                tokens.insert(at, tokens[at])
            case 2:
                other = draw(st.integers(0, len(tokens) - 1))
                tokens[at], tokens[other] = tokens[other], tokens[at]
            case 3:
                tokens[at] = draw(st.sampled_from(WORDS))
            case _:
                word = tokens[at]
                cut = draw(st.integers(0, len(word)))
                tokens[at] = word[:cut] + draw(st.text(max_size=2)) + word[cut:]
    return " ".join(tokens)


def only_our_errors(run: Callable[[str], Any], text: str) -> Any:
    try:
        return run(text)
    except LaminarError:
        return None


@settings(max_examples=1500)
@given(mutated())
def test_a_mutated_statement_is_read_or_refused(text: str) -> None:
    for statement in only_our_errors(parse_script, text) or []:
        assert isinstance(statement, Statement)
        assert statement.text
        assert text[statement.location.offset :].startswith(statement.text.split()[0])


@settings(max_examples=800)
@given(mutated())
def test_a_mutated_query_is_read_or_refused(text: str) -> None:
    for run in (relations_of, rewrite_windows, forbidden_functions):
        only_our_errors(run, text)


@settings(max_examples=500)
@given(st.text(max_size=40))
def test_any_text_is_read_or_refused(text: str) -> None:
    for run in (parse_script, relations_of, rewrite_windows, forbidden_functions):
        only_our_errors(run, text)
