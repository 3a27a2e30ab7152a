"""A new project: a folder with a pipeline that runs as it is."""

from __future__ import annotations

from pathlib import Path

from laminar.cli.trades import trades
from laminar.errors import StoreUnwritable

PIPELINE = """\
-- {name}: trades from a generator, one shared stage, three views.
-- Run it:  laminar run pipeline.sql --state state

{trades}
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
        title = folder.resolve().name
        views = trades(50_000, 10_000, symbols=4, step="20 milliseconds")
        made = []
        for name, text in FILES.items():
            path = folder / name
            path.write_text(text.format(name=title, trades=views), encoding="utf-8")
            made.append(path)
    except OSError as error:
        raise StoreUnwritable(str(folder), error.strerror or str(error)) from None
    return made
