"""Decodes the cluster events that guests register: resource numbers and action bits, in the order of Kubernetes 1.33.

A guest's SDK may be older than an action: a guest that registers for all updates it knows gets the newer ones, too.
"""

from __future__ import annotations

import logging
import struct

from kscheduler.framework.events import Action, ClusterEvent, EventResource

log = logging.getLogger(__name__)

_RESOURCES: tuple[EventResource | str, ...] = (  # by number
    EventResource.POD,
    EventResource.NODE,
    EventResource.PERSISTENT_VOLUME,
    EventResource.PERSISTENT_VOLUME_CLAIM,
    "PodSchedulingContext",  # removed in Kubernetes 1.32, so there are no events of it
    EventResource.RESOURCE_CLAIM,
    EventResource.STORAGE_CLASS,
    EventResource.CSI_NODE,
    EventResource.CSI_DRIVER,
    EventResource.CSI_STORAGE_CAPACITY,
    EventResource.WILDCARD,
)
_ACTIONS = (  # by bit
    Action.ADD,
    Action.DELETE,
    Action.UPDATE_NODE_ALLOCATABLE,
    Action.UPDATE_NODE_LABEL,
    Action.UPDATE_NODE_TAINT,
    Action.UPDATE_NODE_CONDITION,
    Action.UPDATE_NODE_ANNOTATION,
    Action.UPDATE_POD_LABEL,
    Action.UPDATE_POD_SCALE_DOWN,
    Action.UPDATE_POD_TOLERATION,
    Action.UPDATE_POD_SCHEDULING_GATES_ELIMINATED,
    Action.UPDATE_POD_GENERATED_RESOURCE_CLAIM,
    Action.UPDATE_POD_OTHER,
)
_ALL_UPDATES = 4 | 8 | 16 | 32  # all update actions that the SDK knows

# Events of a guest that registers none.
DEFAULT_EVENTS = tuple(
    ClusterEvent(resource, Action.ALL)
    for resource in (
        EventResource.POD,
        EventResource.NODE,
        EventResource.CSI_NODE,
        EventResource.PERSISTENT_VOLUME,
        EventResource.PERSISTENT_VOLUME_CLAIM,
        EventResource.STORAGE_CLASS,
    )
)


def read_events(data: bytes, plugin: str) -> tuple[ClusterEvent, ...]:
    """Decode events of eight bytes each; fewer bytes at the end are ignored.

    Returns DEFAULT_EVENTS if there are none.
    """
    whole = len(data) // 8 * 8
    if not whole:
        return DEFAULT_EVENTS
    found: list[ClusterEvent] = []
    for number, bits in struct.iter_unpack("<II", data[:whole]):
        action = read_action(bits)
        if number < len(_RESOURCES) and action:
            found.append(ClusterEvent(_RESOURCES[number], action))
        else:
            log.warning(
                "guest registers for an unknown event",
                extra={"plugin": plugin, "resource": number, "actions": bits},
            )
    return tuple(dict.fromkeys(found))


def read_action(bits: int) -> Action:
    """Return the action that the guest's bits stand for. Unknown bits are ignored."""
    action = Action(0)
    for place, single in enumerate(_ACTIONS):
        if bits >> place & 1:
            action |= single
    return action | Action.UPDATE if bits & _ALL_UPDATES == _ALL_UPDATES else action
