"""The trades DAG by Laminar: one epoch per file."""

from __future__ import annotations

import json
import sys
import time

import laminar

SCRIPT = """
CREATE SOURCE TABLE raw_trades (
    trade_id BIGINT, symbol STRING, price DOUBLE, volume BIGINT, event_time TIMESTAMP
) WITH (connector = 'files', path = '{path}', format = 'json', max_files_per_batch = '1');
CREATE MATERIALIZED VIEW normalized_trades AS
SELECT symbol, price, volume, event_time,
       CASE WHEN volume > 10000 THEN 'HIGH' ELSE 'NORMAL' END AS volume_class
FROM raw_trades;
CREATE MATERIALIZED VIEW vwap AS
SELECT symbol, TUMBLE_START(event_time, INTERVAL '1' MINUTE) AS window_start,
       SUM(price * volume) / SUM(volume) AS vwap
FROM normalized_trades GROUP BY symbol, TUMBLE(event_time, INTERVAL '1' MINUTE);
CREATE MATERIALIZED VIEW anomalies AS
SELECT * FROM normalized_trades WHERE volume_class = 'HIGH';
CREATE MATERIALIZED VIEW position_tracker AS
SELECT symbol, SUM(volume) AS total_volume, COUNT(*) AS trade_count
FROM normalized_trades GROUP BY symbol;
"""


def main(path: str) -> None:
    """Step through all files; print the end of each batch and the totals."""
    with laminar.connect(master="local[2]") as db:
        db.execute(SCRIPT.format(path=path))
        ends = [time.perf_counter()]
        while db.step() is not None:
            ends.append(time.perf_counter())
        position = db.sql("SELECT SUM(total_volume), SUM(trade_count) FROM position_tracker")
        totals = [*position.rows()[0], *db.sql("SELECT COUNT(*) FROM anomalies").rows()[0]]
        windows = db.sql("SELECT COUNT(*), SUM(vwap) FROM vwap").rows()[0]
        print(json.dumps({"ends": ends, "totals": totals, "windows": windows}))


if __name__ == "__main__":
    main(sys.argv[1])
