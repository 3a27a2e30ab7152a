"""Spark's SQL functions, imported when the first of them is called.

Asking a source how far it has come takes no Spark, and whoever only does that should not load it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import functions as f
else:

    class _Functions:
        def __getattr__(self, name: str) -> object:
            from pyspark.sql import functions

            return getattr(functions, name)

    f = _Functions()

__all__ = ["f"]
