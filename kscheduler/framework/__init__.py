"""The scheduling framework: extension points, and the plugins that implement them. It does no I/O and reads no clock.

What a plugin author needs is exported here, and stays compatible:

* what a plugin is given: `PodInfo` and `NodeInfo` (read only; `.pod` and `.node` are the API objects), `CycleState`
  to remember something from one extension point to the next, and a `Handle` at construction;
* what a plugin returns: None for success, or a `Status` made with `unschedulable`, `unresolvable`, `error_status`, or
  SKIP;
* the extension points, as Protocols: a plugin need not inherit from them, having the method is enough;
* `PluginArgs`, the base class of the arguments that a plugin takes from the configuration file;
* `ClusterEvent`, `EventResource`, `Action`, `Registration`, `Grouping`: to register for the cluster events that may
  make a pod schedulable that the plugin rejected.

The table forms (`TableFilterPlugin`, `TableScorePlugin`, `TableNormalizeScore`) answer for all nodes in one call, on
`NodeTable`, `Verdicts` and `Scores`; they are worth their trouble only where a loop over nodes costs too much.
`SigningPlugin` and `CompilingPlugin`, with `ClassDraft` and `Source`, let a plugin take part in the compiled lane, in
which many pods are decided in one call.
"""

from __future__ import annotations

from kscheduler._fast import Scores, Verdicts
from kscheduler.framework.class_draft import ClassDraft, Source
from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.events import Action, ClusterEvent, EventResource, Grouping, QueueingHint, Registration
from kscheduler.framework.interface import (
    MAX_NODE_SCORE,
    MIN_NODE_SCORE,
    BindPlugin,
    CompilingPlugin,
    EnqueueExtensions,
    FilterPlugin,
    Handle,
    NormalizeScore,
    PermitPlugin,
    PermitWait,
    PermitWaits,
    Plugin,
    PostBindPlugin,
    PostFilterPlugin,
    PostFilterResult,
    PreBindPlugin,
    PreEnqueuePlugin,
    PreFilterExtensions,
    PreFilterPlugin,
    PreFilterResult,
    PreScorePlugin,
    ProfileHandle,
    QueueSortPlugin,
    ReservePlugin,
    ScorePlugin,
    SigningPlugin,
    TableFilterPlugin,
    TableNormalizeScore,
    TableScorePlugin,
    WhatIf,
)
from kscheduler.framework.nominations import Nominations
from kscheduler.framework.normalize import default_normalize
from kscheduler.framework.out_of_tree import PluginArgs
from kscheduler.framework.status import SKIP, Code, Status, error_status, unresolvable, unschedulable
from kscheduler.snapshot.node_info import NodeInfo
from kscheduler.snapshot.node_table import NodeTable
from kscheduler.snapshot.pod_info import PodInfo

__all__ = [
    "MAX_NODE_SCORE",
    "MIN_NODE_SCORE",
    "SKIP",
    "Action",
    "BindPlugin",
    "ClassDraft",
    "ClusterEvent",
    "Code",
    "CompilingPlugin",
    "CycleState",
    "EnqueueExtensions",
    "EventResource",
    "FilterPlugin",
    "Grouping",
    "Handle",
    "NodeInfo",
    "NodeTable",
    "Nominations",
    "NormalizeScore",
    "PermitPlugin",
    "PermitWait",
    "PermitWaits",
    "Plugin",
    "PluginArgs",
    "PodInfo",
    "PostBindPlugin",
    "PostFilterPlugin",
    "PostFilterResult",
    "PreBindPlugin",
    "PreEnqueuePlugin",
    "PreFilterExtensions",
    "PreFilterPlugin",
    "PreFilterResult",
    "PreScorePlugin",
    "ProfileHandle",
    "QueueSortPlugin",
    "QueueingHint",
    "Registration",
    "ReservePlugin",
    "ScorePlugin",
    "Scores",
    "SigningPlugin",
    "Source",
    "Status",
    "TableFilterPlugin",
    "TableNormalizeScore",
    "TableScorePlugin",
    "Verdicts",
    "WhatIf",
    "default_normalize",
    "error_status",
    "unresolvable",
    "unschedulable",
]
