"""Why a query, or a part of it, has no incremental rule."""

from __future__ import annotations

from enum import StrEnum


class Reason(StrEnum):
    """Stable reason codes, shown by EXPLAIN and in refusals."""

    REQUESTED = "REQUESTED"
    RECURSIVE_CTE = "RECURSIVE_CTE"
    RECURSION_TWICE = "RECURSION_TWICE"
    RECURSION_BY_LEVEL = "RECURSION_BY_LEVEL"
    TABLE_FUNCTION = "TABLE_FUNCTION"
    TABLE_SAMPLE = "TABLE_SAMPLE"
    PIVOT = "PIVOT"
    LATERAL_SUBQUERY = "LATERAL_SUBQUERY"
    SUBQUERY_POSITION = "SUBQUERY_POSITION"
    CORRELATION = "CORRELATION"
    GENERATOR_POSITION = "GENERATOR_POSITION"
    LIMIT_EXPRESSION = "LIMIT_EXPRESSION"
    STAR_MODIFIER = "STAR_MODIFIER"
    STAR_ARGUMENT = "STAR_ARGUMENT"
    NAMED_BY_COLUMNS = "NAMED_BY_COLUMNS"
    MAP_KEY = "MAP_KEY"
    NON_DETERMINISTIC = "NON_DETERMINISTIC"
    UNRESOLVED_NAME = "UNRESOLVED_NAME"
    UNKNOWN_CLAUSE = "UNKNOWN_CLAUSE"
    UNKNOWN_COMPARISON = "UNKNOWN_COMPARISON"
    SPARK_SETTING = "SPARK_SETTING"
    LOWERING_FAILED = "LOWERING_FAILED"
    LOWERING_CHANGED_TYPES = "LOWERING_CHANGED_TYPES"


class NoRule(Exception):
    """Raised while planning: this query must be recomputed in full, and here is why."""

    def __init__(self, reason: Reason, detail: str) -> None:
        super().__init__(f"{reason}: {detail}")
        self.reason = reason
        self.detail = detail
