"""The functions that a query may call; those that users bring are made known to sessions."""

from __future__ import annotations

import functools
import json
import threading
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

from laminar.errors.user_functions import InvalidFunction
from laminar.model.quoting import backquoted
from laminar.runtime.spark.error_translation import SPARK_FAILS, first_sentence
from laminar.runtime.spark.java_process import on_renewal

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.types import DataType

OWN_FUNCTIONS = ("tumble", "tumble_start", "tumble_end", "hop", "hop_start", "hop_end")
"""Those that are ours, in Spark's words only after rewriting."""

_KINDS = {
    100: "Python",
    101: "Python",
    200: "pandas",
    204: "pandas",
    250: "Arrow",
    251: "Arrow",
}
"""Spark's numbers for functions from one row, or from batches of rows, to as many."""

_OF_BATCHES = (204, 251)
"""Those that are given an iterator, and give one back."""


@functools.lru_cache(maxsize=4)
def known_functions(session: SparkSession) -> tuple[str, ...]:
    """Return the names of all functions, ours and Spark's; Spark is asked once."""
    listed = session.sql("SHOW SYSTEM FUNCTIONS").collect()
    names = (str(row[0]) for row in listed)
    # Operators are listed too, such as `%` and `!=`.
    return (*OWN_FUNCTIONS, *(name for name in names if name.isidentifier()))


class SessionFunctions:
    """Temporary functions of one session; Spark is asked only for what has changed.

    One thread at a time calls it.
    """

    def __init__(self, session: SparkSession) -> None:
        self._session = session
        self._known: dict[str, str] = {}
        on_renewal(session, self._forget)

    def _forget(self) -> None:
        """Know that the session has none any more; whoever needs them defines them first."""
        self._known.clear()

    def names(self) -> tuple[str, ...]:
        """Return the names of all that it has."""
        return tuple(each.removeprefix("python ") for each in self._known)

    def define(self, wanted: Mapping[str, str]) -> None:
        """Have exactly these functions of SQL, name -> what follows the name in its definition."""
        own = [each for each in self._known if not each.startswith("python ")]
        for name in [each for each in own if self._known[each] != wanted.get(each)]:
            self._session.sql(f"DROP TEMPORARY FUNCTION IF EXISTS {backquoted(name)}")
            del self._known[name]
        for name in wanted.keys() - self._known.keys():
            self._session.sql(f"CREATE TEMPORARY FUNCTION {backquoted(name)}{wanted[name]}")
            self._known[name] = wanted[name]

    def stand_in(self, wanted: Mapping[str, str]) -> None:
        """Have functions of these types (as JSON) that are only analysed, never run."""
        from pyspark.sql.functions import udf

        for name, type_json in wanted.items():
            if self._known.get(f"python {name}") != type_json:
                made = udf(_never, _type_of(type_json))
                self._session.udf.register(name, made)
                self._known[f"python {name}"] = type_json
                self._known.pop(name, None)


