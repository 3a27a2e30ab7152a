"""What a relation is made from, in words: a chain as a line, anything wider as a tree."""

from __future__ import annotations

from collections.abc import Mapping, Sequence


def dependency_lines(name: str, reads: Mapping[str, Sequence[str]]) -> list[str]:
    """Return `a -> b -> c` if each reads one thing, and else a tree, each branch drawn once."""
    chain = [name]
    while len(below := reads.get(chain[-1], ())) == 1:
        chain.append(below[0])
    if not below:
        return [" -> ".join(chain)]
    lines = [name]
    _branches(name, reads, "", lines, set())
    return lines


def _branches(
    name: str, reads: Mapping[str, Sequence[str]], margin: str, lines: list[str], seen: set[str]
) -> None:
    below = reads.get(name, ())
    for place, each in enumerate(below):
        is_last = place == len(below) - 1
        again = each in seen and bool(reads.get(each))
        lines.append(
            f"{margin}{'└─ ' if is_last else '├─ '}{each}{' (see above)' if again else ''}"
        )
        if not again:
            seen.add(each)
            _branches(each, reads, f"{margin}{'   ' if is_last else '│  '}", lines, seen)
