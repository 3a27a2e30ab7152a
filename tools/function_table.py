"""What becomes of Spark's functions, types and clauses in a view, from a run over all of them.

`python tools/function_table.py` makes views of all examples that Spark documents of its functions,
compares each with Spark's own answer, tries all types and clauses, stores what it saw in
`tests/fixtures/sql_table.json` and renders docs/sql-functions.md and a part of docs/sql.md.
With names of functions it tells about these; with `--render` it renders what is stored.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from textwrap import fill
from typing import TYPE_CHECKING, Any

from clause_trials import try_clauses
from function_examples import functions_of
from type_trials import COLUMNS, TYPES, try_type
from view_trials import Findings, Outcome, try_functions

from laminar.runtime.spark.session import start_spark

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "sql-functions.md"
SUMMARY = ROOT / "docs" / "sql.md"
STORED = ROOT / "tests" / "fixtures" / "sql_table.json"
BEGIN, END = "<!-- from tools/function_table.py: begin -->", "<!-- end -->"
GROUPS = ("incremental", "affected groups", "full", "refused", "not tried")
PARTS = 8

Seen = Mapping[str, Any]


def run(spark: SparkSession) -> Seen:
    """Try everything."""
    names = functions_of(spark)
    parts = [try_functions(spark, names[at::PARTS]) for at in range(PARTS)]
    types = {kind: try_type(spark, kind) for kind in TYPES}
    return as_stored(spark.version, parts, types, try_clauses(spark))


def as_stored(
    version: str,
    parts: Sequence[Findings],
    types: Mapping[str, Mapping[str, str]],
    clauses: Mapping[str, str],
) -> Seen:
    """Put together what is stored."""
    functions = {name: each.strategies for part in parts for name, each in part.functions.items()}
    return {
        "spark": version,
        "examples": sum(part.examples for part in parts),
        "over_rows": sum(part.over_rows for part in parts),
        "equal": sum(part.equal for part in parts),
        "refused": sum(part.refused for part in parts),
        "fail_alike": sorted(each for part in parts for each in part.fail_alike),
        "left_open": sorted(each for part in parts for each in part.left_open),
        "differing": sorted(each for part in parts for each in part.differing),
        "functions": dict(sorted(functions.items())),
        "types": types,
        "clauses": clauses,
    }


def page(seen: Seen) -> str:
    """Return docs/sql-functions.md."""
    parts = [_head(seen), "## Functions\n"]
    for group, names in grouped(seen).items():
        parts.append(f"### {group.capitalize()} ({len(names)})\n\n{_functions(seen, group, names)}")
    parts.append(f"## Types\n\n{_TYPES}\n{_types(seen)}\n")
    parts.append(f"## Clauses\n\n{_clauses(seen)}\n")
    return "\n".join(parts)


def summary(seen: Seen) -> str:
    """Return what docs/sql.md shows."""
    rows = [
        f"| {group} | {len(names)} | {_few(names)} | {_few(_with(seen['clauses'], group))} |"
        for group, names in grouped(seen).items()
    ]
    return "\n".join(
        [
            f"Seen in a run over all {len(seen['functions'])} functions and operators of Spark",
            f"{seen['spark']}, its types and clauses: what the costliest documented example gets.",
            "[sql-functions.md](sql-functions.md) has them all by name, with reasons, and what a",
            "column of each type can be used for.",
            "",
            "| strategy | functions | such as | clauses, such as |",
            "|---|---|---|---|",
            *rows,
        ]
    )


def with_summary(text: str, seen: Seen) -> str:
    """Return docs/sql.md with its generated part renewed."""
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n{summary(seen)}\n{END}{after}"


def grouped(seen: Seen) -> dict[str, list[str]]:
    """Return the functions of each strategy."""
    found: dict[str, list[str]] = {group: [] for group in GROUPS}
    for name, strategies in seen["functions"].items():
        found[Outcome(strategies).strategy].append(name)
    return found


def _functions(seen: Seen, group: str, names: Sequence[str]) -> str:
    given = seen["functions"]
    if group in ("incremental", "affected groups"):
        listed = fill(", ".join(f"`{name}`" for name in names), 110, break_on_hyphens=False)
        others = [
            f"| `{name}` | {each} | {_cell(why)} |"
            for name in names
            for each, why in given[name].items()
            if each != group
        ]
        return f"{listed}\n" + (
            f"\n{_rows(('function', 'also', 'as in'), others)}\n" * bool(others)
        )
    rows = [f"| `{name}` | {_cell(given[name][group])} |" for name in names]
    return _rows(("function", "why"), rows) + "\n"


def _types(seen: Seen) -> str:
    rows = [
        f"| `{kind}` | " + " | ".join(_short(uses[each]) for each in COLUMNS) + " |"
        for kind, uses in seen["types"].items()
    ]
    return _rows(("type", *COLUMNS), rows)


def _short(got: str) -> str:
    for strategy, letter in (("incremental", "I"), ("affected groups", "G"), ("full", "F")):
        got = got.replace(strategy, letter)
    return got


def _clauses(seen: Seen) -> str:
    rows = [f"| {_cell(clause)} | {_cell(got)} |" for clause, got in seen["clauses"].items()]
    return _rows(("clause", "strategy"), rows)


def _rows(titles: Iterable[str], rows: Sequence[str]) -> str:
    given = list(titles)
    return "\n".join([f"| {' | '.join(given)} |", "|---" * len(given) + "|", *rows])


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


def _with(clauses: Mapping[str, str], group: str) -> list[str]:
    return [clause for clause, got in clauses.items() if got.startswith(group)]


def _few(names: Sequence[str]) -> str:
    plain = [name for name in names if name[0].isalpha()]
    chosen = plain[:: max(1, len(plain) // 8)][:8]
    return ", ".join(_cell(each) for each in chosen) or "-"


def _head(seen: Seen) -> str:
    differing = "".join(f"\n- {_cell(each)}" for each in seen["differing"])
    numbers = [seen["examples"], seen["over_rows"], seen["equal"], len(seen["fail_alike"])]
    numbers += [len(seen["left_open"]), seen["refused"], len(seen["differing"])]
    counts = " | ".join(map(str, numbers))
    return f"""# Functions, types and clauses of Spark in views

