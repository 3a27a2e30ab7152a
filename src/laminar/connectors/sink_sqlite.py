"""The sink `sqlite`: a table that follows a view, in a database of SQLite.

What an epoch changes, and the number of the epoch, are written in one transaction. An epoch that
comes again after a crash finds its number there and changes nothing. Times, dates and decimals
are texts (times in UTC), nested values are JSON, and SQLite has no NaN: it is NULL.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from laminar.connectors import sink
from laminar.connectors.declared_options import Option, OptionType
from laminar.connectors.options import Options
from laminar.connectors.sink import CHANGE, EPOCH, SinkSpec, change_rows
from laminar.errors.connectors import BadOption
from laminar.model.quoting import backquoted
from laminar.model.trace import WEIGHT

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from laminar.model.schema import Field

NAME = "sqlite"
RECORD = "laminar_sinks"
"""The table that says up to which epoch each of the others has come."""

_MODES = ("mirror", "changelog")
ABOUT = "a table that follows a view, in a database of SQLite"
OPTIONS = (
    Option("path", "the file of the database; it is created", OptionType.PATH, is_required=True),
    Option("table", "the table, which must not be there yet", default="the name of the view"),
    Option(
        "mode",
        "mirror: the rows of the view; changelog: every change is a row",
        OptionType.CHOICE,
        "mirror",
        choices=_MODES,
    ),
    Option(
        "key",
        "mirror: columns that tell rows apart, with commas between",
        default="those known",
    ),
)
_WAIT_SECONDS = 30.0
_INDEXED = 16

_WHOLE = ("tinyint", "smallint", "int", "bigint", "byte", "short", "integer", "long")
_PLAIN = {"string": "TEXT", "binary": "BLOB", "double": "REAL", **dict.fromkeys(_WHOLE, "INTEGER")}
_CAST = {"boolean": ("INT", "INTEGER"), "float": ("DOUBLE", "REAL"), "real": ("DOUBLE", "REAL")}
_NESTED = ("array", "map", "struct", "variant")


class SqliteSink:
    """Applies what each epoch changed to a table, together with the number of the epoch."""

    promise = "exactly once: rows and the number of their epoch are written in one transaction"

    def __init__(
        self, path: Path, table: str, fields: tuple[Field, ...], key: tuple[str, ...], mode: str
    ) -> None:
        self.path = path
        self.table = table
        self.mode = mode
        self.target = f"{path} {table}"
        self.layout = (mode, key)
        self._fields = fields
        self._key = key

    def begin(self) -> None:
        """Create the table; one that holds rows already is refused."""
        with self._transaction() as db:
            db.execute(f"CREATE TABLE IF NOT EXISTS {RECORD} (name TEXT PRIMARY KEY, epoch INT)")
            known = db.execute(f"SELECT epoch FROM {RECORD} WHERE name = ?", (self.table,))
            if known.fetchone() == (None,):
                # A sink that was never finished: nothing was written yet.
                db.execute(f"DROP TABLE {_quote(self.table)}")
            try:
                db.execute(f"CREATE TABLE {_quote(self.table)} ({', '.join(self._columns())})")
            except sqlite3.OperationalError as error:
                raise BadOption(NAME, "table", self.table, f"a new table ({error})") from None
            if self.mode == "mirror" and not self._key:
                listed = ", ".join(_quote(each.name) for each in self._fields[:_INDEXED])
                index = _quote(f"laminar_{self.table}")
                db.execute(f"CREATE INDEX {index} ON {_quote(self.table)} ({listed})")
            db.execute(f"INSERT OR REPLACE INTO {RECORD} VALUES (?, NULL)", (self.table,))

    def write(self, epoch: int, delta: DataFrame) -> None:
        """Apply an epoch, unless it is there already."""
        with self._transaction() as db:
            known = db.execute(f"SELECT epoch FROM {RECORD} WHERE name = ?", (self.table,))
            found = known.fetchone()
            if found is None:
                raise ValueError(f"{self.path} does not know the table {self.table} any more")
            if found[0] is not None and found[0] >= epoch:
                return
            if self.mode == "changelog":
                self._append(db, epoch, delta)
            else:
                self._take(db, delta)
                self._add(db, delta)
            db.execute(f"UPDATE {RECORD} SET epoch = ? WHERE name = ?", (epoch, self.table))
            sink.reached("sink.before_commit")
        sink.reached("sink.after_commit")

    def _append(self, db: sqlite3.Connection, epoch: int, delta: DataFrame) -> None:
        rows = change_rows(epoch, delta).selectExpr(*map(_plain, self._fields), CHANGE, EPOCH)
        self._insert(db, rows, len(self._fields) + 2)

    def _add(self, db: sqlite3.Connection, delta: DataFrame) -> None:
        rows = delta.where(f"{WEIGHT} > 0").selectExpr(
            *map(_plain, self._fields),
            f"EXPLODE(ARRAY_REPEAT(0, CAST({WEIGHT} AS INT))) AS __copy",
        )
        self._insert(db, rows.drop("__copy"), len(self._fields))

    def _insert(self, db: sqlite3.Connection, rows: DataFrame, width: int) -> None:
        marks = ", ".join("?" * width)
        # Partition by partition: what is in memory does not grow with the change.
        db.executemany(f"INSERT INTO {_quote(self.table)} VALUES ({marks})", rows.toLocalIterator())

    def _take(self, db: sqlite3.Connection, delta: DataFrame) -> None:
        """Take rows away; each of them must be there."""
        told = [each for each in self._fields if not self._key or each.name in self._key]
        test = " AND ".join(f"{_quote(each.name)} IS ?" for each in told)
        table = _quote(self.table)
        one = f"SELECT _rowid_ FROM {table} WHERE {test} LIMIT 1"
        rows = delta.where(f"{WEIGHT} < 0").selectExpr(
            *map(_plain, told), f"EXPLODE(ARRAY_REPEAT(0, CAST(-{WEIGHT} AS INT))) AS __copy"
        )
        counted = _Counted(rows.drop("__copy").toLocalIterator())
        gone = db.executemany(f"DELETE FROM {table} WHERE _rowid_ IN ({one})", counted).rowcount
        if counted.count and gone != counted.count:
            raise ValueError(f"{counted.count - gone} rows to delete are not in {self.table}")

    def _columns(self) -> Iterator[str]:
        for each in self._fields:
            yield f"{_quote(each.name)} {_kind(each)}"
        if self.mode == "changelog":
            yield f"{CHANGE} TEXT"
            yield f"{EPOCH} INTEGER"
        elif self._key:
            yield f"UNIQUE ({', '.join(_quote(name) for name in self._key)})"

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        with closing(sqlite3.connect(self.path, timeout=_WAIT_SECONDS)) as db:
            db.isolation_level = None
            db.execute("PRAGMA synchronous = FULL")
            db.execute("BEGIN IMMEDIATE")
            try:
                yield db
            except BaseException:
                db.execute("ROLLBACK")
                raise
            db.execute("COMMIT")


class _Counted:
    """Rows as tuples, counted as they pass."""

    def __init__(self, rows: Iterator[tuple[object, ...]]) -> None:
        self._rows = rows
        self.count = 0

    def __iter__(self) -> Iterator[tuple[object, ...]]:
        for row in self._rows:
            self.count += 1
            yield row


def _quote(name: str) -> str:
    escaped = name.replace('"', '""')
    return f'"{escaped}"'


def _kind(field: Field) -> str:
    base = field.type.lower().split("(")[0].split("<")[0]
    return _PLAIN.get(base) or (_CAST[base][1] if base in _CAST else "TEXT")


def _plain(field: Field) -> str:
    """Return a column as something that SQLite can hold."""
    name = backquoted(field.name)
    base = field.type.lower().split("(")[0].split("<")[0].strip()
    if base in _PLAIN:
        return name
    if base in _CAST:
        return f"CAST({name} AS {_CAST[base][0]}) AS {name}"
    if base in _NESTED:
        return f"TO_JSON({name}) AS {name}"
    if base in ("timestamp", "timestamp_ltz"):
        utc = f"TO_UTC_TIMESTAMP({name}, CURRENT_TIMEZONE())"
        return f"DATE_FORMAT({utc}, 'yyyy-MM-dd HH:mm:ss.SSSSSS') AS {name}"
    return f"CAST({name} AS STRING) AS {name}"


def sqlite_sink(spec: SinkSpec) -> SqliteSink:
    """Build the sink from what a user declared."""
    options = Options.of(NAME, spec.options)
    given = options.required("path", "the path of a file")
    path = Path(given).expanduser().absolute()
    if not path.parent.is_dir() or path.is_dir():
        raise options.bad("path", "the path of a file in a folder that exists")
    mode = options.choice("mode", _MODES, "mirror")
    fields = tuple(spec.schema)
    known = {each.name.lower(): each.name for each in fields}
    key = spec.key or ()
    if "key" in options:
        if mode != "mirror":
            raise options.bad("key", "nothing: a changelog has no key")
        names = [name.strip() for name in options.required("key").split(",")]
        if not all(name.lower() in known for name in names):
            raise options.bad("key", f"columns among {', '.join(known.values())}")
        key = tuple(known[name.lower()] for name in names)
    table = options.text("table", spec.relation)
    return SqliteSink(path, table, fields, key if mode == "mirror" else (), mode)