class PythonFunctions:
    """Python code of one database, known to every session in which its statements run."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._sessions: WeakSet[SparkSession] = WeakSet()
        self._made: dict[str, Any] = {}
        self._given: dict[str, Any] = {}

    def adopt(self, session: SparkSession) -> None:
        """Make all functions known to a session, and those that follow."""
        with self._lock:  # sinks make their sessions on threads of their own
            self._sessions.add(session)
            known = dict(self._made)
        for name, made in known.items():
            session.udf.register(name, made)

    def renew(self) -> None:
        """Make all functions known again to sessions that were moved to another Spark."""
        for session in list(self._sessions):
            for name, made in self._made.items():
                session.udf.register(name, made)

    def attach(self, name: str, given: Any, made: Any) -> None:
        """Make a function known to all sessions, in the place of what had that name."""
        with self._lock:  # first: a session that is made or renewed meanwhile gets it, too
            before = self._made.get(name), self._given.get(name.lower())
            self._made[name], self._given[name.lower()] = made, given
            known = list(self._sessions)
        try:
            for session in known:
                session.udf.register(name, made)
        except BaseException:
            self.forget(name)
            if before[0] is not None:
                self._made[name], self._given[name.lower()] = before
            raise

    @contextmanager
    def attaching(self, name: str, given: Any, made: Any) -> Iterator[None]:
        """Make a function known; if what follows fails, the one of before is known again."""
        before = self._made.get(name), self._given.get(name.lower())
        self.attach(name, given, made)
        try:
            yield
        except BaseException:
            self.forget(name)
            if before[0] is not None:
                self.attach(name, before[1], before[0])
            raise

    def given(self, name: str) -> Any:
        """Return the function that was registered under a name; None if there is none."""
        return self._given.get(name.lower())

    def names(self) -> frozenset[str]:
        """Return the names of all functions that are there, in lower case."""
        return frozenset(self._given)

    def forget(self, name: str) -> None:
        """Forget a function; nothing calls it any more."""
        self._made.pop(name, None)
        self._given.pop(name.lower(), None)


def python_function(name: str, given: Any, returns: Any) -> tuple[str, str, str, Any]:
    """Return what a user registers: its kind, its type as DDL and as JSON, and a function of Spark.

    Args:
        name: what it is called in SQL.
        given: a plain function, or what `udf`, `pandas_udf` or `arrow_udf` made of one.
        returns: its type, as DDL or a DataType; None if Spark's own object says it.

    Raises:
        InvalidFunction: it is no function from rows to values, or not a deterministic one.
    """
    number = getattr(given, "evalType", 100)
    if not callable(given):
        raise InvalidFunction(name, f"a {type(given).__name__} cannot be called")
    if number not in _KINDS:
        hint = "give a function that returns one value for each row"
        raise InvalidFunction(name, "it takes whole groups, or returns tables", hint)
    if not getattr(given, "deterministic", True):
        hint = "store the value in a column when the row arrives"
        raise InvalidFunction(name, "it says that it is not deterministic", hint)
    kind = _returned(name, given, returns)
    code = _telling(name, getattr(given, "func", given), number in _OF_BATCHES)
    made = _made(code, kind, number if hasattr(given, "evalType") else None)
    return _KINDS[number], kind.simpleString(), kind.json(), made


def _returned(name: str, given: Any, returns: Any) -> DataType:
    from pyspark.sql.types import DataType

    own = getattr(given, "returnType", None) if hasattr(given, "evalType") else None
    if returns is None and own is None:
        raise InvalidFunction(name, "nobody says what it returns", "give returns='INT', or a type")
    try:
        asked = returns if isinstance(returns, DataType) or returns is None else _parsed(returns)
    except SPARK_FAILS as error:
        raise InvalidFunction(name, first_sentence(error), "give a type of Spark SQL") from None
    if own is not None and asked is not None and own != asked:
        why = f"it returns {own.simpleString()}, not {asked.simpleString()}"
        raise InvalidFunction(name, why, "leave returns out")
    found = asked if own is None else own
    assert isinstance(found, DataType)
    return found


def _parsed(text: Any) -> DataType:
    from pyspark.sql.types import StructType

    return _only(StructType.fromDDL(f"r {text}"))


def _type_of(type_json: str) -> DataType:
    from pyspark.sql.types import StructType

    field = {"name": "r", "type": json.loads(type_json), "nullable": True, "metadata": {}}
    return _only(StructType.fromJson({"type": "struct", "fields": [field]}))


def _only(row: Any) -> DataType:
    found: DataType = row.fields[0].dataType
    return found


def _made(code: Callable[..., Any], kind: DataType, number: int | None) -> Any:
    from pyspark.sql import functions as listed

    functions: Any = listed
    if number in (None, 100, 101):
        arrow = None if number is None else number == 101
        return functions.udf(code, kind, useArrow=arrow)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about type hints, which the user's own object settled
        make = functions.pandas_udf if number in (200, 204) else functions.arrow_udf
        return make(code, kind, number)


def _telling(name: str, code: Callable[..., Any], of_batches: bool) -> Callable[..., Any]:
    """Return a function that says its name if it fails.

    It is carried to workers as it is, so it uses nothing but what is in it.
    """
    sign = "[laminar " + "function "

    @functools.wraps(code)
    def told(*given: Any, **named: Any) -> Any:
        try:
            return code(*given, **named)
        except Exception as error:
            raise RuntimeError(f"{sign}{name}] {type(error).__name__}: {error}") from None

    @functools.wraps(code)
    def told_of_batches(*given: Any, **named: Any) -> Iterator[Any]:
        try:
            yield from code(*given, **named)
        except Exception as error:
            raise RuntimeError(f"{sign}{name}] {type(error).__name__}: {error}") from None

    return told_of_batches if of_batches else told


def _never(*_given: Any) -> None:
    raise NotImplementedError("a stand-in of a function was run")
