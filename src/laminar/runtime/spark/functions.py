"""The functions that a query may call."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

OWN_FUNCTIONS = ("tumble", "tumble_start", "tumble_end", "hop", "hop_start", "hop_end")
"""Those that are ours, in Spark's words only after rewriting."""


@functools.lru_cache(maxsize=4)
def known_functions(session: SparkSession) -> tuple[str, ...]:
    """Return the names of all functions, ours and Spark's; Spark is asked once."""
    listed = session.sql("SHOW SYSTEM FUNCTIONS").collect()
    names = (str(row[0]) for row in listed)
    # Operators are listed too, such as `%` and `!=`.
    return (*OWN_FUNCTIONS, *(name for name in names if name.isidentifier()))
