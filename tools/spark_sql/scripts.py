"""What stands in a SQL test file of Spark: statements, and which of them are queries."""

from __future__ import annotations

import re
from pathlib import Path

_END = re.compile(r"(?<!\\);")
_BLOCK = re.compile(r"/\*(?!\+).*?\*/", re.DOTALL)
_WORD = re.compile(r"[A-Za-z_]+")
_QUERIES = frozenset(("SELECT", "WITH", "VALUES", "TABLE", "FROM", "MAP", "REDUCE"))
_LOOKING = frozenset(("EXPLAIN", "DESCRIBE", "DESC", "SHOW", "ANALYZE"))


def statements(path: Path, inputs: Path) -> list[str]:
    """Return the statements of a file, those that it imports first."""
    found: list[str] = []
    plain: list[str] = []
    whole: list[str] | None = None  # the lines of a statement that holds semicolons
    for line in path.read_text().splitlines():
        mark = line.strip()
        if mark.startswith("--IMPORT"):
            found += statements(inputs / mark.split()[1], inputs)
        elif mark.startswith("--QUERY-DELIMITER-START"):
            found += _split(plain)
            plain, whole = [], []
        elif mark.startswith("--QUERY-DELIMITER-END") and whole is not None:
            found.append("\n".join(whole).strip().removesuffix(";"))
            whole = None
        elif not mark.startswith("--"):
            (plain if whole is None else whole).append(line)
    return found + _split(plain)


_OF_FOLDERS = {
    "nonansi": [("spark.sql.ansi.enabled", "false")],
    "postgreSQL": [("spark.sql.legacy.interval.enabled", "true")],
}
"""What Spark's own suite sets for the files of a folder, beside the type of TIMESTAMP."""


def settings(path: Path, inputs: Path) -> list[tuple[str, str]]:
    """Return what a file asks to be set before it runs."""
    found = list(_OF_FOLDERS.get(path.parent.name, ()))
    for line in path.read_text().splitlines():
        if line.startswith("--IMPORT"):
            found += settings(inputs / line.split()[1], inputs)
        elif line.startswith("--SET"):
            for each in line.removeprefix("--SET").split(","):
                name, _, value = each.partition("=")
                found.append((name.strip(), value.strip()))
    return found


def is_query(statement: str) -> bool:
    """Whether a statement answers with rows that it computes; a WITH before an INSERT does not."""
    return _first(statement) in _QUERIES and not re.search(r"\bINSERT\s+INTO\b", statement, re.I)


def only_looks(statement: str) -> bool:
    """Whether queries before and after a statement answer alike."""
    return _first(statement) in _LOOKING


def words(queries: list[str]) -> frozenset[str]:
    """Return all words of some queries in lower case; names of what they read are among them."""
    return frozenset(re.findall(r"\w+", " ".join(queries).lower()))


def _split(lines: list[str]) -> list[str]:
    parts = (each.strip() for each in _END.split("\n".join(lines)))
    return [each for each in parts if each]


def _first(statement: str) -> str:
    text = re.sub(r"^\s*--.*$", "", _BLOCK.sub(" ", statement), flags=re.MULTILINE)
    found = _WORD.match(text.lstrip(" \n\t("))
    return found[0].upper() if found else ""
