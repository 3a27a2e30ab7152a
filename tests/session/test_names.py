"""A wrong name is refused where it stands, with the nearest right one; one line adds a case."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

import laminar

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

V = "CREATE MATERIALIZED VIEW v AS "

CASES = [
    # (statement, code, what is underlined, the hint)
    ("SELECT * FROM tradez", "LMR-3002", "tradez", "trades"),
    ("SELECT tradez FROM tradez", "LMR-3002", "tradez@19", "trades"),
    (f"{V}SELECT * FROM trades\nJOIN tradez USING (symbol)", "LMR-3002", "tradez", "trades"),
    ("INSERT INTO tradez VALUES (1)", "LMR-3002", "tradez", "trades"),
    ("DELETE FROM tradez", "LMR-3002", "tradez", "trades"),
    ("UPDATE tradez SET price = 1", "LMR-3002", "tradez", "trades"),
    ("DESCRIBE tradez", "LMR-3002", "tradez", "trades"),
    ("SHOW CREATE tradez", "LMR-3002", "tradez", "trades"),
    ("DROP TABLE tradez", "LMR-3002", "tradez", "trades"),
    ("PAUSE MATERIALIZED VIEW tota", "LMR-3002", "tota", "total"),
    ("EXPLAIN MATERIALIZED VIEW tota", "LMR-3002", "tota", "total"),
    ("SELECT x.price FROM trades t", "LMR-3002", "x", ""),
    ("SELECT tt.price FROM trades t", "LMR-3002", "tt", "t"),
    ("SELECT prise FROM trades", "LMR-3003", "prise", "price"),
    ("SELECT price AS prise,\n  t.prise + 1 AS b FROM trades t", "LMR-3003", "prise@27", "price"),
    (f"{V}SELECT symbol,\n  SUM(prise) AS p FROM trades GROUP BY 1", "LMR-3003", "prise", "price"),
    (
        f"{V}SELECT TUMBLE_START(ts, INTERVAL '1' MINUTE) AS w, SUM(prise) AS p FROM trades\n"
        "GROUP BY TUMBLE(ts, INTERVAL '1' MINUTE)",
        *("LMR-3003", "prise", "price"),
    ),
    (f"EXPLAIN {V}SELECT prise FROM trades", "LMR-3003", "prise", "price"),
    ("SELECT st.yy FROM trades", "LMR-3003", "yy", ""),
    ("UPDATE trades SET prise = 1", "LMR-3003", "prise", "price"),
    ("UPDATE trades SET price = prise + 1", "LMR-3003", "prise", "price"),
    ("DELETE FROM trades WHERE prise > 1", "LMR-3003", "prise", "price"),
    ("INSERT INTO trades (prise) VALUES (1)", "LMR-3003", "prise", "price"),
    ("INSERT INTO trades SELECT prise FROM trades", "LMR-3003", "prise", "price"),
    ("SELECT summ(price) FROM trades", "LMR-3015", "summ", "sum"),
    (f"{V}SELECT uper(symbol) AS s FROM trades", "LMR-3015", "uper", "upper"),
    ("SELECT tumbel(ts, '1 minute') FROM trades", "LMR-3015", "tumbel", "tumble"),
    ("SELECT * FROM rnge(4)", "LMR-3015", "rnge", "range"),
    ("UPDATE trades SET price = summ(1)", "LMR-3015", "summ", "sum"),
    ("SELECT CAST(price AS BIGNIT) FROM trades", "LMR-3001", "BIGNIT", "BIGINT"),
    ("SELECT price\nFROM trades WHERE price = = 2", "LMR-3001", "=@39", ""),
    (f"{V}SELECT price FROM trades WHERE price > > 2", "LMR-3001", ">@69", ""),
    ("SELECT ARRAY(1) + price FROM trades", "LMR-3006", "ARRAY(1) + price", ""),
    (
        "CREATE MATERIALIZED VIEW v\nWITH (refresh_polcy = 'auto') AS SELECT 1 AS a",
        *("LMR-3009", "refresh_polcy", "refresh_policy"),
    ),
    (
        "CREATE MATERIALIZED VIEW v WITH (refresh_policy = 'atuo') AS SELECT 1 AS a",
        *("LMR-3009", "'atuo'", "auto, incremental, full"),
    ),
    ("CREATE SOURCE s (n BIGINT) WITH (connector = 'datgen')", "LMR-8001", "'datgen'", "datagen"),
    (
        "CREATE SOURCE s (n BIGINT)\n  WITH (connector = 'datagen', rows_totl = '1')",
        *("LMR-8002", "rows_totl", "rows_total"),
    ),
    (
        "CREATE SOURCE s (n BIGINT) WITH (connector = 'datagen', fields.n.strat = '1')",
        *("LMR-8002", "fields.n.strat", "fields.n.start"),
    ),
    ("DROP TABLE trades", "LMR-2005", "trades", ""),
    (f"{V}SELECT symbol, rand() AS r FROM trades", "LMR-3008", "rand", ""),
]


@pytest.fixture(scope="module")
def db(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[laminar.Database]:
    with laminar.connect(tmp_path_factory.mktemp("names"), spark=spark) as opened:
        opened.execute(
            "CREATE TABLE trades (symbol STRING, price BIGINT, ts TIMESTAMP, st STRUCT<x: INT>);"
            "CREATE MATERIALIZED VIEW total AS SELECT SUM(price) AS p FROM trades"
        )
        yield opened


@pytest.mark.spark
@pytest.mark.parametrize(("statement", "code", "underlined", "hint"), CASES)
def test_a_wrong_name_is_underlined(
    db: laminar.Database, statement: str, code: str, underlined: str, hint: str
) -> None:
    before = list(db.engine.defined.catalog.definitions)
    script = f"-- a script\nSHOW TABLES; {statement}"
    with pytest.raises(laminar.LaminarError) as refused:
        db.execute(script)
    error = refused.value
    assert error.code == code, str(error)
    assert hint in error.hint
    text, _, at = underlined.partition("@")
    offset = script.index(statement) + (int(at) if at else statement.index(text))
    line_start = script.rfind("\n", 0, offset) + 1
    assert error.place == (script.count("\n", 0, offset) + 1, offset - line_start + 1), str(error)
    *_, excerpt, carets = error.detail.split("\n")
    assert excerpt.strip() in script
    assert excerpt[carets.index("^") : carets.rindex("^") + 1] == text
    assert list(db.engine.defined.catalog.definitions) == before
