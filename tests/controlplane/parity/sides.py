"""The two schedulers of a comparison, with the same configuration on the same control plane, one played to at a time.

Both run from their first play on. They share no pods, since the profiles of each have names of their own: a scenario
says `packing`, one side calls it `kube.packing`, the other `ours.packing`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from kscheduler.testing.controlplane.cluster import ControlPlane
from kscheduler.testing.controlplane.kscheduler import KScheduler
from kscheduler.testing.controlplane.kubescheduler import KubeScheduler
from kscheduler.testing.controlplane.scheduler_process import SchedulerProcess


@dataclass(frozen=True, slots=True)
class Side:
    """One scheduler, as scenarios address it."""

    name: str
    start: Callable[..., SchedulerProcess]

    def scheduler_name(self, profile: str) -> str:
        """What this side calls a profile of the scenarios."""
        return f"{self.name}.{profile}"

    def profile_name(self, scheduler_name: str) -> str | None:
        """The profile of that name; None when it is not of this side."""
        side, _, profile = scheduler_name.partition(".")
        return profile if side == self.name else None

    def run(self, control_plane: ControlPlane, gates: Sequence[str] = ()) -> SchedulerProcess:
        """Start it with all profiles. `gates`: feature gates to be switched on."""
        return self.start(
            control_plane,
            configuration=configuration(self),
            name=f"{self.name}-parity",
            extra_flags=tuple(f"--feature-gates={gate}=true" for gate in gates),
        )


THEIRS = Side("kube", KubeScheduler)
OURS = Side("ours", KScheduler)

# Profile -> arguments of its plugins, and what it enables and disables.
PROFILES: dict[str, dict[str, Any]] = {
    "default": {},
    "packing": {
        "pluginConfig": [
            {
                "name": "NodeResourcesFit",
                "args": {
                    "scoringStrategy": {
                        "type": "MostAllocated",
                        "resources": [{"name": "cpu", "weight": 1}, {"name": "memory", "weight": 1}],
                    }
                },
            }
        ],
        "plugins": {"score": {"disabled": [{"name": "NodeResourcesBalancedAllocation"}]}},
    },
    "ratio": {
        "pluginConfig": [
            {
                "name": "NodeResourcesFit",
                "args": {
                    "scoringStrategy": {
                        "type": "RequestedToCapacityRatio",
                        "resources": [{"name": "example.com/gpu", "weight": 5}, {"name": "cpu", "weight": 1}],
                        "requestedToCapacityRatio": {
                            "shape": [{"utilization": 0, "score": 0}, {"utilization": 100, "score": 10}]
                        },
                    }
                },
            }
        ],
    },
    "added-affinity": {
        "pluginConfig": [
            {
                "name": "NodeAffinity",
                "args": {
                    "addedAffinity": {
                        "requiredDuringSchedulingIgnoredDuringExecution": {
                            "nodeSelectorTerms": [
                                {"matchExpressions": [{"key": "pool", "operator": "In", "values": ["blue"]}]}
                            ]
                        }
                    }
                },
            }
        ],
    },
    "own-constraints": {
        "pluginConfig": [
            {
                "name": "PodTopologySpread",
                "args": {
                    "defaultingType": "List",
                    "defaultConstraints": [
                        {
                            "maxSkew": 1,
                            "topologyKey": "topology.kubernetes.io/zone",
                            "whenUnsatisfiable": "DoNotSchedule",
                        }
                    ],
                },
            }
        ],
    },
    "blind-to-taints": {"plugins": {"multiPoint": {"disabled": [{"name": "TaintToleration"}]}}},
    "impatient": {"pluginConfig": [{"name": "DynamicResources", "args": {"bindingTimeout": "2s"}}]},
    "heeds-needs": {"pluginConfig": [{"name": "InterPodAffinity", "args": {"hardPodAffinityWeight": 100}}]},
    "ignores-preferences": {
        "pluginConfig": [{"name": "InterPodAffinity", "args": {"ignorePreferredTermsOfExistingPods": True}}],
    },
}


def configuration(side: Side) -> dict[str, Any]:
    """The fields of KubeSchedulerConfiguration that are not the harness's. The shortest backoff there is."""
    profiles = [{"schedulerName": side.scheduler_name(name), **made} for name, made in PROFILES.items()]
    return {"profiles": profiles, "podInitialBackoffSeconds": 1, "podMaxBackoffSeconds": 1}
