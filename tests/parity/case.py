"""A case: a configuration, a cluster and pods to decide about, as raw API JSON that both programs are given."""

from __future__ import annotations

import copy
import json
from dataclasses import dataclass, field
from typing import Any

from kscheduler.testing.controlplane.binaries import DEFAULT_RELEASE

Object = dict[str, Any]  # an API object as JSON has it

EVALUATE = "evaluate"  # every pending pod against the same cluster
SEQUENCE = "sequence"  # each pod that fits stays on the node the oracle chose, for those after it


@dataclass(slots=True)
class Case:
    seed: int
    mode: str
    config: Object
    cluster: dict[str, list[Object]] = field(default_factory=dict)  # "nodes", "pods", ... -> objects
    pending: list[Object] = field(default_factory=list)
    release: str = DEFAULT_RELEASE  # of Kubernetes, which both programs are asked as
    more_gates: tuple[str, ...] = field(default=(), kw_only=True)  # that are on beside those of the release

    def request(self) -> bytes:
        """The line that asks the oracle."""
        return json.dumps(
            {"mode": self.mode, "config": json.dumps(self.config), "cluster": self.cluster, "pending": self.pending}
        ).encode()

    @property
    def is_sampled(self) -> bool:
        """Does a search end before all nodes have been looked at?"""
        percentages = [self.config["percentageOfNodesToScore"]]
        percentages += [profile.get("percentageOfNodesToScore", 100) for profile in self.config.get("profiles", ())]
        return any(percentage != 100 for percentage in percentages)

    def copy(self) -> Case:
        return copy.deepcopy(self)

    def __str__(self) -> str:
        shown = {
            "release": self.release,
            "mode": self.mode,
            "config": self.config,
            "cluster": self.cluster,
            "pending": self.pending,
        }
        return json.dumps(shown, indent=1)
