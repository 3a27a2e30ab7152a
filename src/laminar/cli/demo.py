"""The trades DAG on generated data: one source, a shared stage, three views."""

from __future__ import annotations

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from laminar.cli.opening import open_database
from laminar.runtime.report import EpochReport

TRADES_PER_EPOCH = 50_000

SCRIPT = """
CREATE SOURCE TABLE raw_trades (
    trade_id BIGINT,
    symbol STRING,
    price DOUBLE,
    volume BIGINT,
    event_time TIMESTAMP
) WITH (
    connector = 'datagen',
    rows_total = '{events}',
    rows_per_batch = '{batch}',
    fields.symbol.values = 'ACME,BOLT,CRUX,DYNE,ECHO,FLUX,GALE,HALO',
    fields.price.min = '10', fields.price.max = '500',
    fields.volume.min = '1', fields.volume.max = '12000',
    fields.event_time.start = '2026-01-01 09:30:00', fields.event_time.step = '2 milliseconds'
);

CREATE MATERIALIZED VIEW normalized_trades AS
SELECT symbol, price, volume, event_time,
       CASE WHEN volume > 10000 THEN 'HIGH' ELSE 'NORMAL' END AS volume_class
FROM raw_trades;

CREATE MATERIALIZED VIEW vwap AS
SELECT symbol,
       TUMBLE_START(event_time, INTERVAL '1' MINUTE) AS window_start,
       SUM(price * volume) / SUM(volume) AS vwap
FROM normalized_trades
GROUP BY symbol, TUMBLE(event_time, INTERVAL '1' MINUTE);

CREATE MATERIALIZED VIEW anomalies AS
SELECT * FROM normalized_trades WHERE volume_class = 'HIGH';

CREATE MATERIALIZED VIEW position_tracker AS
SELECT symbol, SUM(volume) AS total_volume, COUNT(*) AS trade_count
FROM normalized_trades
GROUP BY symbol
EMIT ON UPDATE;
"""


def run_demo(events: int, *, verbose: bool = False) -> None:
    """Define the DAG, run it to the end of its source, show what the views hold."""
    console = Console()
    batch = min(TRADES_PER_EPOCH, max(1, events))
    with open_database(None, verbose=verbose) as db:
        with console.status("defining the DAG"):
            db.execute(SCRIPT.format(events=events, batch=batch))
        db.execute("EXPLAIN DAG").show()
        bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.fields[note]}"),
            TimeElapsedColumn(),
            console=console,
        )
        with bar:
            work = bar.add_task("running epochs", total=events, note="")

            def moved(report: EpochReport) -> None:
                rate = report.rows_in / max(report.duration_ms, 1) * 1000
                note = f"epoch {report.epoch}: {rate:,.0f} trades/s"
                bar.update(work, advance=report.rows_in, note=note)

            db.on_epoch(moved)
            db.drain()
        for title, query in QUERIES.items():
            console.print(f"\n[bold]{title}[/bold]")
            db.sql(query).show()


QUERIES = {
    "position_tracker": "SELECT * FROM position_tracker ORDER BY symbol",
    "vwap, the last minutes": (
        "SELECT symbol, window_start, ROUND(vwap, 4) AS vwap FROM vwap "
        "ORDER BY window_start DESC, symbol LIMIT 8"
    ),
    "anomalies by symbol": (
        "SELECT symbol, COUNT(*) AS trades, MAX(volume) AS largest FROM anomalies "
        "GROUP BY symbol ORDER BY symbol"
    ),
}
