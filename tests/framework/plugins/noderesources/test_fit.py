from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from kscheduler.config.load import parse_config
from kscheduler.framework.interface import Handle, Plugin
from kscheduler.framework.plugins.noderesources.fit import Fit
from kscheduler.framework.plugins.registry import IN_TREE
from kscheduler.framework.status import Code
from kscheduler.testing import PodBuilder, make_pod
from tests.support.framework_bench import Bench

GPU = "example.com/gpu"


def configured(args: str) -> Callable[[Handle], Plugin]:
    """The plugin as a configuration with these arguments makes it."""
    head = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
    text = f"profiles: [{{schedulerName: a, pluginConfig: [{{name: NodeResourcesFit, args: {{{args}}}}}]}}]\n"
    profile = parse_config(head + text).profiles[0]
    return lambda handle: IN_TREE["NodeResourcesFit"](profile, handle)


def least_allocated(**weights: int) -> Callable[[Handle], Plugin]:
    resources = ", ".join(
        f"{{name: {GPU if name == 'gpu' else name}, weight: {weight}}}" for name, weight in weights.items()
    )
    return configured(f"scoringStrategy: {{type: LeastAllocated, resources: [{resources}]}}")


def bench(make: Any = Fit, **capacity: Any) -> Bench:
    """One node of 4 cpu and 8Gi, with a pod of 1 cpu and 2Gi on it."""
    made = Bench.of(make)
    made.nodes("n1", **capacity)
    made.place(make_pod("old").req(cpu="1", memory="2Gi"), "n1")
    return made


def P(**requests: Any) -> PodBuilder:
    return make_pod("p").req(**requests)


@pytest.mark.parametrize(
    ("pod", "reasons", "code"),
    [
        (P(), (), None),
        (P(cpu="3", memory="6Gi"), (), None),
        (P(cpu="3001m"), ("Insufficient cpu",), Code.UNSCHEDULABLE),
        (P(memory="6145Mi"), ("Insufficient memory",), Code.UNSCHEDULABLE),
        (P(cpu="4", memory="7Gi"), ("Insufficient cpu", "Insufficient memory"), Code.UNSCHEDULABLE),
        # More than the node has: removing pods would not help.
        (P(cpu="5"), ("Insufficient cpu",), Code.UNSCHEDULABLE_AND_UNRESOLVABLE),
        (P(cpu="4", memory="9Gi"), ("Insufficient cpu", "Insufficient memory"), Code.UNSCHEDULABLE_AND_UNRESOLVABLE),
        (P(**{GPU: 1}), (f"Insufficient {GPU}",), Code.UNSCHEDULABLE_AND_UNRESOLVABLE),
        (P(ephemeral_storage="1"), ("Insufficient ephemeral-storage",), Code.UNSCHEDULABLE_AND_UNRESOLVABLE),
        # An init container needs its room for itself; a sidecar keeps it.
        (P(cpu="1").init_container(cpu="3"), (), None),
        (P(cpu="1").init_container(cpu="4"), ("Insufficient cpu",), Code.UNSCHEDULABLE),
        (P(cpu="1").init_container(restart_policy="Always", cpu="2500m"), ("Insufficient cpu",), Code.UNSCHEDULABLE),
        (P(cpu="3").overhead(cpu="1m"), ("Insufficient cpu",), Code.UNSCHEDULABLE),
        (P(cpu="3").pod_level_req(cpu="4"), ("Insufficient cpu",), Code.UNSCHEDULABLE),
    ],
)
def test_a_pod_fits_if_all_it_requests_is_free(pod: PodBuilder, reasons: tuple[str, ...], code: Code | None) -> None:
    made = bench()
    if code is None:
        assert made.choose(pod) == "n1"
    else:
        status = made.reject(pod).diagnosis.node_statuses()["n1"]
        assert (status.reasons, status.code) == (reasons, code)


def test_too_many_pods_is_the_first_reason() -> None:
    status = bench(pods=1).reject(P(cpu="5")).diagnosis.node_statuses()["n1"]
    assert status.reasons == ("Too many pods", "Insufficient cpu")


