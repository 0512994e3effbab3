"""A case: a cluster with devices, and pods whose claims are to be allocated, as raw API JSON for both programs."""

from __future__ import annotations

import copy
import json
from dataclasses import dataclass, field
from typing import Any

from tests.parity.devices.gates import DEFAULTS

Object = dict[str, Any]  # an API object as JSON has it

TIMEOUT_MS = 1000  # of the oracle's search for one pod on one node


@dataclass(slots=True)
class DeviceCase:
    """`config` may have "gates", which differ from the release's defaults, and "sequence".

    In a sequence a pod's claims stay allocated on the first node where they can be, for the pods after it.
    `cluster` has nodes, deviceClasses, resourceSlices, deviceTaintRules, and the results of `allocated` claims.
    A pod of `pending` is an object with a list `claims`.
    """

    seed: int
    release: str
    config: Object = field(default_factory=dict)
    cluster: dict[str, list[Object]] = field(default_factory=dict)
    pending: list[Object] = field(default_factory=list)

    @property
    def gates(self) -> dict[str, bool]:
        return {**DEFAULTS[self.release], **self.config.get("gates", {})}

    @property
    def is_sequence(self) -> bool:
        return bool(self.config.get("sequence"))

    def request(self) -> bytes:
        """The line that asks the oracle."""
        return json.dumps(
            {
                "gates": self.gates,
                "sequence": self.is_sequence,
                "timeoutMs": TIMEOUT_MS,
                "cluster": self.cluster,
                "pending": self.pending,
            }
        ).encode()

    def copy(self) -> DeviceCase:
        return copy.deepcopy(self)

    def __str__(self) -> str:
        shown = {"release": self.release, "config": self.config, "cluster": self.cluster, "pending": self.pending}
        return json.dumps(shown, indent=1)
