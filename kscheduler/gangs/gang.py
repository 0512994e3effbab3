"""A gang: pods of which at least a minimum is placed together, or none. One record, whatever API it came by."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import NamedTuple

import msgspec


class GangKey(NamedTuple):
    """What identifies a gang: the API group that it came by, and its object's namespace and name."""

    api: str  # such as "scheduling.k8s.io"
    namespace: str
    name: str

    def __str__(self) -> str:
        """Return `namespace/name`, as texts show it."""
        return f"{self.namespace}/{self.name}"


class Disruption(enum.StrEnum):
    """Which members preemption removes together."""

    SINGLE = "single"
    ALL = "all"


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
    topology_key: str = ""  # a node label: all members on nodes with one value of it; "" for none
    disruption: Disruption = Disruption.SINGLE
    parent: str = ""  # the composite group that it belongs to; "" for none
