"""The schedulers of a campaign, each behind a fault proxy of its own and with a wall clock that can jump.

One that ends is started again, as a kubelet would.
"""

from __future__ import annotations

import signal
import struct
import subprocess
import threading
import time
from dataclasses import dataclass
from pathlib import Path

from kscheduler.testing.controlplane import ControlPlane
from kscheduler.testing.controlplane.faults import MissingTool
from kscheduler.testing.controlplane.kscheduler import KScheduler
from tests.support.faultproxy import FaultProxy

RESTART_AFTER_S = 0.5
POLL_S = 0.02
CLUSTER_ROLE_BINDINGS = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings"
LEASE_NAME = "kscheduler"
BY_DESIGN = ("not renewed within", "the lease is lost", "lost the lease", "leader election lost")


@dataclass(frozen=True, slots=True)
class End:
    """How a process ended."""

    at_unix_s: float
    replica: int
    exit_code: int
    is_by_design: bool
    log: str  # its last lines


class Replica:
    """One scheduler process, and what restarts it."""

    def __init__(
        self, control_plane: ControlPlane, proxy: FaultProxy, number: int, lease_s: float, clock: Path
    ) -> None:
        self.number = number
        self.proxy = proxy
        self.user = f"replica-{number}"
        self.ends: list[End] = []
        self.woken_unix_s: list[float] = []
        self._expected: int | None = None  # the exit code that the campaign has just brought about
        self._ending = threading.Event()
        self._log_seen = 0
        self._clock = control_plane.directory / f"{self.user}.clock"
        self.set_clock(0)
        token = control_plane.service_account_token("kube-system", self.user, expiration_s=7200)
        _make_admin(control_plane, self.user)
        self.scheduler = KScheduler(
            control_plane,
            name=self.user,
            kubeconfig=proxy.kubeconfig(control_plane.directory / f"{self.user}.kubeconfig", token),
            leader_elect=True,
            lease={
                "leaseDuration": f"{lease_s:g}s",
                "renewDeadline": f"{lease_s * 2 / 3:.3f}s",
                "retryPeriod": f"{lease_s / 6:.3f}s",
                "resourceName": LEASE_NAME,
                "resourceNamespace": "kube-system",
            },
            environment={"LD_PRELOAD": str(clock), "CAMPAIGN_CLOCK": str(self._clock)},
            wait=False,
        )
        self._keeper = threading.Thread(target=self._keep, name=self.user, daemon=True)
        self._keeper.start()

    def set_clock(self, offset_s: int) -> None:
        """Put its wall clock off by so much, at once."""
        if not self._clock.exists():
            self._clock.write_bytes(struct.pack("q", 0))
        with self._clock.open("r+b") as file:
            file.write(struct.pack("q", offset_s))

    def kill(self) -> None:
        """kill -9."""
        self._expected = -signal.SIGKILL
        self.scheduler.process.signal(signal.SIGKILL)

    def terminate(self) -> None:
        """SIGTERM."""
        self._expected = 0
        self.scheduler.process.signal(signal.SIGTERM)

    def stop(self) -> None:
        """SIGSTOP."""
        self.scheduler.process.signal(signal.SIGSTOP)

    def go_on(self) -> None:
        """SIGCONT."""
        self.scheduler.process.signal(signal.SIGCONT)
        self.woken_unix_s.append(time.time())

    def end(self) -> None:
        """SIGTERM for good; its end is judged like any other."""
        self._ending.set()
        self._keeper.join()
        if self.scheduler.process.is_running:
            self.go_on()
            self._expected = 0
            self.scheduler.process.stop(grace_s=60.0)
            self._note_end()

    def _keep(self) -> None:
        while not self._ending.wait(POLL_S):
            if self.scheduler.process.exit_code is not None:
                self._note_end()
                if not self._ending.wait(RESTART_AFTER_S):
                    self.scheduler.process.start()

    def _note_end(self) -> None:
        code, expected, self._expected = self.scheduler.process.exit_code, self._expected, None
        text = self.scheduler.process.log_text()
        fresh, self._log_seen = text[self._log_seen :], len(text)
        assert code is not None
        # SIGTERM ends a process that has not come to its signal handlers in the ordinary way.
        is_expected = code == expected or (expected == 0 and code == -signal.SIGTERM)
        is_by_design = is_expected or (code == 1 and any(words in fresh for words in BY_DESIGN))
        self.ends.append(End(time.time(), self.number, code, is_by_design, fresh[-3000:]))


def build_clock(directory: Path) -> Path:
    """Compile the library that puts a process' wall clock off."""
    target = directory / "clock.so"
    source = Path(__file__).with_name("clock.c")
    try:
        subprocess.run(["cc", "-O1", "-shared", "-fPIC", "-o", str(target), str(source)], check=True)
    except FileNotFoundError:
        raise MissingTool("'cc' is not on PATH") from None
    return target


def _make_admin(control_plane: ControlPlane, account: str) -> None:
    control_plane.api.create(
        CLUSTER_ROLE_BINDINGS,
        {
            "metadata": {"name": f"campaign-{account}"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
            "subjects": [{"kind": "ServiceAccount", "namespace": "kube-system", "name": account}],
        },
    )
