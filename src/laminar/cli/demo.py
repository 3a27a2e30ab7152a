"""The trades DAG, run on generated data to the end."""

from __future__ import annotations

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from laminar.cli.opening import open_database
from laminar.cli.trades import trades
from laminar.runtime.epoch.outcome import EpochReport

TRADES_PER_EPOCH = 50_000


def run_demo(events: int, *, verbose: bool = False) -> None:
    """Define the DAG, run it to the end of its source, show what the views hold."""
    console = Console()
    batch = min(TRADES_PER_EPOCH, max(1, events))
    with open_database(None, verbose=verbose) as db:
        with console.status("defining the DAG"):
            db.execute(trades(events, batch, step="2 milliseconds"))
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
