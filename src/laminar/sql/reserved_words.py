"""Names that are keywords elsewhere: Spark reads nearly every keyword as a name where one fits.

    SELECT select.xor AS like FROM cross AS select      is a query of Spark's

A word is a name by where it stands: after a dot or AS, before a dot, after FROM or JOIN, and where
a value is expected that no keyword begins. Such words are put into backquotes for parsers that
reserve them; all others, and everything else, stay as they are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum, auto

from laminar.model.quoting import backquoted
from laminar.sql.keywords import keywords
from laminar.sql.tokens import Kind, Token, tokenize

_RESERVED_ELSEWHERE = keywords(
    "ALL ALTER AND ANY AS ASOF BETWEEN CASE COLLATE CONNECT_BY_ROOT CREATE CROSS CUBE CURRENT_DATE"
    " CURRENT_TIME CURRENT_TIMESTAMP CURRENT_USER DESCRIBE DISTINCT DROP ELSE EXCEPT FALSE FETCH"
    " FOR FROM GLOB GRANT HAVING IF ILIKE IN INNER INSERT INTERSECT INTERVAL INTO ISNULL JOIN"
    " LATERAL LIKE LIMIT LOCALTIME LOCK MINUS NOT NOTNULL NULL OFFSET ON OR OUTER OVERLAPS"
    " PARTITIONED_BY QUALIFY RECURSIVE REGEXP RETURNING REVOKE RLIKE ROLLBACK ROLLUP SELECT"
    " SERDEPROPERTIES SESSION_USER STRAIGHT_JOIN TABLE TABLESAMPLE THEN TRUE UNCACHE UNION USING"
    " VALUES WHEN WHERE WINDOW WITH XOR"
)
"""What sqlglot reserves somewhere and Spark does not."""

_CONSTANTS = keywords(
    "TRUE FALSE NULL CURRENT_DATE CURRENT_TIME CURRENT_TIMESTAMP CURRENT_USER SESSION_USER"
    " LOCALTIME"
)
"""Where a value is expected, these are one."""

_BEGIN_VALUE = keywords(
    "ALL ANY AS CASE DISTINCT EXISTS FROM IF INTERVAL NOT SELECT TABLE VALUES WHEN WHERE WITH"
)
"""Where a value is expected, these are names only before something that ends a value."""

_NO_PREFIX = keywords("ANY AS FROM IF VALUES WHERE WITH")
"""Before a sign, these are what the sign follows."""

_STRICT = keywords(
    "ANTI CROSS EXCEPT FULL INNER INTERSECT JOIN LATERAL LEFT MINUS NATURAL ON RIGHT SEMI SETMINUS"
    " UNION USING"
)
"""No names of relations after a relation, not in Spark either."""

_NO_ALIAS = keywords("ALL NULL")
"""No aliases without AS."""

_BETWEEN_VALUES = keywords("AND ILIKE LIKE OR")

_AFTER_FROM = keywords(", ) . FROM AS WHERE GROUP HAVING ORDER LIMIT UNION JOIN")
_ENDS_VALUE = keywords(", ) ] . = == < > <= >= <> != <=> || / % & | ^ -> =>")
_AFTER_VALUE = keywords("AS FROM ASC DESC AND OR THEN ELSE WHEN END IS BETWEEN LIKE GROUP ORDER")
_POSTFIX = keywords("NOT IS")
_ENDS_FROM = keywords(
    "SELECT WHERE GROUP HAVING ORDER SORT CLUSTER DISTRIBUTE LIMIT OFFSET WINDOW QUALIFY UNION"
    " EXCEPT INTERSECT MINUS SETMINUS"
)
_OPERATORS = keywords("AND OR LIKE ILIKE RLIKE REGEXP BETWEEN DIV THEN ELSE WHEN BY ON")
_SETS = keywords("UNION EXCEPT INTERSECT MINUS SETMINUS")
_WITH_FROM = keywords("EXTRACT TRIM SUBSTRING SUBSTR OVERLAY")
_WITH_TYPE = keywords("CAST TRY_CAST")


def quoted_names(query: str) -> str:
    """Return the query with backquotes around the words that are names and reserved elsewhere."""
    tokens = tokenize(query)
    if not any(token.upper in _RESERVED_ELSEWHERE for token in tokens):
        return query
    kept, at = [], 0
    for place in _Reading(tokens).names():
        token = tokens[place]
        if token.upper in _RESERVED_ELSEWHERE:
            kept += [query[at : token.start], backquoted(token.text)]
            at = token.end
    return "".join([*kept, query[at:]])


class _Expects(Enum):
    """What may come next."""

    START = auto()  # a query
    ITEM = auto()  # the name of a WITH item
    VALUE = auto()
    RELATION = auto()
    NAME = auto()
    POSTFIX = auto()  # the rest of IS [NOT] or NOT
    MORE = auto()  # whatever follows a value or a relation


@dataclass(slots=True)
class _Level:
    """What stands between two brackets."""

    before: str = ""
    in_from: bool = False
    in_with: bool = False
    in_values: bool = False


class _Reading:
    """Goes through the tokens once, from left to right, and knows what is expected next."""

    def __init__(self, tokens: Sequence[Token]) -> None:
        self.tokens = tokens
        self.levels = [_Level()]
        self.expects = _Expects.START

    def names(self) -> list[int]:
        """Return the places of words that are names."""
        found, place = [], 0
        while place < len(self.tokens):
            token = self.tokens[place]
            if token.kind is Kind.WORD:
                if self._is_name(place):
                    found.append(place)
                    self._after_name()
                else:
                    self._keyword(place)
                    place = self._after_type(place)
            elif token.kind is Kind.SYMBOL:
                self._symbol(place)
                place = self._after_type(place)
            elif self.expects is _Expects.ITEM or token.kind is Kind.QUOTED:
                self._after_name()
            else:
                self.expects = _Expects.MORE
            place += 1
        return found

    def _at(self, place: int) -> Token | None:
        return self.tokens[place] if 0 <= place < len(self.tokens) else None

    def _after_name(self) -> None:
        if self.expects in (_Expects.NAME, _Expects.MORE):
            self.levels[-1].in_values = False
        self.expects = _Expects.MORE

    def _follows(self, place: int, *words: str) -> bool:
        before = self._at(place - 1)
        return before is not None and before.is_word(*words)

    def _is_name(self, place: int) -> bool:
        word = self.tokens[place].upper
        before, after = self._at(place - 1), self._at(place + 1)
        if before is not None and before.is_symbol("."):
            return True
        if after is not None and after.is_symbol("."):
            return self._at(place + 2) is not None
        called = after is not None and after.is_symbol("(")
        match self.expects:
            case _Expects.NAME:
                return True
            case _Expects.ITEM:
                return word != "RECURSIVE" or called or (after is not None and after.is_word("AS"))
            case _Expects.RELATION:
                return not called and not self._begins_relation(place)
            case _Expects.VALUE:
                return not called and self._is_value(word, before, after)
            case _Expects.MORE:
                return self._is_alias(place)
        return False

    def _begins_relation(self, place: int) -> bool:
        """Whether a word after FROM or JOIN is LATERAL or VALUES, and no name."""
        word, after, then = self.tokens[place].upper, self._at(place + 1), self._at(place + 2)
        if word == "LATERAL":
            return after is not None and after.kind in (Kind.WORD, Kind.QUOTED)
        if after is None or after.kind in (Kind.NUMBER, Kind.STRING):
            return after is not None
        calls = after.kind is Kind.WORD and then is not None and then.is_symbol("(")
        return word == "VALUES" and calls

    def _is_value(self, word: str, before: Token | None, after: Token | None) -> bool:
        if word in _CONSTANTS or (after is not None and after.kind is Kind.STRING):
            return False
        if word == "SELECT":
            opened = before is None or before.is_symbol("(")
            return not opened or self._ends_value(after)
        if word == "DISTINCT" and before is not None and before.is_word("SELECT"):
            return after is not None and after.upper in _ENDS_VALUE
        if word == "ALL" and before is not None and before.is_word("BY"):
            return after is not None and after.is_symbol(",")
        if word == "CASE" and after is not None and after.is_word("WHEN"):
            return False
        if word in _NO_PREFIX and after is not None and after.upper in ("+", "-"):
            return True
        if word == "WHERE" and self.levels[-1].before == "FILTER":
            return False
        if word == "WHEN" and before is not None:
            return not before.is_word("CASE") or (after is not None and after.upper in _ENDS_VALUE)
        return word not in _BEGIN_VALUE or self._ends_value(after)

    def _ends_value(self, after: Token | None) -> bool:
        return after is None or after.upper in _ENDS_VALUE or after.upper in _AFTER_VALUE

    def _is_alias(self, place: int) -> bool:
        """Whether a word right after a value or a relation gives it a name."""
        word, after, then = self.tokens[place].upper, self._at(place + 1), self._at(place + 2)
        if (
            word not in _RESERVED_ELSEWHERE
            or word in _NO_ALIAS
            or self.tokens[place - 1].text == "*"
        ):
            return False
        ends = after is None or after.upper in (",", ")")
        if self.levels[-1].in_from or ends:
            return ends and (word not in _STRICT or not self.levels[-1].in_from)
        assert after is not None
        # x AS from FROM t, and t FROM from: there, the second one is the name.
        named = word in ("AS", "FROM") and (then is None or then.upper in _AFTER_FROM)
        return after.is_word("FROM") and not named and word not in _BETWEEN_VALUES

    def _keyword(self, place: int) -> None:
        word, after = self.tokens[place].upper, self._at(place + 1)
        level = self.levels[-1]
        if self.expects is _Expects.MORE and word not in _OPERATORS | _POSTFIX:
            level.in_values = False
        if word in _ENDS_FROM:
            level.in_from = False
        if word == "WITH" and self.expects is _Expects.START:
            level.in_with = True
            self.expects = _Expects.ITEM
        elif word in ("SELECT", "WHERE", "HAVING", "QUALIFY", "LIMIT", "OFFSET", "USING"):
            level.in_with = False
            self.expects = _Expects.VALUE
        elif word == "FROM":
            self._from(place)
        elif word == "JOIN" or (
            word == "LATERAL" and after is not None and not after.is_word("VIEW")
        ):
            self.expects = _Expects.RELATION
        elif word == "AS":
            self.expects = _Expects.MORE if level.before in _WITH_TYPE else _Expects.NAME
        elif word in _SETS:
            self.expects = _Expects.START
        elif word == "VALUES":
            level.in_values = True
            self.expects = _Expects.VALUE
        elif word == "TABLE":
            self.expects = _Expects.RELATION
        elif word == "WITH" or (word == "ALL" and self._follows(place, "BY", "LIMIT")):
            self.expects = _Expects.POSTFIX if word == "WITH" else _Expects.MORE
        elif word in _POSTFIX and self.expects in (_Expects.MORE, _Expects.POSTFIX):
            self.expects = _Expects.POSTFIX
        elif word in _OPERATORS or (word == "IN" and self.expects is not _Expects.VALUE):
            self.expects = _Expects.VALUE
        elif word in _BEGIN_VALUE and self.expects is _Expects.VALUE:
            pass
        elif word not in ("ALL", "DISTINCT", "RECURSIVE", "NATURAL"):
            self.expects = _Expects.MORE

    def _from(self, place: int) -> None:
        before = self._at(place - 1)
        distinct = before is not None and before.is_word("DISTINCT")
        if self.levels[-1].before in _WITH_FROM or distinct:
            self.expects = _Expects.VALUE
            return
        self.levels[-1].in_from, self.levels[-1].in_with = True, False
        self.expects = _Expects.RELATION

    def _symbol(self, place: int) -> None:
        sign = self.tokens[place].text
        match sign:
            case "(":
                self._open(place)
            case ")":
                self._close()
            case "]" | "}":
                self.expects = _Expects.MORE
            case ",":
                self._comma()
            case ".":
                self.expects = _Expects.NAME
            case "*":
                is_star = self.expects is _Expects.VALUE
                self.expects = _Expects.MORE if is_star else _Expects.VALUE
            case "|>":
                self.levels[-1].in_from = False
                self.expects = _Expects.START
            case ":":
                self.expects = _Expects.NAME
            case "!" if self.expects in (_Expects.MORE, _Expects.POSTFIX):
                self.expects = _Expects.POSTFIX
            case _:
                self.expects = _Expects.VALUE

    def _open(self, place: int) -> None:
        before, first = self._at(place - 1), self._at(place + 1)
        name = before.upper if before is not None else ""
        begins = first is not None and first.is_word("WITH", "FROM", "VALUES", "TABLE", "SELECT")
        self.levels.append(_Level(name, in_from=self.expects is _Expects.RELATION and not begins))
        if self.levels[-1].in_from:
            return
        second, third = self._at(place + 2), self._at(place + 3)
        is_like = second is not None and second.is_word("LIKE")
        is_call = is_like and third is not None and third.is_symbol("(")
        query = begins and (is_call or not self._ends_value(second))
        self.expects = _Expects.START if query else _Expects.VALUE

    def _close(self) -> None:
        if len(self.levels) > 1:
            self.levels.pop()
        self.expects = _Expects.MORE

    def _comma(self) -> None:
        level = self.levels[-1]
        if level.in_with:
            self.expects = _Expects.ITEM
        elif level.in_values:
            self.expects = _Expects.VALUE
        else:
            self.expects = _Expects.RELATION if level.in_from else _Expects.VALUE

    def _after_type(self, place: int) -> int:
        """Return the last place of a type that begins after CAST(... AS or ::, else this place."""
        token = self.tokens[place]
        cast = token.is_word("AS") and self.levels[-1].before in _WITH_TYPE
        if not cast and not token.is_symbol("::"):
            return place
        self.expects = _Expects.MORE
        depth, at = 0, place + 1
        while at < len(self.tokens):
            sign = self.tokens[at].text
            if depth == 0 and sign in ")" and cast:
                break
            depth += (sign in "(<") - (sign in ")>")
            following = self._at(at + 1)
            at += 1
            if not cast and depth == 0 and (following is None or following.text not in "(<"):
                break
        return at - 1
