"""The extension points of the scheduling framework, and those that each in-tree plugin of kube-scheduler implements.

The tables have all in-tree plugins of kube-scheduler, whether implemented here or not, so that a configuration that
names one is validated as by kube-scheduler. Which table counts depends on the release (`Release.points`).
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final


class ExtensionPoint(enum.StrEnum):
    """An extension point; the values are the keys of `plugins` in the configuration file."""

    PRE_ENQUEUE = "preEnqueue"
    QUEUE_SORT = "queueSort"
    PRE_FILTER = "preFilter"
    FILTER = "filter"
    POST_FILTER = "postFilter"
    PRE_SCORE = "preScore"
    SCORE = "score"
    RESERVE = "reserve"
    PERMIT = "permit"
    PRE_BIND = "preBind"
    BIND = "bind"
    POST_BIND = "postBind"
    PLACEMENT_GENERATE = "placementGenerate"
    PLACEMENT_SCORE = "placementScore"
    POD_GROUP_POST_FILTER = "podGroupPostFilter"

    __str__ = str.__str__

    @property
    def label(self) -> str:
        """The value of the metric label `extension_point`, such as "PreFilter"."""
        return self.value[0].upper() + self.value[1:]

    @property
    def interface(self) -> str:
        """The name of the Go interface in kube-scheduler's messages, such as "PreFilterPlugin"."""
        return f"{self.label}Plugin"

    @property
    def field(self) -> str:
        """The name of the attribute of `types.Plugins`, such as "pre_filter"."""
        return self.name.lower()


# The order in which kube-scheduler fills the points; it decides which of several faults is reported.
CONSTRUCTION_ORDER: tuple[ExtensionPoint, ...] = (
    ExtensionPoint.PRE_FILTER,
    ExtensionPoint.FILTER,
    ExtensionPoint.POST_FILTER,
    ExtensionPoint.RESERVE,
    ExtensionPoint.PRE_SCORE,
    ExtensionPoint.SCORE,
    ExtensionPoint.PRE_BIND,
    ExtensionPoint.BIND,
    ExtensionPoint.POST_BIND,
    ExtensionPoint.PERMIT,
    ExtensionPoint.PRE_ENQUEUE,
    ExtensionPoint.QUEUE_SORT,
    ExtensionPoint.PLACEMENT_GENERATE,
    ExtensionPoint.PLACEMENT_SCORE,
    ExtensionPoint.POD_GROUP_POST_FILTER,
)

PointMap = Mapping[str, frozenset[ExtensionPoint]]  # plugin name -> the points it answers


def _points(keys: str) -> frozenset[ExtensionPoint]:
    return frozenset(ExtensionPoint(key) for key in keys.split())


POINTS_1_36: Final = tuple(point for point in ExtensionPoint if point is not ExtensionPoint.POD_GROUP_POST_FILTER)
POINTS_1_37: Final = tuple(ExtensionPoint)

PLUGINS_1_36: PointMap = {
    "SchedulingGates": _points("preEnqueue"),
    "PrioritySort": _points("queueSort"),
    "NodeUnschedulable": _points("filter"),
    "NodeName": _points("filter"),
    "TaintToleration": _points("filter preScore score"),
    "NodeAffinity": _points("preFilter filter preScore score"),
    "NodePorts": _points("preFilter filter"),
    "NodeResourcesFit": _points("preFilter filter preScore score placementScore"),
    "VolumeRestrictions": _points("preFilter filter"),
    "NodeVolumeLimits": _points("preFilter filter"),
    "VolumeBinding": _points("preFilter filter preScore score reserve preBind"),
    "VolumeZone": _points("preFilter filter"),
    "PodTopologySpread": _points("preFilter filter preScore score"),
    "InterPodAffinity": _points("preFilter filter preScore score"),
    "DynamicResources": _points("preEnqueue preFilter filter postFilter score reserve preBind"),
    "DefaultPreemption": _points("preEnqueue postFilter"),
    "NodeResourcesBalancedAllocation": _points("preScore score"),
    "ImageLocality": _points("score"),
    "DefaultBinder": _points("bind"),
    "NodeDeclaredFeatures": _points("preFilter filter"),
    # Behind feature gates that are off by default, hence not in the default list.
    "GangScheduling": _points("preEnqueue permit"),
    "TopologyPlacementGenerator": _points("placementGenerate"),
    "PodGroupPodsCount": _points("placementScore"),
}
PLUGINS_1_37: PointMap = {
    **PLUGINS_1_36,
    "NodeName": _points("preFilter filter"),
    "NodeUnschedulable": _points("preFilter filter"),
    "TaintToleration": _points("preFilter filter preScore score"),
    "DynamicResources": PLUGINS_1_36["DynamicResources"] | _points("podGroupPostFilter"),
    "DefaultPreemption": PLUGINS_1_36["DefaultPreemption"] | _points("podGroupPostFilter"),
    "DeferredPodScheduling": _points("preFilter filter permit"),  # behind a gate that is off by default
}

KUBE_PLUGINS = PLUGINS_1_36  # of the default release

# Plugins that are part of this program and not of kube-scheduler: in no profile unless it names them.
OWN_PLUGINS: PointMap = MappingProxyType(
    {
        "CapacityScheduling": _points("preFilter postFilter reserve"),  # as in scheduler-plugins
        "Coscheduling": _points("queueSort preFilter postFilter permit reserve"),  # as scheduler-plugins has it
        "MetricPolicy": _points("preFilter filter postFilter preScore score"),
        "Queues": _points("preFilter postFilter"),
        "TargetLoadPacking": _points("score"),
        "LoadVariationRiskBalancing": _points("score"),
    }
)
KNOWN_PLUGINS: PointMap = MappingProxyType({**PLUGINS_1_37, **OWN_PLUGINS})  # the names that are taken in any release
