"""The trades that the demo and a new project show: one source, a shared stage, three views."""

from __future__ import annotations

_SYMBOLS = ("ACME", "BOLT", "CRUX", "DYNE", "ECHO", "FLUX", "GALE", "HALO")

_SCRIPT = """\
CREATE SOURCE IF NOT EXISTS raw_trades (
    trade_id BIGINT,
    symbol STRING,
    price DOUBLE,
    volume BIGINT,
    event_time TIMESTAMP
) WITH (
    connector = 'datagen',
    rows_total = '{rows}',
    rows_per_batch = '{batch}',
    fields.symbol.values = '{symbols}',
    fields.price.min = '10', fields.price.max = '500',
    fields.volume.min = '1', fields.volume.max = '12000',
    fields.event_time.start = '2026-01-01 09:30:00', fields.event_time.step = '{step}'
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
"""


def trades(rows: int, batch: int, *, symbols: int = len(_SYMBOLS), step: str) -> str:
    """Return the script.

    Args:
        rows: how many trades the source makes in all.
        batch: how many of them an epoch takes.
        symbols: how many things are traded.
        step: the time between two trades.
    """
    names = ",".join(_SYMBOLS[:symbols])
    return _SCRIPT.format(rows=rows, batch=batch, symbols=names, step=step)
