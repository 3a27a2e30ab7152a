"""Whether an expression holds a query, also one that is not written with SELECT."""

from __future__ import annotations

from laminar.sql.keywords import keywords
from laminar.sql.tokens import Kind, Token, tokenize

_STARTS = ("VALUES", "TABLE", "FROM", "WITH")
_OPERATORS = keywords("AND OR NOT IS IN BETWEEN LIKE ILIKE RLIKE REGEXP DIV ESCAPE COLLATE AS")


def holds_query(expression: str) -> bool:
    """Whether a query stands in an expression: SELECT, (VALUES ...), (TABLE t), (FROM t ...)."""
    tokens = tokenize(expression)
    if any(token.is_word("SELECT") for token in tokens):
        return True
    trios = zip(tokens, tokens[1:], tokens[2:], strict=False)
    return any(
        opening.is_symbol("(") and word.is_word(*_STARTS) and _is_operand(after)
        for opening, word, after in trios
    )


def _is_operand(token: Token) -> bool:
    """Whether a token follows what begins a query; behind a name comes an operator."""
    if token.kind is Kind.SYMBOL:
        return token.text == "("
    return token.kind is not Kind.END and token.upper not in _OPERATORS
