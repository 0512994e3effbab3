"""The order of files where tests run side by side: the longest begin first, so that none is left over at the end.

`make test` gives each process of pytest-xdist one file after the other, in the order of collection. A file that lasts
minutes and begins last would leave the other cores idle.
"""

from __future__ import annotations

from pathlib import Path

import pytest

TESTS = Path(__file__).parent

# Files below this folder that last longest, in seconds of a run on two cores. Renew it from time to time:
# `.venv/bin/python -m pytest -n 2 --dist loadfile --durations=0`, added up for each file.
SECONDS: dict[str, int] = {
    "controlplane/test_deploy.py": 240,
    "controlplane/test_failover.py": 120,
    "controlplane/test_live_metrics.py": 120,
    "controlplane/parity/test_scenarios.py": 120,
    "controlplane/test_bindings_in_doubt.py": 100,
    "fast/test_debug_build.py": 80,
    "controlplane/test_stale_standby.py": 80,
    "controlplane/test_crowd.py": 80,
    "controlplane/test_campaign.py": 70,
    "wasm/batch/test_sdks.py": 70,
    "test_batch_faults.py": 65,
    "controlplane/test_scheduling.py": 60,
    "wasm/conformance/test_leaks.py": 60,
    "wasm/test_hostile.py": 50,
    "parity/test_preemption.py": 40,
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
