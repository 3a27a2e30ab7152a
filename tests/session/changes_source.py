"""A connector for tests that takes rows back: a script of changes, a few per poll."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

import laminar

Change = tuple[int, "int | None", "str | None", "float | None"]
"""Weight, and the values of a row."""


class ChangesSource:
    """Reads `SCRIPTS[name]` through Arrow, or through Spark."""

    def __init__(self, name: str, per_poll: int, *, with_spark: bool, appends: bool) -> None:
        self.name = name
        self.per_poll = per_poll
        self.with_spark = with_spark
        self.append_only = appends

    def latest_offset(self, start: Any) -> Any:
        end = min((start or 0) + self.per_poll, len(SCRIPTS[self.name]))
        return end if end > (start or 0) else None

    def read_arrow(self, start: Any, end: Any) -> pa.Table | None:
        return None if self.with_spark else self._rows(start, end)

    def read(self, spark: Any, start: Any, end: Any) -> Any:
        rows = self._rows(start, end)
        schema = "k BIGINT, v STRING, x DOUBLE"
        if "__weight" in rows.column_names:
            schema += ", __weight INT"
        return spark.createDataFrame([tuple(row.values()) for row in rows.to_pylist()], schema)

    def _rows(self, start: Any, end: Any) -> pa.Table:
        script = SCRIPTS[self.name][start or 0 : end]
        found = pa.table(
            {
                "k": pa.array([each[1] for each in script], pa.int64()),
                "v": pa.array([each[2] for each in script], pa.string()),
                "x": pa.array([each[3] for each in script], pa.float64()),
            }
        )
        if all(each[0] == 1 for each in script):
            return found  # a weight of 1 need not be written down
        return found.append_column("__weight", pa.array([each[0] for each in script], pa.int32()))


SCRIPTS: dict[str, list[Change]] = {}
"""Source -> all its changes so far."""


def make(spec: laminar.SourceSpec) -> ChangesSource:
    """Build one from `per_poll`, `with_spark` and `appends`."""
    return ChangesSource(
        spec.name,
        int(spec.options.get("per_poll", "1000")),
        with_spark=spec.options.get("with_spark", "false") == "true",
        appends=spec.options.get("appends", "false") == "true",
    )


laminar.register_source("changes", make)


def declared(name: str, *, key: bool = False, **options: object) -> str:
    """Return the statement that creates one."""
    SCRIPTS[name] = []
    given = "".join(f", {each} = '{value}'" for each, value in options.items())
    clause = ", PRIMARY KEY (k)" if key else ""
    return (
        f"CREATE SOURCE {name} (k BIGINT, v STRING, x DOUBLE{clause}) "
        f"WITH (connector = 'changes'{given})"
    )
