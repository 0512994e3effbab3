"""What the apiserver adds to a pod when it is created, made once for all pods that share a spec."""

from __future__ import annotations

from msgspec.structs import replace

from kscheduler.api.defaults import with_defaults
from kscheduler.api.objects import Pod, PodCondition, PodSpec

MAX_SPECS = 4096
GATED_MESSAGE = "Scheduling is blocked due to non-empty scheduling gates"


class PodDefaults:
    """Generated and traced pods share few specs; then creating one costs a look-up instead of a rebuilt tree."""

    def __init__(self) -> None:
        self._specs: dict[int, tuple[PodSpec, PodSpec]] = {}  # id(spec) -> that spec, kept alive, and with defaults

    def apply(self, pod: Pod) -> Pod:
        """The pod as stored. DecodeError for quantities that are needed and cannot be read."""
        metadata = pod.metadata
        if not metadata.namespace:
            metadata = replace(metadata, namespace="default")
        status = pod.status
        if pod.spec.scheduling_gates and not status.conditions:
            gated = PodCondition("PodScheduled", "False", "SchedulingGated", GATED_MESSAGE)
            status = replace(status, conditions=[gated])
        return Pod(metadata, self._spec(pod), status)

    def _spec(self, pod: Pod) -> PodSpec:
        known = self._specs.get(id(pod.spec))
        if known is not None:
            return known[1]
        spec = with_defaults(pod).spec
        if len(self._specs) >= MAX_SPECS:
            self._specs.clear()
        self._specs[id(pod.spec)] = (pod.spec, spec)
        return spec
