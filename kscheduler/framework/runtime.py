"""One profile: runs its plugins at each extension point before and after the search for a node.

The search itself (PreFilter to selection) is in `algorithm`. No clock is read but the given stopwatch. PreBind and Bind
are awaited, since they write to the apiserver.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from operator import attrgetter
from typing import cast

from kscheduler.api.objects import PodSpec
from kscheduler.framework.algorithm import Algorithm
from kscheduler.framework.class_compiler import ClassCompiler
from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.demands import Demands
from kscheduler.framework.events import Action, ClusterEvent, EventResource, Registration
from kscheduler.framework.faults import no_pre_flight, raised, running, unsuccessful
from kscheduler.framework.interface import (
    EXTENSION_POINTS,
    BindPlugin,
    CompletingPlugin,
    DemandingFilterPlugin,
    DirectBindPlugin,
    EnqueueExtensions,
    FilterPlugin,
    HandingOverPlugin,
    Handle,
    PermitPlugin,
    Plugin,
    PostBindPlugin,
    PostFilterPlugin,
    PreBindPlugin,
    PreEnqueuePlugin,
    PreFilterPlugin,
    PreScorePlugin,
    QueueSortPlugin,
    ReservePlugin,
    ScorePlugin,
    SelectivePlugin,
)
from kscheduler.framework.node_filters import NodeFilters, NodeWhatIf
from kscheduler.framework.search_outcomes import Decision, Rejection
from kscheduler.framework.search_plugins import SearchPlugins
from kscheduler.framework.status import SKIP, STATUS_LABELS, Code, Status, code_of, error_status
from kscheduler.observability.measurements import Measurements
from kscheduler.snapshot.pod_info import PodInfo

# A plugin at one of these can make a pod wait, and should register the events that may help it.
REJECTING_POINTS = ("preEnqueue", "preFilter", "filter", "reserve", "permit")
MAX_SPECS = 1_024  # of which a profile knows that plugins have no work after the decision
MAX_PERMIT_WAIT_S = 15 * 60.0  # kube-scheduler's cap on a Permit plugin's timeout


class _Gate:
    """A PreEnqueue plugin, and about which pods it need not be asked."""

    __slots__ = ("field", "only", "plugin", "reads_spec")

    def __init__(self, plugin: PreEnqueuePlugin) -> None:
        self.plugin = plugin
        self.reads_spec: bool = getattr(plugin, "gates_by_spec", False)
        self.only: Container[str] | None = getattr(plugin, "may_gate", None)
        named: str | None = getattr(plugin, "gates_with", None)
        self.field = None if named is None else attrgetter(named)


def _ignore(plugin: Plugin) -> None:
    """Do nothing."""


def _fields_of(plugin: SelectivePlugin) -> Callable[[PodInfo], Iterable[object]] | None:
    """Return a function, which is no call of ours, for the values of the fields by which a pod can concern a plugin."""
    named: tuple[str, ...] | None = getattr(plugin, "concerned_by", None)
    if named is None:
        return None
    return attrgetter(*named, named[0])  # of two fields at least, so that they come as a tuple


class Framework:
    """One profile with its plugins, ready to schedule pods.

    `plugins` maps an extension point to its plugins in order, with weights (used at Score only).
    `percentage_of_nodes_to_score` 0 means all nodes, a deliberate difference from kube-scheduler, which then samples.
    `first_on_tie`: among equal scores take the first row, instead of one drawn at random from the handle's generator.
    """

    def __init__(
        self,
        profile: str,
        plugins: Mapping[str, Sequence[tuple[Plugin, int]]],
        handle: Handle,
        *,
        observer: Measurements,
        stopwatch: Callable[[], float],
        percentage_of_nodes_to_score: int = 0,
        first_on_tie: bool = False,
    ) -> None:
        self.profile = profile

        def at(point: str) -> list[Plugin]:
            return [plugin for plugin, _ in plugins.get(point, ())]

        self._gates = [_Gate(cast(PreEnqueuePlugin, plugin)) for plugin in at("preEnqueue")]
        self._open_spec: PodSpec | None = None  # the last one that no plugin gates which looks at the spec alone
        self._queue_sort = cast(list[QueueSortPlugin], at("queueSort"))
        self._reserve = cast(list[ReservePlugin], at("reserve"))
        self._permit = cast(list[PermitPlugin], at("permit"))
        self._pre_bind = cast(list[PreBindPlugin], at("preBind"))
        self._bind = cast(list[BindPlugin], at("bind"))
        self._post_bind = cast(list[PostBindPlugin], at("postBind"))
        after: list[Plugin] = [*self._reserve, *self._permit, *self._pre_bind, *self._post_bind]
        # Plugins that can state for which pods they have work after the decision: VolumeBinding and DynamicResources.
        selective = {plugin.name: plugin for plugin in after if isinstance(plugin, SelectivePlugin)}
        self._selective = [(plugin.concerns, _fields_of(plugin)) for plugin in selective.values()]
        fields = {plugin.name: _fields_of(plugin) for plugin in selective.values()}
        self._reserve_if = [(plugin, fields.get(plugin.name)) for plugin in self._reserve]
        self._pre_bind_if = [(plugin, fields.get(plugin.name)) for plugin in self._pre_bind]
        # Is the first Bind plugin one whose binding the scheduler may write without calling it?
        self.binds_by_default = bool(self._bind) and isinstance(self._bind[0], DirectBindPlugin)
        self._may_only_bind = self.binds_by_default and all(plugin.name in selective for plugin in after)
        # id of a spec -> this spec, so that the id means no other, of pods in which `_selective` need not be asked.
        self._specs_that_only_bind: dict[int, PodSpec] = {}
        self.completing: CompletingPlugin | None = next(
            (each for each in self._reserve if isinstance(each, CompletingPlugin) and each.completes_pods), None
        )
        self._handing_over = [plugin for plugin in at("preFilter") if isinstance(plugin, HandingOverPlugin)]
        self.pre_filters = tuple(plugin.name for plugin in at("preFilter"))
        self.filters = tuple(plugin.name for plugin in at("filter"))
        self.post_filters = tuple(plugin.name for plugin in at("postFilter"))
        self._all = {plugin.name: plugin for entries in plugins.values() for plugin, _ in entries}
        self._table = handle.table
        searching = SearchPlugins(
            cast(list[PreFilterPlugin], at("preFilter")),
            cast(list[FilterPlugin], at("filter")),
            cast(list[PreScorePlugin], at("preScore")),
            [(cast(ScorePlugin, plugin), weight or 1) for plugin, weight in plugins.get("score", ())],
        )
        self._node_filters = NodeFilters(handle.table, handle.nominations, searching.pre_filter, searching.filters)
        self.algorithm = Algorithm(
            profile,
            handle,
            observer,
            stopwatch,
            plugins=searching,
            node_filters=self._node_filters,
            post_filter=cast(list[PostFilterPlugin], at("postFilter")),
            percentage_of_nodes_to_score=percentage_of_nodes_to_score,
            first_on_tie=first_on_tie,
        )
        self.first_on_tie = first_on_tie
        self._points, self._stopwatch = observer.points, stopwatch
        self.class_compiler = ClassCompiler(profile, handle.table, observer, searching)

    def plugin(self, name: str) -> Plugin | None:
        """Return the plugin with this name, if the profile has it at an extension point."""
        return self._all.get(name)

    # --- called by the queue ---

    @property
    def sort_key(self) -> Callable[[int, float], tuple[float, ...]]:
        """The sort key function, (priority, timestamp) -> key, of the profile's QueueSort plugin."""
        return self._queue_sort[0].sort_key

    def run_pre_enqueue(self, pod: PodInfo) -> Status | None:
        """Return None if the pod may be queued, or the status of the first PreEnqueue plugin that gates it."""
        spec, uid = pod.pod.spec, pod.uid
        for gate in self._gates:
            if gate.reads_spec:
                if spec is self._open_spec:
                    continue
            elif (gate.only is not None and uid not in gate.only) or (gate.field is not None and not gate.field(spec)):
                continue
            plugin = gate.plugin
            try:
                status = plugin.pre_enqueue(pod)
                if status is None:
                    continue
                code = code_of(status)
            except Exception as error:
                return raised(plugin, "PreEnqueue", error)
            if code is not Code.SUCCESS:
                return status if status.plugin else status.of(plugin.name)
        self._open_spec = spec
        return None

    def events_by_plugin(self) -> dict[str, Sequence[ClusterEvent | Registration]]:
        """Return plugin name -> registered events; a plugin that can reject but registers none gets the wildcard."""
        events: dict[str, Sequence[ClusterEvent | Registration]] = {}
        for name, plugin in self._all.items():
            if isinstance(plugin, EnqueueExtensions):
                events[name] = plugin.events_to_register()
            elif any(hasattr(plugin, EXTENSION_POINTS[point]) for point in REJECTING_POINTS):
                events[name] = (ClusterEvent(EventResource.WILDCARD, Action.ALL),)
        return events

    # --- the scheduling cycle ---

    @property
    def hands_over(self) -> bool:
        """True if some plugin of the profile may hand pods over to another profile's plugins."""
        return bool(self._handing_over)

    def decider_of(self, pod: PodInfo) -> str:
        """Return the scheduler name of the profile whose plugins decide about the pod, usually its own profile."""
        for plugin in self._handing_over:
            try:
                name = plugin.hand_over(pod)
            except Exception:
                continue  # the plugin's PreFilter reports the fault
            if name:
                return name
        return self.profile

    def schedule_pod(self, state: CycleState, pod: PodInfo) -> Decision | Rejection:
        """Search for a node for the pod: Filter, Score, select; see `Algorithm.schedule_pod`."""
        return self.algorithm.schedule_pod(state, pod)

    def what_if(self, state: CycleState, pod: PodInfo, node_name: str) -> NodeWhatIf:
        """Return a copy of the node for PostFilter plugins to try evictions on. Raises KeyError without such a node."""
        node = self._table.get(node_name)
        if node is None:
            raise KeyError(f"node {node_name}")
        return NodeWhatIf(self._node_filters, state, pod, node)

    def pre_filter_on_trial(self, state: CycleState, pod: PodInfo) -> frozenset[str] | Status | None:
        return self.algorithm.pre_filter_on_trial(state, pod)

    def demands(self, state: CycleState, pod: PodInfo) -> Sequence[tuple[DemandingFilterPlugin, Demands]] | None:
        """Return each filter active in the cycle with its requirements as numbers; None if one cannot state them."""
        return self._node_filters.demands(state, pod)

    # --- after the decision ---

    def run_reserve(self, state: CycleState, pod: PodInfo, node_name: str) -> Status | None:
        started = self._stopwatch()
        status = self._call_reserve(state, pod, node_name)
        self._report("Reserve", started, code_of(status))
        return status

    def _call_reserve(self, state: CycleState, pod: PodInfo, node_name: str) -> Status | None:
        for plugin, fields in self._reserve_if:
            if fields is not None and not any(fields(pod)):
                continue  # the pod does not concern it
            try:
                status = plugin.reserve(state, pod, node_name)
                code = Code.SUCCESS if status is None else code_of(status)
            except Exception as error:
                return raised(plugin, "Reserve", error)
            if status is not None and code is not Code.SUCCESS:
                return unsuccessful("Reserve", plugin, status)
        return None

    def run_unreserve(self, state: CycleState, pod: PodInfo, node_name: str) -> list[Status]:
        """Call `unreserve` of every Reserve plugin in reverse order. Returns the faults, for the log."""
        started = self._stopwatch()
        faults = []
        for plugin in reversed(self._reserve):
            try:
                plugin.unreserve(state, pod, node_name)
            except Exception as error:
                faults.append(raised(plugin, "Unreserve", error))
        self._report("Unreserve", started, Code.SUCCESS)
        return faults

    def run_permit(self, state: CycleState, pod: PodInfo, node_name: str) -> tuple[Status | None, dict[str, float]]:
        """Run the Permit plugins.

        Returns (rejection or ERROR, {}) or (None, timeouts in seconds of the plugins that WAIT).
        """
        started = self._stopwatch()
        status, waits = self._call_permit(state, pod, node_name)
        self._report("Permit", started, Code.WAIT if waits else code_of(status))
        return status, waits

    def _call_permit(self, state: CycleState, pod: PodInfo, node_name: str) -> tuple[Status | None, dict[str, float]]:
        waits: dict[str, float] = {}  # plugin name -> seconds
        for plugin in self._permit:
            try:
                status, timeout_s = plugin.permit(state, pod, node_name)
                code = code_of(status)
                if code is Code.WAIT:
                    waits[plugin.name] = min(timeout_s, MAX_PERMIT_WAIT_S)
            except Exception as error:
                return raised(plugin, "Permit", error), {}
            if code is Code.WAIT:
                continue
            if status is not None and code is not Code.SUCCESS:
                return unsuccessful("Permit", plugin, status), {}
        return None, waits

    def run_pre_bind_pre_flights(self, state: CycleState, pod: PodInfo, node_name: str) -> Status | None:
        """Return None if some PreBind plugin has work to do, SKIP if none has, or an ERROR. Must run before PreBind."""
        if not self._pre_bind:
            return SKIP
        started = self._stopwatch()
        status = self._call_pre_bind_pre_flights(state, pod, node_name)
        self._report("PreBindPreFlight", started, code_of(status))
        return status

    def _call_pre_bind_pre_flights(self, state: CycleState, pod: PodInfo, node_name: str) -> Status | None:
        answer: Status | None = SKIP
        idle: list[str] = []
        for plugin, fields in self._pre_bind_if:
            if fields is not None and not any(fields(pod)):
                idle.append(plugin.name)
                continue
            try:
                status = plugin.pre_bind_pre_flight(state, pod, node_name)
                code = Code.SUCCESS if status is None else Code.SKIP if status is SKIP else code_of(status)
            except Exception as error:
                return raised(plugin, "PreBindPreFlight", error)
            if code is Code.SKIP:
                idle.append(plugin.name)
            elif status is None or code is Code.SUCCESS:
                answer = None
            elif code is Code.ERROR:
                return running("PreBindPreFlight", plugin, status)
            else:
                return no_pre_flight(plugin, status)
        state.skip_pre_bind = frozenset(idle)
        return answer

    async def run_pre_bind(
        self, state: CycleState, pod: PodInfo, node_name: str, on_turn: Callable[[Plugin], None] = _ignore
    ) -> Status | None:
        """Run PreBind plugins in order, except those that answered SKIP at pre-flight.

        `on_turn` is called with each plugin before it runs. Returns None or the first failure.
        """
        started = self._stopwatch()
        status = await self._call_pre_bind(state, pod, node_name, on_turn)
        self._report("PreBind", started, code_of(status))
        return status

    async def _call_pre_bind(
        self, state: CycleState, pod: PodInfo, node_name: str, on_turn: Callable[[Plugin], None]
    ) -> Status | None:
        for plugin in self._pre_bind:
            if plugin.name in state.skip_pre_bind:
                continue
            on_turn(plugin)
            try:
                status = await plugin.pre_bind(state, pod, node_name)
                code = Code.SUCCESS if status is None else code_of(status)
            except Exception as error:
                return raised(plugin, "PreBind", error)
            if status is not None and code is not Code.SUCCESS:
                return unsuccessful("PreBind", plugin, status)
        return None

    def only_binds(self, pod: PodInfo) -> bool:
        """Return True if, once the pod is assumed, plugins have nothing left to do but to write the default binding."""
        if not self._may_only_bind:
            return False
        spec, known = pod.pod.spec, self._specs_that_only_bind
        if known.get(id(spec)) is spec:
            return True
        is_asked = False
        for concerns, fields in self._selective:
            if fields is None or any(fields(pod)):
                if concerns(pod):
                    return False
                is_asked = True
        # What a plugin has answered may depend on the cluster; which fields are empty follows from the spec.
        if not is_asked:
            if len(known) >= MAX_SPECS:
                known.clear()
            known[id(spec)] = spec
        return True

    async def run_bind(self, state: CycleState, pod: PodInfo, node_name: str) -> Status | None:
        """Run Bind plugins in order until one does not SKIP. Returns None for success, an ERROR if all of them SKIP."""
        for plugin in self._bind:
            try:
                status = await plugin.bind(state, pod, node_name)
                code = code_of(status)
            except Exception as error:
                return raised(plugin, "Bind", error)
            if code is not Code.SKIP:
                return None if status is None or code is Code.SUCCESS else unsuccessful("Bind", plugin, status)
        return error_status(f"no Bind plugin took pod {pod.key}: all of them skipped")

    def run_post_bind(self, state: CycleState, pod: PodInfo, node_name: str) -> list[Status]:
        started = self._stopwatch()
        faults = []
        for plugin in self._post_bind:
            try:
                plugin.post_bind(state, pod, node_name)
            except Exception as error:
                faults.append(raised(plugin, "PostBind", error))
        self._report("PostBind", started, Code.SUCCESS)
        return faults

    def _report(self, point: str, started: float, code: Code) -> None:
        """Report the duration of an extension point that began at `started` and ended with `code`."""
        self._points[point, STATUS_LABELS[code], self.profile].observe(self._stopwatch() - started)
