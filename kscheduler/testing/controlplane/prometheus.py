"""Runs the system's Prometheus with the targets of a test. It can be killed, restarted and frozen.

It has a port and a data directory of its own, and keeps its data over a restart.
"""

from __future__ import annotations

import json
import shutil
import signal
import urllib.parse
import urllib.request
from collections.abc import Sequence

import yaml

from kscheduler.testing.controlplane.cluster import ControlPlane
from kscheduler.testing.controlplane.faults import MissingTool
from kscheduler.testing.controlplane.ports import free_port
from kscheduler.testing.controlplane.probes import is_healthy
from kscheduler.testing.controlplane.process import Process

PROGRAM = "prometheus"
SCRAPE_S = 1


class Prometheus:
    """A Prometheus process that scrapes each target (host:port) once a second."""

    def __init__(self, control_plane: ControlPlane, targets: Sequence[str]) -> None:
        program = shutil.which(PROGRAM)
        if program is None:
            raise MissingTool(f"{PROGRAM!r} is not on PATH; Debian has it as a package of that name")
        address = f"127.0.0.1:{free_port()}"
        self.url = f"http://{address}"
        directory = control_plane.directory / f"prometheus-{address.rpartition(':')[2]}"
        directory.mkdir()
        config = directory / "prometheus.yaml"
        config.write_text(yaml.safe_dump(_configuration(targets)))
        self.process: Process = control_plane.start_process(
            "prometheus",
            [
                program,
                f"--config.file={config}",
                f"--storage.tsdb.path={directory / 'data'}",
                f"--web.listen-address={address}",
                "--log.level=warn",
            ],
            directory=directory,
        )
        self._wait_ready()

    def kill(self) -> None:
        """Kill Prometheus, as in a crash: connections are refused from then on."""
        self.process.kill()

    def start(self) -> None:
        """Start Prometheus again, on the same port and with the same data."""
        self.process.start()
        self._wait_ready()

    def freeze(self) -> None:
        """Stop Prometheus by SIGSTOP: the kernel accepts connections, but no request is answered."""
        self.process.signal(signal.SIGSTOP)

    def thaw(self) -> None:
        self.process.signal(signal.SIGCONT)

    def ask(self, query: str, label: str = "node") -> dict[str, float]:
        """Evaluate a query now; return the label's value -> the result."""
        parameters = urllib.parse.urlencode({"query": query})
        with urllib.request.urlopen(f"{self.url}/api/v1/query?{parameters}", timeout=10) as answer:
            found = json.load(answer)["data"]["result"]
        return {each["metric"].get(label, ""): float(each["value"][1]) for each in found}

    def close(self) -> None:
        """End the process in any state, even frozen, when it would not react to SIGTERM."""
        self.process.kill()

    def _wait_ready(self) -> None:
        self.process.wait_ready(lambda: is_healthy(f"{self.url}/-/ready"))


def _configuration(targets: Sequence[str]) -> dict[str, object]:
    return {
        "global": {"scrape_interval": f"{SCRAPE_S}s", "scrape_timeout": f"{SCRAPE_S}s"},
        "scrape_configs": [{"job_name": "nodes", "static_configs": [{"targets": list(targets)}]}],
    }
