from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from laminar.model.trace_name import (
    TraceKind,
    TraceName,
    is_partial,
    is_plain,
    late_trace,
    own_traces,
    part_of,
    partial_trace,
    pending_trace,
    relation_of,
    view_of,
)

NAMES = [
    ("v", TraceName("v")),
    ("v#2", TraceName("v", 2)),
    ("v!partial", TraceName("v", None, TraceKind.PARTIAL)),
    ("v#10!pending", TraceName("v", 10, TraceKind.PENDING)),
    ("v!late", TraceName("v", None, TraceKind.LATE)),
    ("laminar_system.late_rows", TraceName("laminar_system.late_rows")),
    ("Größe von #1 und #2!", TraceName("Größe von #1 und #2!")),
    # Names that only look alike.
    ("a#b", TraceName("a#b")),
    ("a!b", TraceName("a!b")),
    ("a#0", TraceName("a#0")),
    ("a#01", TraceName("a#01")),
    ("a#²", TraceName("a#²")),
    ("a!partial!", TraceName("a!partial!")),
    ("#1", TraceName("#1")),
    ("a\n#1", TraceName("a\n", 1)),
    ("a#1#2!partial", TraceName("a#1", 2, TraceKind.PARTIAL)),
    ("a!partial#1", TraceName("a!partial", 1)),
    ("a!partial!pending", TraceName("a!partial", None, TraceKind.PENDING)),
]


@pytest.mark.parametrize(("text", "name"), NAMES, ids=[text for text, _ in NAMES])
def test_a_name_is_read_as_it_is_written(text: str, name: TraceName) -> None:
    assert (TraceName.parse(text), str(name)) == (name, text)


TEXTS = st.text(st.sampled_from("aé. #!019\n") | st.characters(), min_size=1) | st.builds(
    "{}{}{}".format,
    st.text("a#!1", max_size=3),
    st.sampled_from(["", "#1", "#23", "#0"]),
    st.sampled_from(["", "!partial", "!pending", "!late", "!other"]),
).filter(bool)


@given(TEXTS)
def test_every_text_is_a_name_and_stays_the_same(text: str) -> None:
    assert str(TraceName.parse(text)) == text


@given(TEXTS, st.none() | st.integers(1, 10**9), st.none() | st.sampled_from(TraceKind))
@example("v#1", None, None)
@example("v#1", None, TraceKind.PARTIAL)
@example("v!partial", None, None)
def test_a_name_is_read_back_or_cannot_be_made(
    view: str, part: int | None, kind: TraceKind | None
) -> None:
    try:
        name = TraceName(view, part, kind)
    except ValueError:
        assert part is None
        assert not is_plain(view)
    else:
        assert TraceName.parse(str(name)) == name


@pytest.mark.parametrize(
    ("view", "part"), [("", None), ("", 1), ("v#1", None), ("v", 0), ("v", -1)]
)
def test_a_name_that_would_mean_another_is_refused(view: str, part: int | None) -> None:
    with pytest.raises(ValueError, match="would not be read"):
        TraceName(view, part)


def test_nothing_has_no_name() -> None:
    with pytest.raises(ValueError, match="empty"):
        TraceName.parse("")
    assert not is_plain("")


@pytest.mark.parametrize("view", ["v", "Größe von", "a#b", "a!b", "b!partial!"])
def test_all_traces_of_a_view_are_found_by_it(view: str) -> None:
    part = part_of(view, 3)
    own = [view, part, partial_trace(view), pending_trace(view), partial_trace(part)]
    own.append(late_trace(view))
    others = [f"{view}2", partial_trace(f"{view}2"), f"{view}#x", f"{view}!x", f"x{part}"]
    assert is_plain(view)
    assert own_traces(view, [*others, *own]) == own
    assert {view_of(each) for each in own} == {view}
    assert [relation_of(each) for each in own] == [view, part, view, view, part, view]
    assert [is_partial(each) for each in own] == [False, False, True, False, True, False]
