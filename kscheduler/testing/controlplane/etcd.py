"""Runs the etcd of one test control plane: plain HTTP on loopback, and no fsync, since its data is temporary."""

from __future__ import annotations

from pathlib import Path

from kscheduler.testing.controlplane.binaries import Binaries
from kscheduler.testing.controlplane.ports import free_port
from kscheduler.testing.controlplane.probes import is_healthy
from kscheduler.testing.controlplane.process import Process

QUOTA_BYTES = 8 << 30


class Etcd:
    """An etcd process. Its data and log are in `directory`."""

    def __init__(self, binaries: Binaries, directory: Path) -> None:
        self.url = f"http://127.0.0.1:{free_port()}"
        peer_url = f"http://127.0.0.1:{free_port()}"
        flags = {
            "data-dir": directory / "etcd",
            "listen-client-urls": self.url,
            "advertise-client-urls": self.url,
            "listen-peer-urls": peer_url,
            "initial-advertise-peer-urls": peer_url,
            "initial-cluster": f"default={peer_url}",
            "unsafe-no-fsync": "true",
            "quota-backend-bytes": QUOTA_BYTES,
            "log-level": "warn",
        }
        command = [*binaries.component("etcd"), *(f"--{name}={value}" for name, value in flags.items())]
        self.process = Process("etcd", command, log=directory / "etcd.log")

    def start(self) -> None:
        """Start etcd and wait until it accepts writes."""
        self.process.start()
        self.process.wait_ready(lambda: is_healthy(f"{self.url}/health"))

    def stop(self) -> None:
        """Kill etcd, since its data is not needed any more. The apiserver must have ended before."""
        self.process.kill()
