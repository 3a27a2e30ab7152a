"""Whether two queries are the same, apart from blanks, comments and the case of keywords."""

from __future__ import annotations

from laminar.sql.keywords import keywords
from laminar.sql.tokens import Kind, Token, tokenize

_KEYWORDS = keywords(
    "ALL AND ANTI AS ASC BETWEEN BY CASE CAST CROSS CUBE DESC DISTINCT ELSE END EXCEPT EXISTS FALSE"
    " FILTER FIRST FOLLOWING FROM FULL GROUP GROUPING HAVING IN INNER INTERSECT INTERVAL IS JOIN"
    " LAST LATERAL LEFT LIKE LIMIT MINUS NATURAL NOT NULL NULLS OFFSET ON OR ORDER OUTER OVER"
    " PARTITION PRECEDING RANGE RECURSIVE RIGHT ROLLUP ROW ROWS SELECT SEMI SETS THEN TRUE"
    " UNBOUNDED UNION USING VALUES WHEN WHERE WINDOW WITH WITHIN"
)


def same_query(left: str, right: str) -> bool:
    """Whether two queries are the same; names keep their case, because results show it."""
    return normal_query(left) == normal_query(right)


def normal_query(query: str) -> list[tuple[Kind, str]]:
    """Return a query without blanks and comments, its keywords in one case."""
    return [(token.kind, _spelled(token)) for token in tokenize(query)]


def _spelled(token: Token) -> str:
    return token.upper if token.upper in _KEYWORDS else token.text
