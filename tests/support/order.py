"""The order of files where tests run side by side: the longest begin first, so that none is left over at the end.

`make test` gives each process of pytest-xdist one file after the other, in the order of collection. A file that lasts
minutes and begins last would leave the other cores idle.
"""

from __future__ import annotations

from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]

# Files below this folder that last longest, in seconds of a run on two cores. Renew it from time to time:
# `.venv/bin/python -m pytest -n 2 --dist loadfile --durations=0`, added up for each file.
SECONDS: dict[str, int] = {
    "test_newest_python.py": 400,
    "controlplane/test_deploy.py": 240,
    "controlplane/parity/test_scenarios.py": 250,
    "controlplane/test_failover.py": 120,
    "controlplane/test_live_metrics.py": 110,
    "controlplane/test_bindings_in_doubt.py": 110,
    "controlplane/test_crowd.py": 80,
    "controlplane/test_campaign.py": 75,
    "controlplane/test_stale_standby.py": 70,
    "controlplane/test_scheduling.py": 70,
    "fast/test_debug_build.py": 70,
    "cycle/test_batch_faults.py": 65,
    "wasm/batch/test_sdks.py": 60,
    "perf/workloads/test_control_plane_site.py": 50,
    "controlplane/test_harness.py": 40,
    "controlplane/test_preemption.py": 40,
    "parity/test_preemption.py": 50,
    "controlplane/test_metric_policies.py": 30,
    "controlplane/test_routing.py": 30,
    "controlplane/test_who_may_read.py": 30,
    "perf/test_wasm_policies.py": 30,
    "scenarios/test_random.py": 30,
    "wasm/test_hostile.py": 30,
    "parity/test_decisions.py": 35,
    "perf/workloads/test_execution.py": 25,
    "parity/devices/test_allocations.py": 30,
    "parity/devices/test_upstream_tables.py": 25,
    "controlplane/test_explain.py": 20,
    "controlplane/test_wasm.py": 20,
    "framework/test_lanes_agree.py": 20,
    "perf/test_wasm_soak.py": 30,
}


class LongestFirst:
    """Hooks of pytest, to be registered as a plugin."""

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        """Sort files, and leave the order within each; alone in its process, pytest keeps its own order."""
        if hasattr(config, "workerinput"):
            items.sort(key=lambda item: -SECONDS.get(_name(item.path), 0))


def _name(path: Path) -> str:
    return path.relative_to(TESTS).as_posix() if path.is_relative_to(TESTS) else ""
