"""A new project: a folder with a pipeline that runs as it is."""

from __future__ import annotations

from pathlib import Path

from laminar.errors import StoreUnwritable

PIPELINE = """\
-- {name}: trades from a generator, one shared stage, three views.
-- Run it:  laminar run pipeline.sql --state state

CREATE SOURCE IF NOT EXISTS raw_trades (
    trade_id BIGINT,
    symbol STRING,
    price DOUBLE,
    volume BIGINT,
    event_time TIMESTAMP
) WITH (
    connector = 'datagen',
    rows_total = '50000',
    rows_per_batch = '10000',
    fields.symbol.values = 'ACME,BOLT,CRUX,DYNE',
    fields.price.min = '10', fields.price.max = '500',
    fields.volume.min = '1', fields.volume.max = '12000',
    fields.event_time.start = '2026-01-01 09:30:00', fields.event_time.step = '20 milliseconds'
);

CREATE MATERIALIZED VIEW IF NOT EXISTS normalized_trades AS
SELECT symbol, price, volume, event_time,
       CASE WHEN volume > 10000 THEN 'HIGH' ELSE 'NORMAL' END AS volume_class
FROM raw_trades;

CREATE MATERIALIZED VIEW IF NOT EXISTS vwap AS
SELECT symbol,
       TUMBLE_START(event_time, INTERVAL '1' MINUTE) AS window_start,
       SUM(price * volume) / SUM(volume) AS vwap
FROM normalized_trades
GROUP BY symbol, TUMBLE(event_time, INTERVAL '1' MINUTE);

CREATE MATERIALIZED VIEW IF NOT EXISTS anomalies AS
SELECT * FROM normalized_trades WHERE volume_class = 'HIGH';

CREATE MATERIALIZED VIEW IF NOT EXISTS position_tracker AS
SELECT symbol, SUM(volume) AS total_volume, COUNT(*) AS trade_count
FROM normalized_trades
GROUP BY symbol
EMIT ON UPDATE;

SELECT * FROM position_tracker ORDER BY symbol;
"""

README = """\
# {name}

`pipeline.sql` defines a source of generated trades and the views over it.

```
laminar explain pipeline.sql              # the DAG, and how each view is kept; touches no data
laminar run pipeline.sql --state state    # run until the source is idle; run it again to go on
laminar status                            # what is in state/, without starting Spark
laminar sql --state state                 # look around: \\d, SELECT * FROM vwap; \\q
```

To read trades of your own, give the source another connector, for example JSON files:
`WITH (connector = 'files', path = 'trades', format = 'json')`.
"""

FILES = {"pipeline.sql": PIPELINE, "README.md": README, ".gitignore": "state/\n"}


def create_project(folder: Path) -> list[Path]:
    """Write the files of a new project; refuse a folder that holds something already."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if any(folder.iterdir()):
            raise StoreUnwritable(str(folder), "the folder is there and not empty")
        made = []
        for name, text in FILES.items():
            path = folder / name
            path.write_text(text.format(name=folder.resolve().name), encoding="utf-8")
            made.append(path)
    except OSError as error:
        raise StoreUnwritable(str(folder), error.strerror or str(error)) from None
    return made
