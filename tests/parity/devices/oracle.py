"""The oracle of devices: kube-scheduler's own allocator, asked about every pod and node of a case."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from tests.parity.devices.case import DeviceCase
from tests.parity.oracle_process import OracleProcess

ABORTED = "filter operation aborted"  # how the failure of a search begins that took too long


class Decision(msgspec.Struct, rename="camel"):
    """What becomes of a pod's claims on a node; one of the first four fields is set."""

    results: list[dict[str, Any]] | None = None  # an allocation for each claim, as JSON
    no_solution: bool = False
    failure: str = ""
    panic: str = ""  # upstream's own fault
    is_fatal: bool = False  # the failure ends the pod's cycle; else the node is left out
    steps: int = 0  # calls of the search's innermost function

    @property
    def verdict(self) -> str:
        if self.results is not None:
            return "allocated"
        if self.no_solution:
            return "no solution"
        return "panic" if self.panic else "failed" if self.is_fatal else "node failed"


class DeviceAnswer(msgspec.Struct):
    error: str = ""
    pods: list[list[Decision]] = []  # for each pending pod, one for each node


class DeviceOracle(OracleProcess[DeviceCase, DeviceAnswer]):
    """`binary` is the built command `device-oracle` of the control plane's Go module, of the cases' release."""

    def __init__(self, binary: Path) -> None:
        super().__init__(binary, DeviceAnswer)
