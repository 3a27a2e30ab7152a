"""Spark's SQL as sqlglot reads and writes it, corrected where the two differ."""

from __future__ import annotations

from typing import Any, ClassVar

from sqlglot import TokenType, exp
from sqlglot.dialects.spark import Spark

from laminar.model.quoting import backquoted, string_literal
from laminar.sql.keywords import keywords

_UNDERSTOOD = keywords(
    "COUNT COUNT_IF SUM AVG MIN MAX BOOL_AND BOOL_OR GROUPING GROUPING_ID ARRAYS_ZIP STRUCT"
    " EXPLODE EXPLODE_OUTER POSEXPLODE POSEXPLODE_OUTER INLINE"
)
_WITH_WORDS = keywords("CAST TRY_CAST EXTRACT TRIM SUBSTRING SUBSTR POSITION OVERLAY CEIL FLOOR")

_BITWISE: tuple[tuple[TokenType, type[exp.Binary]], ...] = (
    (TokenType.PIPE, exp.BitwiseOr),
    (TokenType.CARET, exp.BitwiseXor),
    (TokenType.AMP, exp.BitwiseAnd),
)
"""Loosest first."""


_NAMES = frozenset({TokenType.VAR, TokenType.IDENTIFIER})

_TIMES = keywords("DATE TIME TIMESTAMP TIMESTAMP_LTZ TIMESTAMP_NTZ")


_TIME_TYPES = {
    exp.DataType.Type.TIME: "TIME",
    exp.DataType.Type.TIMESTAMPTZ: "TIMESTAMP",
    exp.DataType.Type.TIMESTAMPLTZ: "TIMESTAMP_LTZ",
    exp.DataType.Type.TIMESTAMPNTZ: "TIMESTAMP_NTZ",
}


class TimeLiteral(exp.Cast):
    """`TIME '09:00:00.5'`: has as many digits as are written, which a cast to TIME does not."""