What a view does in an epoch ([sql.md](sql.md#strategies) says what the strategies are), seen in a
run over all of Spark {seen["spark"]}. This page is rendered by `tools/function_table.py`; a test
compares it with what the run stored, and others try it again.

Of a function the costliest of its documented examples counts. They were made to read rows of a
table where that is possible, and maintained over two epochs, with rows that come twice and go once.

| examples | over rows | equal to Spark | fail as in Spark | open in Spark | refused | differing |
|---|---|---|---|---|---|---|
| {counts} |
{differing}
"""


_TYPES = """I: incremental, G: affected groups, F: full. A code of [errors.md](errors.md)
says why it is refused: LMR-3005 is a limit of ours, LMR-3006 of Spark's. A dash: not tried.
"""


def write(seen: Seen) -> None:
    """Render both pages."""
    PAGE.write_text(page(seen), encoding="utf-8")
    SUMMARY.write_text(with_summary(SUMMARY.read_text("utf-8"), seen), encoding="utf-8")


def main(given: Sequence[str]) -> None:
    """Run, or render what a run has stored."""
    if given == ["--render"]:
        write(json.loads(STORED.read_text("utf-8")))
        return
    spark = start_spark(None)
    if given:
        found = try_functions(spark, given)
        for name, outcome in found.functions.items():
            print(name, outcome.strategies)
        print(f"{found.equal} equal, {len(found.fail_alike)} fail in Spark too, differing:")
        print("\n".join(found.differing))
        return
    seen = run(spark)
    STORED.write_text(json.dumps(seen, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    write(seen)


if __name__ == "__main__":
    main(sys.argv[1:])
