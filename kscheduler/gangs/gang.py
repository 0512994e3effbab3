"""A gang: pods of which at least a minimum is placed together, or none. One record, whatever API it came by."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import NamedTuple

import msgspec

PLUGIN = "Gangs"  # stands for a plugin in statuses of pods that their gang keeps from having a node
COMPOSITE_API = "compositepodgroups.scheduling.k8s.io"  # apart from PodGroups, which may have equal names


class GangKey(NamedTuple):
    """What identifies a gang: the API group that it came by, and its object's namespace and name."""

    api: str  # such as "scheduling.k8s.io"; of a group of groups COMPOSITE_API
    namespace: str
    name: str

    def __str__(self) -> str:
        """Return `namespace/name`, as texts show it."""
        return f"{self.namespace}/{self.name}"


class Disruption(enum.StrEnum):
    """Which members preemption removes together."""

    SINGLE = "single"
    ALL = "all"


class Topology(msgspec.Struct, frozen=True, gc=False):
    """How near to each other a gang's members are to be, by keys of node labels. At least one is named.

    A domain of a label are the nodes with one value of it, and of each label named here that is further out: so are
    racks of different zones different racks, whatever they are called. Nodes that lack one of these labels are in none.
    """

    required: str = ""  # all members in one domain of it; "" for no such requirement
    preferred: tuple[str, ...] = ()  # all members in one domain of the first, else of the next; the innermost first

    def domain_keys(self, key: str) -> tuple[str, ...]:
        """Return the labels whose values identify a domain of one of the keys, the outermost first."""
        inwards = [*reversed(self.preferred)]
        if self.required and self.required not in inwards:
            inwards.insert(0, self.required)
        return tuple(inwards[: inwards.index(key) + 1])

    def narrower(self) -> tuple[str, ...]:
        """Return the preferred keys that are further in than the required one, in the order in which they are tried."""
        if self.required in self.preferred:
            return self.preferred[: self.preferred.index(self.required)]
        return self.preferred


class Gang(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    key: GangKey
    uid: str  # of its object: another object of the same name is another gang
    min_members: int  # at least 1
    is_basic: bool = False  # its pods need not come together: a group only by name, with a minimum of 1
    priority: int | None = None  # None: that of its members
    preempts: bool | None = None  # may it evict others? None: as its members say
    created: str = ""  # RFC 3339
    generation: int = 0  # of its object, for conditions
    timeout_s: float | None = None  # from the first placed member to the minimum; None: as configured
    min_resources: Mapping[str, int] = {}  # resource -> thousandths that must be free in the cluster before it is tried
    topology: Topology | None = None  # None: its members may be on any nodes
    disruption: Disruption = Disruption.SINGLE
    is_composite: bool = False  # a group of groups, of which its minimum is a number
    parent: str = ""  # the composite group that it belongs to; "" for none

    @property
    def parent_key(self) -> GangKey:
        """The key of the composite group that it belongs to; it must belong to one."""
        return GangKey(COMPOSITE_API, self.key.namespace, self.parent)
