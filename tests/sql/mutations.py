"""Good statements, spoilt: the ways in which people and programs get SQL wrong."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import strategies as st

from laminar.errors import SqlSyntaxError
from laminar.sql.tokens import tokenize


@st.composite
def mutated(
    draw: st.DrawFn, seeds: Sequence[str], words: Sequence[str], *, tokens_only: bool = False
) -> str:
    """A good statement with mistakes in it; all else stays as it was, layout too.

    Mistakes of whole tokens, one or two of them, get past the parser more often.
    """
    text = draw(st.sampled_from(seeds))
    for _ in range(draw(st.integers(1, 2 if tokens_only else 4))):
        text = draw(st.sampled_from(WAYS[:4] if tokens_only else WAYS))(draw, text, words)
    return text


def _places(text: str) -> list[tuple[int, int]]:
    try:
        return [(token.start, token.end) for token in tokenize(text)] or [(0, 0)]
    except SqlSyntaxError:
        return [(0, len(text))]  # spoilt already


def _deleted(draw: st.DrawFn, text: str, _: Sequence[str]) -> str:
    start, end = draw(st.sampled_from(_places(text)))
    return text[:start] + text[end:]


def _doubled(draw: st.DrawFn, text: str, _: Sequence[str]) -> str:
    start, end = draw(st.sampled_from(_places(text)))
    return f"{text[:end]} {text[start:end]}{text[end:]}"


def _swapped(draw: st.DrawFn, text: str, _: Sequence[str]) -> str:
    places = _places(text)
    one, other = sorted([draw(st.sampled_from(places)), draw(st.sampled_from(places))])
    if one == other:
        return text
    (a, b), (c, d) = one, other
    return text[:a] + text[c:d] + text[b:c] + text[a:b] + text[d:]


def _replaced(draw: st.DrawFn, text: str, words: Sequence[str]) -> str:
    start, end = draw(st.sampled_from(_places(text)))
    return text[:start] + draw(st.sampled_from(words)) + text[end:]


def _disturbed(draw: st.DrawFn, text: str, _: Sequence[str]) -> str:
    at = draw(st.integers(0, len(text)))
    kept = draw(st.integers(at, min(at + 2, len(text))))
    return text[:at] + draw(st.text(max_size=3)) + text[kept:]


def _cut_off(draw: st.DrawFn, text: str, _: Sequence[str]) -> str:
    at = draw(st.integers(0, len(text)))
    return text[:at] if draw(st.booleans()) else text[at:]


WAYS = (_deleted, _doubled, _swapped, _replaced, _disturbed, _cut_off)