class AsWritten(Spark):
    """Spark's dialect, its function calls left alone.

    sqlglot translates between dialects and rewrites calls on the way, even from Spark to Spark:
    TO_CHAR(x, f) loses its format, PERCENTILE_CONT becomes an approximation. Only calls that the
    planner looks into are parsed as what they are, and those written with words between arguments.
    """

    class Parser(Spark.Parser):  # type: ignore[valid-type,misc]
        """All other calls are a name and arguments; operators bind as Spark lets them."""

        FUNCTIONS: ClassVar = {
            name: made for name, made in Spark.Parser.FUNCTIONS.items() if name in _UNDERSTOOD
        }
        FUNCTION_PARSERS: ClassVar = {
            name: parse
            for name, parse in Spark.Parser.FUNCTION_PARSERS.items()
            if name in _WITH_WORDS
        }

        # array(1, 2)[0] and list[0] are elements, and no arrays.
        ARRAY_CONSTRUCTORS: ClassVar[dict[str, Any]] = {}

        # Nothing in Spark reads `x FOR y IN z`, but PIVOT (x FOR y IN z).
        RANGE_PARSERS: ClassVar = {
            sign: parse
            for sign, parse in Spark.Parser.RANGE_PARSERS.items()
            if sign is not TokenType.FOR
        }

        def _parse_group(self, skip_group_by_token: bool = False) -> exp.Group | None:
            """Read GROUP BY with its keys and sets in the order in which they are written.

            Older versions of sqlglot lose that order.
            """
            if not skip_group_by_token and not self._match(TokenType.GROUP_BY):
                return None
            if self._match(TokenType.ALL):
                return exp.Group(all=True)
            if self._match_set(self.QUERY_MODIFIER_TOKENS, advance=False):
                return exp.Group()
            group = exp.Group(expressions=self._parse_csv(self._parse_group_key))
            if sets := self._parse_grouping_sets():  # GROUP BY a, b GROUPING SETS (...)
                group.set("grouping_sets", [sets])
            for name, kind in (("rollup", TokenType.ROLLUP), ("cube", TokenType.CUBE)):
                if self._match_pair(TokenType.WITH, kind, advance=False):
                    self._advance()
                    group.set(name, [self._parse_cube_or_rollup(with_prefix=True)])
            return group

        def _parse_group_key(self) -> exp.Expr | None:
            sets = self._parse_grouping_sets() or self._parse_cube_or_rollup()
            found: exp.Expr | None = sets or self._parse_disjunction()
            return found

        def _parse_bitwise(self) -> exp.Expr | None:
            """Read | ^ & and shifts, each of which binds tighter than the one before it."""
            return self._bitwise(0)

        def _bitwise(self, level: int) -> exp.Expr | None:
            if level == len(_BITWISE):
                return self._shifted()
            sign, made = _BITWISE[level]
            this = self._bitwise(level + 1)
            while this is not None and self._match(sign):
                this = made(this=this, expression=self._operand(self._bitwise(level + 1)))
            return this

        def _shifted(self) -> exp.Expr | None:
            this = self._parse_term()
            while this is not None:
                if self._match_pair(TokenType.LT, TokenType.LT):
                    this = exp.BitwiseLeftShift(
                        this=this, expression=self._operand(self._parse_term())
                    )
                elif self._match_pair(TokenType.GT, TokenType.GT):
                    # The third one: a shift that fills up with zeros.
                    name = "SHIFTRIGHTUNSIGNED" if self._match(TokenType.GT) else ""
                    by = self._operand(self._parse_term())
                    this = (
                        exp.Anonymous(this=name, expressions=[this, by])
                        if name
                        else exp.BitwiseRightShift(this=this, expression=by)
                    )
                else:
                    break
            return this

        def _parse_term(self, *args: Any, **given: Any) -> exp.Expr | None:
            """Read sums; || is one of them."""
            this: exp.Expr | None = super()._parse_term(*args, **given)
            while this is not None and self._match(TokenType.DPIPE):
                this = exp.DPipe(
                    this=this, expression=self._operand(self._parse_factor()), safe=True
                )
                while self._match_set(self.TERM):
                    made = self.TERM[self._prev.token_type]
                    this = made(this=this, expression=self._operand(self._parse_factor()))
            return this

        def _operand(self, found: exp.Expr | None) -> exp.Expr:
            if found is None:
                self.raise_error("Expected an operand")
            assert found is not None
            return found

        def _parse_type(self, *args: Any, **given: Any) -> exp.Expr | None:
            """Read a value; a time in words is one before anything that follows, such as `::`."""
            word, follows = self._curr, self._next
            is_time = word and follows and word.text.upper() in _TIMES
            if not is_time or follows.token_type is not TokenType.STRING:
                found: exp.Expr | None = super()._parse_type(*args, **given)
                return found
            kind = exp.DataType.build(word.text, dialect=AsWritten)
            self._advance(2)
            text = exp.Literal.string(follows.text)
            return self._parse_column_ops(TimeLiteral(this=text, to=kind))

        def _parse_column_ops(self, this: exp.Expr | None) -> exp.Expr | None:
            """Read what follows a value; `v:a.b[0]` takes a part out of a VARIANT or of JSON."""
            found: exp.Expr | None = super()._parse_column_ops(this)
            while found is not None and self._match(TokenType.COLON):
                path = exp.Var(this=self._json_path())
                found = exp.JSONExtract(this=found, expression=path, variant_extract=True)
                found = super()._parse_column_ops(found)
            return found

        def _json_path(self) -> str:
            parts = [":"]
            if self._curr.token_type is not TokenType.L_BRACKET:
                parts.append(self._json_name())
            while self._curr:
                if self._match(TokenType.DOT):
                    parts.append(f".{self._json_name()}")
                elif self._match(TokenType.L_BRACKET):
                    parts.append(f"[{self._json_key()}]")
                    if not self._match(TokenType.R_BRACKET):
                        self.raise_error("Expected ]")
                else:
                    break
            return "".join(parts)

        def _json_name(self) -> str:
            self._advance()
            return backquoted(self._prev.text)

        def _json_key(self) -> str:
            self._advance()
            text = self._prev.text
            return string_literal(text) if self._prev.token_type is TokenType.STRING else text

        def _parse_type_size(self) -> exp.DataTypeParam | None:
            """Read what stands in the brackets of a type; GEOMETRY(ANY) has a word there."""
            if self._match(TokenType.ANY):
                return exp.DataTypeParam(this=exp.var("ANY"))
            found: exp.DataTypeParam | None = super()._parse_type_size()
            return found

        def _parse_select_or_expression(self, alias: bool = False) -> exp.Expr | None:
            """Read an argument; those of STRUCT may be named without AS."""
            found: exp.Expr | None = super()._parse_select_or_expression(alias=alias)
            if not alias or found is None or not self._match_set(_NAMES, advance=False):
                return found
            if self._next.token_type not in (TokenType.COMMA, TokenType.R_PAREN):
                return found
            return exp.Alias(this=found, alias=self._parse_id_var())

        def _parse_table_alias(self, alias_tokens: Any = None) -> exp.TableAlias | None:
            """Read an alias; that of a WITH item may say how many levels it may have."""
            found: exp.TableAlias | None = super()._parse_table_alias(alias_tokens)
            if found is not None and self._match_text_seq("MAX", "RECURSION", "LEVEL"):
                self._advance()
                found.set("most", int(self._prev.text))
            return found

        def _parse_value(self, values: bool = True) -> exp.Tuple | None:
            """Read a row of VALUES; after one without brackets, AS names the relation."""
            if self._curr and self._curr.token_type is not TokenType.L_PAREN:
                alone = self._parse_disjunction()
                return exp.Tuple(expressions=[alone]) if alone is not None else None
            row: exp.Tuple | None = super()._parse_value(values=values)
            return row

        def _parse_pivot_aggregation(self) -> exp.Expr | None:
            """Read what PIVOT computes: an expression over aggregates."""
            found = self._operand(self._parse_disjunction())
            named: exp.Expr | None = found if self._is_at("FOR") else self._parse_alias(found)
            return named

        def _is_at(self, word: str) -> bool:
            return bool(self._curr) and self._curr.text.upper() == word

    class Generator(Spark.Generator):  # type: ignore[valid-type,misc]
        """Spark has a type for the time of day by now, with a number of digits."""

        def datatype_sql(self, expression: exp.DataType) -> str:
            """Write times with their digits, as Spark does, and all other types as sqlglot does."""
            word = _TIME_TYPES.get(expression.this)
            if word is None:
                return str(super().datatype_sql(expression))
            digits = "".join(each.sql() for each in expression.expressions)
            return f"{word}({digits})" if digits else word

        TRANSFORMS: ClassVar = {
            **Spark.Generator.TRANSFORMS,
            exp.JSONExtract: lambda self, each: self.path_sql(each),
            TimeLiteral: lambda self, each: f"{self.sql(each, 'to')} {self.sql(each, 'this')}",
        }

        def path_sql(self, expression: exp.JSONExtract) -> str:
            """Write `v:a.b[0]`, which binds tighter than any operator."""
            inner = expression.this
            whole = self.sql(inner)
            plain = isinstance(inner, exp.Column | exp.Func | exp.Paren | exp.Bracket | exp.Dot)
            return f"{whole if plain else f'({whole})'}{expression.expression.name}"