def test_a_pod_that_asks_for_nothing_fits_on_a_full_node_but_not_where_pods_are_too_many() -> None:
    made = bench()
    made.place(make_pod("big").req(cpu="50"), "n1")
    assert made.choose(P()) == "n1"
    assert bench(pods=1).reject(P()).message == "0/1 nodes are available: 1 Too many pods."


def test_a_resource_the_node_is_short_of_does_not_matter_to_who_does_not_ask_for_it() -> None:
    made = bench(**{GPU: 1})
    made.place(make_pod("greedy").req(**{GPU: 3}), "n1")
    assert made.choose(P(cpu="1")) == "n1"
    assert made.reject(P(**{GPU: 1})).message == f"0/1 nodes are available: 1 Insufficient {GPU}."


def test_a_pod_with_a_hundred_extended_resources_goes_where_all_of_them_are() -> None:
    many = {f"example.com/r{index:02}": 1 for index in range(100)}
    made = Bench.of(Fit)
    made.nodes("short", **{**many, "example.com/r99": 0})
    made.nodes("whole", **many)
    assert made.choose(P(**many)) == "whole"
    made.place(P(**many), "whole")
    reason = "Insufficient example.com/r59, or another of 41 resources"
    rejection = made.reject(make_pod("late").req(**many))
    assert rejection.diagnosis.node_statuses()["short"].reasons == (reason,)
    assert rejection.diagnosis.node_statuses()["short"].code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE
    taken = rejection.diagnosis.node_statuses()["whole"]
    assert taken.code is Code.UNSCHEDULABLE
    assert taken.reasons == (*(f"Insufficient example.com/r{index:02}" for index in range(59)), reason)


@pytest.mark.parametrize("args", [f"ignoredResources: [{GPU}]", "ignoredResourceGroups: [example.com]"])
def test_resources_left_to_others_are_ignored(args: str) -> None:
    assert bench(configured(args)).choose(P(**{GPU: 5})) == "n1"
    rejection = bench(configured(args)).reject(P(cpu="5", **{GPU: 5}))
    assert rejection.message == "0/1 nodes are available: 1 Insufficient cpu."


# --- score --------------------------------------------------------------------------------------------------------


def two_nodes(make: Any = Fit) -> Bench:
    made = Bench.of(make)
    made.nodes("empty", "half", cpu="4", memory="10Gi", **{GPU: "4"})
    made.place(make_pod("old").req(cpu="2", memory="5Gi", **{GPU: 1}), "half")
    return made


@pytest.mark.parametrize(
    ("pod", "expected"),
    [
        # (4 - 1)/4 = 75 and (10 - 2)/10 = 80, mean 77; (4 - 3)/4 = 25 and (10 - 7)/10 = 30, mean 27.
        (P(cpu="1", memory="2Gi"), {"empty": 77, "half": 27}),
        # Without requests 100m and 200 MiB are assumed: 97 and 98, mean 97; 47 and 48, mean 47.
        (P(), {"empty": 97, "half": 47}),
        # Pod-level requests do not count for the incoming pod.
        (P().pod_level_req(cpu="2"), {"empty": 97, "half": 47}),
    ],
)
def test_more_left_scores_higher(pod: PodBuilder, expected: dict[str, int]) -> None:
    assert two_nodes().scores(pod) == expected


def test_weights_and_extended_resources_count_as_configured() -> None:
    made = two_nodes(least_allocated(cpu=1, gpu=3))
    # cpu 75 and gpu (4 - 2)/4 = 50: (75 + 150)/4; cpu 25 and gpu (4 - 3)/4 = 25.
    assert made.scores(P(cpu="1", **{GPU: 2})) == {"empty": 56, "half": 25}
    # Who asks for no gpu is scored by cpu alone.
    assert made.scores(P(cpu="1")) == {"empty": 75, "half": 25}


def test_a_node_without_the_resource_scores_nothing_for_it() -> None:
    made = Bench.of(least_allocated(gpu=1))
    made.nodes("n1", "n2")
    assert made.scores(P(cpu="1")) == {"n1": 0, "n2": 0}
