"""Columns of CHAR(n): text of n characters, filled up with blanks, that is compared as such.

Spark stores them as STRING and notes n in the metadata of a column; the note goes with the column
through queries, as long as it is a column and no expression. Comparisons heed it: see
`plan/char_padding.py`.
"""

from __future__ import annotations

from typing import TypeAlias

Chars: TypeAlias = tuple[tuple[str, int], ...]
"""Column -> n, for some columns of a relation."""
