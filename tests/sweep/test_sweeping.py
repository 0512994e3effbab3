"""The sweep as a function of Python, on executors of `concurrent.futures` and of Dask."""

from __future__ import annotations

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import msgspec
import pytest

from kscheduler.errors import ConfigError
from kscheduler.sweep import sweep
from kscheduler.sweep.results import Result
from tests.sweep.grids import grid, traced, write_grid

# In a process of its own: Dask starts threads and an event loop that outlive its client.
WITH_DASK = """
import sys, msgspec
from distributed import Client, LocalCluster
from kscheduler.sweep import sweep

if __name__ == "__main__":
    with LocalCluster(n_workers=1, threads_per_worker=1, dashboard_address=None) as cluster, Client(cluster) as client:
        for result in sweep(sys.argv[1], seeds=[1, 2], executor=client.get_executor()):
            print(msgspec.json.encode(result).decode())
"""


def test_results_come_in_the_order_of_the_plan_from_any_executor(tmp_path: Path) -> None:
    document = traced(tmp_path)
    here = list(sweep(document, seeds=[1, 2, 3]))
    with ThreadPoolExecutor(1) as executor:
        assert list(sweep(document, seeds=[1, 2, 3], executor=executor)) == here
    assert [(result.config, result.seed) for result in here] == [
        (config, seed) for config in ("spread", "packed") for seed in (1, 2, 3)
    ]


def test_entries_that_are_equal_in_content_have_equal_results() -> None:
    equal = grid(configs=[{"name": "a"}, {"name": "b"}])
    with ThreadPoolExecutor(1) as executor:
        for results in (list(sweep(equal, seeds=[1])), list(sweep(equal, seeds=[1], executor=executor))):
            assert [result.config for result in results] == ["a", "b"]
            assert results[0].figures == results[1].figures


def test_a_wrong_grid_is_refused_before_the_first_run() -> None:
    with pytest.raises(ConfigError, match='grid: unknown key "trases"'):
        sweep({"trases": []})


def test_only_records_need_the_extra_for_them() -> None:
    code = "import sys; sys.modules['zstandard'] = None; import kscheduler.command.sweep"
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.slow
def test_the_executor_of_a_dask_client_gives_the_same_results(tmp_path: Path) -> None:
    pytest.importorskip("distributed")
    path = write_grid(tmp_path)
    script = tmp_path / "with_dask.py"
    script.write_text(WITH_DASK)
    done = subprocess.run([sys.executable, str(script), path], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    there = [msgspec.json.decode(line, type=Result) for line in done.stdout.splitlines()]
    assert there == list(sweep(path, seeds=[1, 2]))
