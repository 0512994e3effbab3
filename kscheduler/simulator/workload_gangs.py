"""The gangs of generated pods: PodGroups of Coscheduling, and when their members arrive."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from kscheduler.api.objects import ObjectMeta
from kscheduler.api.pod_groups import (
    TOPOLOGY_PREFERRED,
    TOPOLOGY_REQUIRED,
    CoschedulingPodGroup,
    CoschedulingPodGroupSpec,
)

MAX_MEMBERS = 10_000


@dataclass(frozen=True, slots=True)
class GangShape:
    """Makes each arrival of a pod shape a whole gang."""

    size: int
    minimum: int  # members that are placed together, or none
    within_s: float = 0.0  # from the first member's arrival to the last one's, at equal distances
    required: str = ""  # a node label: all members on nodes with one value of it
    preferred: Sequence[str] = ()  # likewise, if it can be had; the innermost first

    def times(self, at_s: float) -> Iterator[float]:
        """Yield when each member arrives, if the first one does at `at_s`."""
        for member in range(self.size):
            yield at_s + self.within_s * member / max(self.size - 1, 1)

    def pod_group(self, namespace: str, name: str) -> CoschedulingPodGroup:
        asked = {TOPOLOGY_REQUIRED: self.required, TOPOLOGY_PREFERRED: ",".join(self.preferred)}
        annotations = {key: value for key, value in asked.items() if value} or None
        metadata = ObjectMeta(name=name, namespace=namespace, annotations=annotations)
        return CoschedulingPodGroup(metadata, CoschedulingPodGroupSpec(self.minimum))
