"""FROM-first queries and pipes, written as the SELECT statements that they stand for.

    FROM t SELECT a WHERE b         SELECT a FROM t WHERE b
    q |> WHERE b |> SELECT a        SELECT a FROM q WHERE b
    q |> EXTEND e |> DROP a         SELECT * EXCEPT (a) FROM (SELECT *, e FROM q)

Spark itself is given what the user wrote; these words are for finding relations, and for planning.
What SELECT has no words for, or where qualified names would be lost, is `inexact`: its relations
are right, its meaning is not.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from laminar.sql.keywords import keywords
from laminar.sql.reserved_words import quoted_names
from laminar.sql.tokens import Kind, Token, tokenize

_AFTER_SELECT = keywords(
    "WHERE GROUP HAVING WINDOW QUALIFY ORDER SORT CLUSTER DISTRIBUTE LIMIT OFFSET"
)
_SETS = keywords("UNION EXCEPT INTERSECT MINUS SETMINUS")
_TRAILING = keywords("ORDER SORT CLUSTER DISTRIBUTE LIMIT OFFSET")
_BETWEEN_VALUES = keywords("AND OR NOT IS LIKE ILIKE RLIKE IN BETWEEN DIV COLLATE INTERVAL WITH")
_SORTS = keywords("ORDER SORT CLUSTER")
_JOINS = keywords("JOIN INNER CROSS LEFT RIGHT FULL SEMI ANTI NATURAL ASOF")


@dataclass(frozen=True, slots=True)
class Words:
    """A query in words of SELECT; `inexact` says what has no words there."""

    text: str
    inexact: str = ""


def without_pipes(query: str) -> Words:
    """Return a query without pipes and FROM before SELECT; one that has none stays as it is."""
    if "|>" not in query and "from" not in query.lower():
        return Words(query)
    rewriting = _Rewriting(quoted_names(query))
    try:
        text = rewriting.query(0, len(rewriting.tokens))
    except (IndexError, KeyError, StopIteration):
        return Words(query)  # it is no query: whoever reads it next says what is wrong
    return Words(text, "; ".join(rewriting.inexact)) if rewriting.changed else Words(query)


@dataclass(frozen=True, slots=True)
class _Rows:
    """What a step of a pipe works on: what stands after FROM, and conditions on it.

    `name` is how its columns may be qualified, where that is one name.
    """

    source: str
    name: str = ""
    where: tuple[str, ...] = ()
    tail: str = ""
    """ORDER BY, LIMIT, OFFSET."""

    def select(self, items: str, rest: str = "") -> str:
        conditions = " AND ".join(f"({each})" for each in self.where)
        where = f" WHERE {conditions}" if conditions else ""
        return f"SELECT {items} FROM {self.source}{where}{rest}{self.tail}"

    def closed(self, items: str = "*", rest: str = "", name: str | None = None) -> _Rows:
        """Return the rows of a SELECT over these; they keep their name unless told."""
        kept = self.name if name is None else name
        return _Rows(f"({self.select(items, rest)}){f' AS {kept}' if kept else ''}", kept)

    def plain(self) -> _Rows:
        """Return rows without conditions and order of their own."""
        return self.closed() if self.where or self.tail else self


class _Rewriting:
    """One query on its way from tokens to text; brackets are queries of their own."""

    def __init__(self, text: str) -> None:
        self.tokens: Sequence[Token] = tokenize(text)
        self.text = text
        self.inexact: list[str] = []
        self.changed = False
        self._ends = _closing_brackets(self.tokens)

    def query(self, start: int, stop: int) -> str:
        """Return the tokens from one place to another, which are a query."""
        body = self._after_with(start, stop)
        head = self._text(start, body)
        steps = self._split(body, stop, "|>")
        if len(steps) == 1:
            return f"{head} {self._terms(body, stop)}".lstrip()
        self.changed = True
        rows = self._base(*steps[0])
        for step in steps[1:]:
            rows = self._step(rows, *step)
        return f"{head} {rows.select('*')}".lstrip()

    def _after_with(self, start: int, stop: int) -> int:
        """Return where a query begins after its WITH."""
        if start >= stop or not self.tokens[start].is_word("WITH"):
            return start
        at = start + 1
        while at < stop and not self.tokens[at].is_word("SELECT", "FROM", "VALUES", "TABLE"):
            if self.tokens[at].is_symbol("("):
                following = self._ends[at] + 1
                if following < stop and self._ends_with_item(at, following):
                    return following
                at = following
            else:
                at += 1
        return at

    def _ends_with_item(self, opening: int, following: int) -> bool:
        """Whether brackets are the query of the last item, so that the body comes next."""
        token = self.tokens[following]
        is_query = self.tokens[opening - 1].is_word("AS") or self._begins_query(opening + 1)
        return is_query and token.is_symbol("(")

    def _begins_query(self, at: int) -> bool:
        return at < len(self.tokens) and self.tokens[at].is_word(
            "SELECT", "FROM", "WITH", "VALUES", "TABLE"
        )

    def _terms(self, start: int, stop: int) -> str:
        """Return queries between set operations, each with SELECT in front."""
        kept, at = [], start
        for place in [*self._set_operations(start, stop), stop]:
            kept.append(self._term(at, place))
            if place < stop:
                following = place + 1
                if self.tokens[following].is_word("ALL", "DISTINCT"):
                    following += 1
                if self.tokens[following].is_word("BY"):
                    following += 2
                kept.append(self._text(place, following))
                at = following
        return " ".join(kept) if len(kept) > 1 else kept[0]

    def _set_operations(self, start: int, stop: int) -> list[int]:
        return [
            at
            for at in self._level(start, stop)
            if start < at < stop - 1
            and self.tokens[at].is_word(*_SETS)
            and not self.tokens[at - 1].is_symbol("*")
            and self._starts_term(at + 1, stop)
        ]

    def _starts_term(self, at: int, stop: int) -> bool:
        while at < stop and self.tokens[at].is_word("ALL", "DISTINCT", "BY", "NAME"):
            at += 1
        return at < stop and (
            self.tokens[at].is_symbol("(")
            or self.tokens[at].is_word("SELECT", "FROM", "VALUES", "TABLE")
        )

    def _term(self, start: int, stop: int) -> str:
        if start >= stop or not self.tokens[start].is_word("FROM"):
            return self._text(start, stop)
        self.changed = True
        selects = [at for at in self._level(start, stop) if self.tokens[at].is_word("SELECT")]
        if not selects:
            return f"SELECT * {self._text(start, stop)}"
        source = self._text(start, selects[0])
        bodies = [
            self._body(source, at, end)
            for at, end in zip(selects, [*selects[1:], stop], strict=True)
        ]
        if len(bodies) == 1:
            return bodies[0]
        return " UNION ALL ".join(f"({each})" for each in bodies)

    def _body(self, source: str, start: int, stop: int) -> str:
        """Put FROM between a select list and what follows it."""
        end = next((at for at in self._level(start, stop) if self._ends_list(at, start)), stop)
        return f"{self._text(start, end)} {source} {self._text(end, stop)}".rstrip()

    def _ends_list(self, at: int, start: int) -> bool:
        token, before = self.tokens[at], self.tokens[at - 1]
        if at <= start + 1 or before.is_symbol(".") or before.is_word("AS"):
            return False
        following = self.tokens[at + 1] if at + 1 < len(self.tokens) else None
        if token.is_word("LATERAL"):
            return following is not None and following.is_word("VIEW")
        if token.is_word("GROUP", "ORDER", "SORT", "CLUSTER", "DISTRIBUTE"):
            return following is not None and following.is_word("BY")
        return token.is_word(*_AFTER_SELECT)

    def _base(self, start: int, stop: int) -> _Rows:
        """Return what a pipe begins with."""
        first = self.tokens[start]
        whole = len(self._set_operations(start, stop)) == 0
        if whole and first.is_word("FROM"):
            if any(self.tokens[at].is_word("SELECT") for at in self._level(start, stop)):
                return _Rows(f"({self._terms(start, stop)})")
            return _Rows(self._text(start + 1, stop), self._only_name(start + 1, stop))
        if whole and first.is_word("TABLE"):
            return _Rows(self._text(start + 1, stop), self._only_name(start + 1, stop))
        return _Rows(f"({self._terms(start, stop)})")

    def _only_name(self, start: int, stop: int) -> str:
        """Return the name of the one relation that is read; nothing if there are several."""
        places = self._level(start, stop)
        joins = (self.tokens[at] for at in places)
        if any(each.is_symbol(",") or each.is_word("JOIN", "LATERAL") for each in joins):
            return ""
        last = self.tokens[stop - 1]
        return last.text if last.kind in (Kind.WORD, Kind.QUOTED) else ""

    def _step(self, rows: _Rows, start: int, stop: int) -> _Rows:
        word = self.tokens[start].upper
        rest = self._text(start + 1, stop)
        match word:
            case "SELECT":
                return self._selected(rows, start, stop)
            case "WHERE":
                rows = rows.plain() if rows.tail else rows
                return replace(rows, where=(*rows.where, rest))
            case "EXTEND":
                return rows.plain().closed(f"*, {rest}")
            case "SET":
                return self._set(rows.plain(), start + 1, stop)
            case "DROP":
                return rows.plain().closed(f"* EXCEPT ({rest})")
            case "AS":
                return rows.closed(name=rest)
            case "AGGREGATE":
                return self._aggregated(rows.plain(), start + 1, stop)
            case "PIVOT" | "UNPIVOT":
                return _Rows(f"{rows.closed(name='').source} {self._text(start, stop)}")
        if word in _SETS:
            return self._combined(rows, start, stop)
        if word in _TRAILING:
            return self._cut(rows, start, stop)
        if word in _JOINS:
            inner = rows.plain()
            return _Rows(f"{inner.source} {self._text(start, stop)}")
        self.inexact.append(f"|> {self.tokens[start].text}")
        return rows

    def _selected(self, rows: _Rows, start: int, stop: int) -> _Rows:
        end = next((at for at in self._level(start, stop) if self._ends_list(at, start)), stop)
        items, clauses = self._text(start + 1, end), self._text(end, stop)
        inner = rows.plain() if rows.tail else rows
        return inner.closed(items, f" {clauses}" if clauses else "", name="")

    def _set(self, rows: _Rows, start: int, stop: int) -> _Rows:
        """Replace columns one after the other: a later one sees those before it."""
        for first, last in self._split(start, stop, ","):
            sign = next(at for at in range(first, last) if self.tokens[at].is_symbol("="))
            value, column = self._text(sign + 1, last), self._text(first, sign)
            rows = rows.closed(f"* REPLACE ({value} AS {column})", name="")
        return rows

    def _aggregated(self, rows: _Rows, start: int, stop: int) -> _Rows:
        group = next(
            (
                at
                for at in self._level(start, stop)
                if self.tokens[at].is_word("GROUP") and self.tokens[at + 1].is_word("BY")
            ),
            stop,
        )
        keys = [self._key(*each) for each in self._split(group + 2, stop, ",")]
        items = [f"{key} AS {name}" if name else key for key, name in keys]
        listed = self._text(start, group)
        rest = f" GROUP BY {', '.join(key for key, _ in keys)}" if keys else ""
        return rows.closed(", ".join([*items, *([listed] if listed else [])]), rest, name="")

    def _key(self, start: int, stop: int) -> tuple[str, str]:
        """Return a key and the name that it is given; its place in the input has no words here."""
        tokens = self.tokens[start:stop]
        analytics = tokens[0].is_word("ROLLUP", "CUBE", "GROUPING", "ALL")
        clause = len(tokens) > 1 and tokens[-2].is_word("WITH")
        if analytics or clause or (len(tokens) == 1 and tokens[0].kind is Kind.NUMBER):
            self.inexact.append(f"|> AGGREGATE ... GROUP BY {self._text(start, stop)}")
        if len(tokens) > 2 and tokens[-2].is_word("AS"):
            return self._text(start, stop - 2), self._text(stop - 1, stop)
        names = (Kind.WORD, Kind.QUOTED)
        if len(tokens) > 1 and tokens[-1].kind in names and _ends_value(tokens[-2]):
            return self._text(start, stop - 1), self._text(stop - 1, stop)
        return self._text(start, stop), ""

    def _combined(self, rows: _Rows, start: int, stop: int) -> _Rows:
        right = start + 1
        if self.tokens[right].is_word("ALL", "DISTINCT"):
            right += 1
        if self.tokens[right].is_word("BY"):
            right += 2
        sign = self._text(start, right)
        return _Rows(f"(({rows.select('*')}) {sign} ({self._terms(right, stop)}))")

    def _cut(self, rows: _Rows, start: int, stop: int) -> _Rows:
        """Order or cut rows; ORDER BY and the LIMIT right after it are one clause."""
        words = {self.tokens[at].upper for at in self._level(start, stop)}
        is_cut = any(each in rows.tail.upper() for each in ("LIMIT", "OFFSET"))
        cuts_alone = words & {"LIMIT", "OFFSET"} and not words & _SORTS and not rows.tail
        if cuts_alone and any(token.is_word(*_SORTS) for token in self.tokens[:start]):
            self.inexact.append("|> LIMIT of rows that were in order before")
        if rows.tail and (is_cut or not words & {"LIMIT", "OFFSET"} or "ORDER" in words):
            rows = rows.closed()
        return replace(rows, tail=f"{rows.tail} {self._text(start, stop)}")

    def _level(self, start: int, stop: int) -> list[int]:
        """Return the places that stand in no bracket."""
        found, at = [], start
        while at < stop:
            found.append(at)
            at = self._ends.get(at, at) + 1
        return found

    def _split(self, start: int, stop: int, sign: str) -> list[tuple[int, int]]:
        if start >= stop:
            return []
        ends = [at for at in self._level(start, stop) if self.tokens[at].is_symbol(sign)]
        return list(zip([start, *(at + 1 for at in ends)], [*ends, stop], strict=True))

    def _text(self, start: int, stop: int) -> str:
        """Return tokens as they are written, the queries in brackets among them rewritten."""
        if start >= stop:
            return ""
        kept, done = [], self.tokens[start].start
        for at in self._level(start, stop):
            if not self.tokens[at].is_symbol("("):
                continue
            closing = self._ends[at]
            inside = self._inside(at + 1, closing)
            if inside is not None:
                kept += [self.text[done : self.tokens[at].end], inside]
                done = self.tokens[closing].start
        return "".join([*kept, self.text[done : self.tokens[stop - 1].end]])

    def _inside(self, start: int, stop: int) -> str | None:
        """Return what stands in brackets anew; nothing if there are no queries in them."""
        if start >= stop:
            return None
        level = self._level(start, stop)
        if self._begins_query(start) or any(self.tokens[at].is_symbol("|>") for at in level):
            return self.query(start, stop)
        if any(self.tokens[at].is_symbol("(") for at in level):
            return self._text(start, stop)
        return None


def _ends_value(token: Token) -> bool:
    if token.kind is Kind.SYMBOL:
        return token.text in (")", "]")
    return not token.is_word(*_BETWEEN_VALUES)


def _closing_brackets(tokens: Sequence[Token]) -> dict[int, int]:
    opened: list[int] = []
    found: dict[int, int] = {}
    for at, token in enumerate(tokens):
        if token.is_symbol("("):
            opened.append(at)
        elif token.is_symbol(")") and opened:
            found[opened.pop()] = at
    return found
