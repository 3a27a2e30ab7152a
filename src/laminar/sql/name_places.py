"""Where a query names relations, and where it qualifies columns by them: found in its tokens.

Each SELECT is a block; its FROM clause names items, which the block and those inside of it see.
What WITH calls by a name is no relation where that is visible: in the items of WITH that follow, in
itself if it is RECURSIVE, and in the query behind, with all that is nested in it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from laminar.sql.keywords import keywords
from laminar.sql.time_travel import CLAUSES, is_alias
from laminar.sql.tokens import Kind, Token

_NAMES = (Kind.WORD, Kind.QUOTED)
_FROM_CALLS = keywords("EXTRACT TRIM SUBSTRING SUBSTR OVERLAY")
_QUERIES = keywords("SELECT WITH VALUES FROM TABLE")
_SETS = keywords("UNION EXCEPT INTERSECT MINUS SETMINUS")
_AFTER_SET = keywords("ALL DISTINCT BY SELECT FROM VALUES TABLE WITH")
_ENDS_FROM = CLAUSES - keywords("FROM JOIN TABLE ON USING VALUES LATERAL PIVOT UNPIVOT") - _SETS
_BEFORE_TABLE = _SETS | keywords("ALL DISTINCT ( )")
_NO_ALIAS = keywords("ASOF MATCH_CONDITION CHANGES")


@dataclass(slots=True)
class Item:
    """What a FROM clause names: `start` and `stop` are its first token and one past its last.

    `alias` is what columns may be qualified by instead of its own name; `room` is where one could
    be written, None where none may stand.
    """

    start: int
    stop: int
    parts: tuple[str, ...]
    alias: str | None = None
    room: int | None = None
    is_common: bool = False
    is_hidden: bool = False
    """Whether WITH calls something else by the last part alone."""


@dataclass(slots=True)
class Block:
    """One SELECT, and the one around it."""

    outer: Block | None = None
    items: list[Item] = field(default_factory=list)

    def outward(self) -> Iterator[Block]:
        """Yield this block and those around it."""
        block: Block | None = self
        while block is not None:
            yield block
            block = block.outer


@dataclass(frozen=True, slots=True)
class Column:
    """A name of several parts that is no relation; `size` counts a star at its end as well."""

    start: int
    parts: tuple[str, ...]
    size: int
    block: Block


@dataclass(frozen=True, slots=True)
class Call:
    """A call of what has a name of several parts, or is called without arguments."""

    start: int
    parts: tuple[str, ...]
    is_item: bool
    """Whether it is all that a select list has there."""


@dataclass(slots=True)
class _Bracket:
    """What stands between two brackets, or outside of all."""

    block: Block
    around: Block | None = None
    """The one that queries here are inside of."""
    opened_by: str = ""
    clause: str = ""
    expects: bool = False
    common: set[str] = field(default_factory=set)
    defines: str = ""
    """The item of WITH whose query this is."""
    is_recursive: bool = False


class NamePlaces:
    """The names of one query, or of an expression among items that are known already."""

    def __init__(self, tokens: Sequence[Token], block: Block | None = None) -> None:
        self.tokens = tokens
        self.root = block or Block()
        self.items: list[Item] = list(self.root.items)
        self.columns: list[Column] = []
        self.calls: list[Call] = []
        self._brackets = [_Bracket(self.root)]
        self._commons: dict[int, str] = {}
        at = 0
        while at < len(tokens):
            at = self._token(at)

    # Reading from left to right

    def _token(self, at: int) -> int:
        token, now = self.tokens[at], self._brackets[-1]
        if token.is_symbol("("):
            return self._open(at)
        if token.is_symbol(")"):
            return self._close(at)
        if token.is_symbol(","):
            now.expects = now.clause == "FROM"
        elif token.is_symbol("|>"):
            now.clause, now.expects = "", False
        elif token.kind in _NAMES:
            return self._word(at)
        elif now.expects and token.kind is not Kind.SYMBOL:
            now.expects = False
        return at + 1

    def _open(self, at: int) -> int:
        now, before = self._brackets[-1], self._peek(at - 1)
        begins = self._begins_query(at + 1)
        inner = _Bracket(Block(now.block) if begins else now.block, now.block)
        inner.opened_by = before.upper if before is not None else ""
        inner.defines = self._commons.pop(at, "")
        if now.expects and not begins:  # FROM (a JOIN b ON ...): its names are those of the query
            inner.clause, inner.expects = "FROM", True
        now.expects = False
        self._brackets.append(inner)
        return at + 1

    def _close(self, at: int) -> int:
        if len(self._brackets) == 1:
            return at + 1
        closed = self._brackets.pop()
        now = self._brackets[-1]
        if closed.defines:
            now.common.add(closed.defines)
            if self._is(at + 1, ","):
                return self._common(at + 2)
        return at + 1

    def _word(self, at: int) -> int:
        before, now = self._peek(at - 1), self._brackets[-1]
        stop = self._chain(at)
        if before is not None and (before.text in (".", ":") or before.is_word("AS")):
            self._alias(at, before)
            return stop
        if now.expects:
            return self._item(at, stop)
        if stop == at + 1 and self.tokens[at].kind is Kind.WORD:
            taken = self._keyword(at)
            if taken is not None:
                return taken
        if before is not None and before.is_symbol(")"):
            self._alias(at, before)
        self._value(at, stop)
        return stop

    def _alias(self, at: int, before: Token) -> None:
        """Note what a derived table is called, and that VALUES are over."""
        now = self._brackets[-1]
        if now.clause in ("FROM", "VALUES") and before.text not in (".", ":"):
            now.clause = "FROM"
            self._note(Item(at, at, (), self.tokens[at].value))

    def _note(self, item: Item) -> None:
        self._brackets[-1].block.items.append(item)
        self.items.append(item)

    def _keyword(self, at: int) -> int | None:
        """Take a word that begins a clause; None if it is none there."""
        token, now = self.tokens[at], self._brackets[-1]
        word, after = token.upper, self._peek(at + 1)
        calls = after is not None and after.is_symbol("(")
        if word == "WITH" and self._starts_term(at) and not self._is(at - 1, ")"):
            now.is_recursive = self._is_word(at + 1, "RECURSIVE")
            return self._common(at + 1 + now.is_recursive)
        if word == "SELECT":
            now.clause = "SELECT"
        elif (word == "FROM" and not self._is_no_clause(at)) or word == "JOIN":
            now.clause, now.expects = "FROM", True
        elif word == "TABLE" and self._starts_term(at) and is_alias(after):
            stop = self._chain(at + 1)
            self._add(at + 1, stop, None, None)
            return stop
        elif word in _SETS and self._is_set(at):
            now.block, now.clause, now.expects = Block(now.around), "", False
        elif (word == "LATERAL" and after is not None and after.is_word("VIEW")) or (
            word in _ENDS_FROM and not (calls and word in ("WINDOW", "CLUSTER"))
        ):
            now.clause = ""
        else:
            return None
        return at + 1

    def _item(self, at: int, stop: int) -> int:
        """Take what stands where FROM names something."""
        now, word = self._brackets[-1], self.tokens[at].upper
        after = self._peek(stop)
        if stop == at + 1 and word == "LATERAL" and after is not None and not after.is_word("AS"):
            return stop
        now.expects = False
        if stop == at + 1 and word == "VALUES":
            now.clause = "VALUES"
        elif after is not None and after.is_symbol("("):
            self._call(at, stop)
        else:
            return self._relation(at, stop)
        return stop

    def _relation(self, at: int, stop: int) -> int:
        room = self._after_sample(stop)
        after = self._peek(room)
        if after is not None and after.is_word("AS"):
            named = self._peek(room + 1)
            self._add(at, stop, named.value if named is not None else "", None)
            return room + 2
        if after is not None and after.upper not in _NO_ALIAS and is_alias(after):
            self._add(at, stop, after.value, None)
            return room + 1
        if after is not None and after.is_word("CHANGES"):
            self._add(at, stop, self.tokens[stop - 1].value, None)
        else:
            self._add(at, stop, None, room)
        return room

    def _add(self, at: int, stop: int, alias: str | None, room: int | None) -> None:
        parts = self._parts(at, stop)
        common, is_short = self._is_common(parts[-1]), len(parts) == 1
        self._note(Item(at, stop, parts, alias, room, common and is_short, common and not is_short))

    def _value(self, at: int, stop: int) -> None:
        """Note a name in an expression."""
        after = self._peek(stop)
        if after is not None and after.is_symbol("("):
            self._call(at, stop)
            return
        starred = self._is(stop, ".") and self._is(stop + 1, "*")
        parts = self._parts(at, stop)
        if len(parts) + starred > 1:
            block = self._brackets[-1].block
            self.columns.append(Column(at, parts, len(parts) + starred, block))

    def _call(self, at: int, stop: int) -> None:
        before, after = self._peek(at - 1), self._peek(stop + 2)
        begins = before is not None and (before.is_word("SELECT", "DISTINCT") or before.text == ",")
        ends = after is None or after.is_word("FROM") or after.text in (",", ")", "|>")
        is_item = begins and ends and self._brackets[-1].clause == "SELECT"
        self.calls.append(Call(at, self._parts(at, stop), is_item))

    # WITH

    def _common(self, at: int) -> int:
        """Take the head of an item of WITH; return where its bracket opens."""
        now = self._brackets[-1]
        name, at = self._peek(at), at + 1
        if now.is_recursive and name is not None:
            now.common.add(name.value.lower())
        if self._is(at, "(") and not self._begins_query(at + 1):
            at = self._past_bracket(at)
        while at < len(self.tokens) and not self._is(at, "("):
            at += 1
        if name is not None:
            self._commons[at] = name.value.lower()
        return at

    def _is_common(self, name: str) -> bool:
        return any(name.lower() in each.common for each in self._brackets)

    # Looking around

    def _peek(self, at: int) -> Token | None:
        return self.tokens[at] if 0 <= at < len(self.tokens) else None

    def _is(self, at: int, symbol: str) -> bool:
        token = self._peek(at)
        return token is not None and token.is_symbol(symbol)

    def _is_word(self, at: int, *words: str) -> bool:
        token = self._peek(at)
        return token is not None and token.is_word(*words)

    def _chain(self, at: int) -> int:
        """Return one past the last part of a name."""
        while self._is(at + 1, ".") and self._is_part(at + 2):
            at += 2
        return at + 1

    def _is_part(self, at: int) -> bool:
        token = self._peek(at)
        return token is not None and token.kind in _NAMES

    def _parts(self, at: int, stop: int) -> tuple[str, ...]:
        return tuple(each.value for each in self.tokens[at:stop:2])

    def _begins_query(self, at: int) -> bool:
        token = self._peek(at)
        return token is not None and token.is_word(*_QUERIES) and not self._is(at + 1, ".")

    def _starts_term(self, at: int) -> bool:
        """Whether a query may begin here."""
        before = self._peek(at - 1)
        return before is None or before.upper in _BEFORE_TABLE

    def _is_set(self, at: int) -> bool:
        """Whether UNION and the like combine queries; `* EXCEPT (a)` does not."""
        after = self._peek(at + 1)
        if after is None or self._is(at - 1, "*"):
            return False
        return after.upper in _AFTER_SET or after.is_symbol("(")

    def _is_no_clause(self, at: int) -> bool:
        """Whether FROM is that of EXTRACT, of IS DISTINCT, or of CHANGES."""
        if self._is_word(at - 1, "CHANGES") and self._is_word(at + 1, "VERSION", "EPOCH"):
            return True
        distinct = self._is_word(at - 1, "DISTINCT") and self._is_word(at - 2, "IS", "NOT")
        return distinct or self._brackets[-1].opened_by in _FROM_CALLS

    def _after_sample(self, at: int) -> int:
        """Return where an alias may stand: behind TABLESAMPLE (...) [REPEATABLE (...)]."""
        for word in ("TABLESAMPLE", "REPEATABLE"):
            if self._is_word(at, word) and self._is(at + 1, "("):
                at = self._past_bracket(at + 1)
        return at

    def _past_bracket(self, at: int) -> int:
        depth = 0
        while at < len(self.tokens):
            depth += self._is(at, "(") - self._is(at, ")")
            at += 1
            if depth == 0:
                break
        return at
