"""Simulates all configurations, prints the table, and writes the pages."""

from __future__ import annotations

import argparse
from pathlib import Path

from kscheduler.observability.logs import QUIET, configure
from kscheduler.simulator.report import to_compact_json
from kscheduler.ui.page_file import to_html
from perf.real_load.page import to_page
from perf.real_load.runs import play_all
from perf.real_load.summary import table


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m perf.real_load", description=__doc__)
    parser.add_argument("--output", default="build/demo-metrics", metavar="DIR", help="where the pages go")
    parser.add_argument("--seed", type=int, metavar="N", help="another cluster and other pods")
    arguments = parser.parse_args()
    configure(verbosity=QUIET)
    runs = play_all(arguments.seed)
    print(table(runs))
    folder = Path(arguments.output)
    folder.mkdir(parents=True, exist_ok=True)
    for run in runs:
        (folder / f"{run.configuration.name}.html").write_bytes(to_html(to_compact_json(run.report)))
    page = folder / "index.html"
    page.write_text(to_page(runs), encoding="utf-8")
    print(f"\nwrote {page}, and a page for each run beside it")


if __name__ == "__main__":
    main()
