"""Gangs on a real apiserver, by the rights of deploy/ alone: their pods are bound together or not at all."""

from __future__ import annotations

import contextlib
import functools
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from prometheus_client.parser import text_string_to_metric_families

from kscheduler.testing.controlplane import ApiserverOptions, ControlPlane, Credentials, workload
from kscheduler.testing.controlplane.api import Object
from kscheduler.testing.controlplane.kscheduler import KScheduler
from kscheduler.testing.controlplane.kubeconfig import write_kubeconfig
from kscheduler.testing.controlplane.kubescheduler import KubeScheduler
from kscheduler.testing.controlplane.patience import eventually
from kscheduler.testing.controlplane.workspace import Workspace
from tests.controlplane.custom_kinds import remove_kind, serves
from tests.deploy.manifests import render

LABEL = "scheduling.x-k8s.io/pod-group"
COSCHEDULING: dict[str, Any] = {
    "profiles": [{"schedulerName": "default-scheduler", "plugins": {"permit": {"enabled": [{"name": "Coscheduling"}]}}}]
}
API_OF = {"1.36": "scheduling.k8s.io/v1alpha2", "1.37": "scheduling.k8s.io/v1beta1"}
GATES_OF = {"1.36": "GenericWorkload=true,GangScheduling=true", "1.37": "GenericWorkload=true"}
CONDITION_OF = {"1.36": "PodGroupScheduled", "1.37": "PodGroupInitiallyScheduled"}


class Outcome(NamedTuple):
    pods_per_node: list[int]
    rejections: list[tuple[str, str, str]]  # of each pod without a node: its group, reason and message
    conditions: dict[str, list[Object]]  # of the PodGroups, by name


class Gangs:
    """A workspace with the kinds of deploy/gangs, and a scheduler with the rights of deploy/ and no others."""

    def __init__(self, workspace: Workspace, group_version: str, folder: Path) -> None:
        self.workspace = workspace
        self._folder = folder
        self._version = group_version
        self._path = f"/apis/{group_version}/namespaces/{workspace.namespace}/podgroups"
        workspace.api.apply(*render("base", "gangs"))
        eventually(lambda: serves(workspace.api, self._path), "PodGroups are served")

    def start(self, *, configuration: dict[str, Any] | None = None, flags: tuple[str, ...] = ()) -> KScheduler:
        control_plane = self.workspace.control_plane
        token = control_plane.service_account_token("kscheduler", "kscheduler")
        credentials = Credentials(control_plane.url, control_plane.authority.path, token=token)
        kubeconfig = write_kubeconfig(self._folder / "kubeconfig", credentials)
        return KScheduler(control_plane, kubeconfig=kubeconfig, configuration=configuration, extra_flags=flags)

    def create(self, name: str, least: int, **spec: object) -> None:
        body: Object = {"apiVersion": self._version, "kind": "PodGroup", "metadata": {"name": name}}
        if self._version.startswith("scheduling.x-k8s.io"):
            body["spec"] = {"minMember": least}
        else:
            body["spec"] = {"schedulingPolicy": {"gang": {"minCount": least}}, **spec}
        self.workspace.api.create(self._path, body)

    def of_workload(self, name: str) -> Object:
        """Return a reference to a template, which need not exist."""
        return {"workloadName": "work", "templateName": name}

    def compose(self, name: str, least: int, **spec: object) -> None:
        body: Object = {
            "apiVersion": "scheduling.k8s.io/v1alpha3",
            "kind": "CompositePodGroup",
            "metadata": {"name": name},
            "spec": {
                "workloadRef": self.of_workload(name),
                "schedulingPolicy": {"gang": {"minGroupCount": least}},
                **spec,
            },
        }
        path = f"/apis/scheduling.k8s.io/v1alpha3/namespaces/{self.workspace.namespace}/compositepodgroups"
        self.workspace.api.create(path, body)

    def add(self, name: str, *numbers: int, **spec: object) -> None:
        for number in numbers:
            requests = {"cpu": "2", "memory": "100Mi"}
            if self._version.startswith("scheduling.x-k8s.io"):
                made = workload.pod(f"{name}-{number}", requests=requests, labels={LABEL: name})
            else:
                spec["schedulingGroup"] = {"podGroupName": name}
                made = workload.pod(f"{name}-{number}", requests=requests, spec=spec)
            self.workspace.create(made)

    def bound(self, name: str) -> int:
        return sum(pod.startswith(f"{name}-") for pod in self.workspace.bindings())

    def fence(self) -> None:
        """Wait until the scheduler has seen and decided all that came before."""
        self.workspace.create_pod("fence", requests={})
        eventually(lambda: "fence" in self.workspace.bindings(), "a later pod is bound")

    def condition(self, name: str) -> tuple[str, str, str] | None:
        found = self.workspace.api.get(f"{self._path}/{name}")
        for each in found.get("status", {}).get("conditions", ()):
            return each["type"], each["status"], each["reason"]
        return None

    def status(self, name: str) -> Object:
        found: Object = self.workspace.api.get(f"{self._path}/{name}").get("status", {})
        return found

    def has_status(self, name: str, expected: Object) -> bool:
        return self.status(name) == expected

    def is_decided(self, name: str) -> bool:
        return self.condition(name) is not None

    def outcome(self) -> Outcome:
        """Return what became of all pods and PodGroups, without what is left to chance: which of equals are bound."""
        pods = self.workspace.api.list_all(f"/api/v1/namespaces/{self.workspace.namespace}/pods")
        rejections, per_node = [], Counter(pod["spec"].get("nodeName", "") for pod in pods)
        for pod in pods:
            for each in pod.get("status", {}).get("conditions", ()):
                if each["type"] == "PodScheduled" and each["status"] == "False":
                    group = pod["spec"].get("schedulingGroup", {}).get("podGroupName", "")
                    rejections.append((group, each["reason"], each.get("message", "")))
        conditions = {
            group["metadata"]["name"]: [
                {field: each.get(field) for field in ("type", "status", "reason", "message", "observedGeneration")}
                for each in group.get("status", {}).get("conditions", ())
            ]
            for group in self.workspace.api.list_all(self._path)
        }
        return Outcome(sorted(per_node.values()), sorted(rejections), conditions)

    def notes(self, reason: str) -> list[str]:
        events = self.workspace.api.list_all(f"/apis/events.k8s.io/v1/namespaces/{self.workspace.namespace}/events")
        return [each["note"] for each in events if (each["regarding"]["kind"], each["reason"]) == ("PodGroup", reason)]


@pytest.fixture
def coscheduling(workspace: Workspace, tmp_path: Path) -> Iterator[Gangs]:
    yield Gangs(workspace, "scheduling.x-k8s.io/v1alpha1", tmp_path)
    workspace.control_plane.stop_processes(keep=0)
    remove_kind(workspace.api, "podgroups.scheduling.x-k8s.io")


@contextlib.contextmanager
def kubernetes_groups(release: str, folder: Path, more_gates: str = "") -> Iterator[Gangs]:
    """Serve PodGroups. `more_gates`: of the apiserver, beside those that it needs for that, such as ",Name=true"."""
    served = f"{API_OF[release]}=true" + (
        ",scheduling.k8s.io/v1alpha3=true" if "CompositePodGroup" in more_gates else ""
    )
    flags = (f"--feature-gates={GATES_OF[release]}{more_gates}", f"--runtime-config={served}")
    with ControlPlane(ApiserverOptions(extra_flags=flags), release=release) as control_plane:
        workspace = Workspace(control_plane)
        yield Gangs(workspace, API_OF[release], folder)


def all_are_bound_once_the_last_comes(gangs: Gangs) -> None:
    gangs.workspace.create_nodes(2)
    gangs.create("train", 4)
    gangs.add("train", 0, 1, 2)
    gangs.fence()
    assert gangs.bound("train") == 0
    gangs.workspace.api.delete(f"/api/v1/namespaces/{gangs.workspace.namespace}/pods/fence")
    gangs.add("train", 3)
    eventually(lambda: gangs.bound("train") == 4, "all four pods are bound")
    eventually(lambda: bool(gangs.notes("Scheduled")), "an Event says so")
    assert gangs.notes("Scheduled") == [f"4 pods of gang {gangs.workspace.namespace}/train have a node, of at least 4"]


def a_large_gang_holds_nothing(gangs: Gangs) -> None:
    gangs.workspace.create_nodes(2)
    gangs.create("large", 5)
    gangs.create("small", 4)
    gangs.add("large", 0, 1, 2, 3, 4)
    eventually(lambda: bool(gangs.notes("Unschedulable")), "the large gang is rejected")
    gangs.add("small", 0, 1, 2, 3)
    eventually(lambda: gangs.bound("small") == 4, "the small gang is bound")
    assert gangs.bound("large") == 0
    gangs.workspace.create_node("more-0")
    gangs.workspace.create_node("more-1")
    gangs.workspace.create_node("more-2")
    eventually(lambda: gangs.bound("large") == 5, "the large gang is bound when there is room")


@pytest.mark.parametrize("play", [all_are_bound_once_the_last_comes, a_large_gang_holds_nothing])
def test_gangs_of_coscheduling_are_bound_whole_or_not(coscheduling: Gangs, play: Callable[[Gangs], None]) -> None:
    coscheduling.start(configuration=COSCHEDULING)
    play(coscheduling)


def test_a_gang_that_a_dead_predecessor_left_half_bound_comes_first_and_is_completed(coscheduling: Gangs) -> None:
    workspace = coscheduling.workspace
    workspace.create_nodes(2)
    coscheduling.create("later", 4)
    coscheduling.create("train", 4)
    coscheduling.add("later", 0, 1, 2, 3)
    coscheduling.add("train", 0, 1, 2, 3)
    binding = {"metadata": {"name": "train-0"}, "target": {"kind": "Node", "name": "node-0"}}
    workspace.api.create(f"/api/v1/namespaces/{workspace.namespace}/pods/train-0/binding", binding)
    coscheduling.start(configuration=COSCHEDULING)
    eventually(lambda: coscheduling.bound("train") == 4, "the rest of the gang is bound")
    assert coscheduling.bound("later") == 0


def test_the_status_of_a_podgroup_of_coscheduling_follows_its_pods(coscheduling: Gangs) -> None:
    coscheduling.start(configuration=COSCHEDULING)
    workspace = coscheduling.workspace
    workspace.create_nodes(1)
    coscheduling.create("train", 2)
    eventually(lambda: coscheduling.status("train") == {"phase": "Pending"}, "it waits for its pods")
    coscheduling.add("train", 0, 1)
    eventually(lambda: coscheduling.status("train") == {"phase": "Scheduling"}, "its pods are placed")
    eventually(lambda: coscheduling.bound("train") == 2, "both pods are bound")
    for pod_phase, shown in (
        ("Running", {"phase": "Running", "running": 2}),
        ("Succeeded", {"phase": "Finished", "succeeded": 2}),
    ):
        for number in (0, 1):
            path = f"/api/v1/namespaces/{workspace.namespace}/pods/train-{number}/status"
            workspace.api.patch(path, {"status": {"phase": pod_phase}})
        eventually(functools.partial(coscheduling.has_status, "train", shown), f"it says {shown}")


def test_pods_that_kueue_admits_are_bound_at_once_to_the_nodes_it_chose_even_if_they_name_a_podgroup(
    coscheduling: Gangs,
) -> None:
    """Pods of two plain pod groups of Kueue's with its two gates; those of one name a PodGroup of Coscheduling, too."""
    workspace = coscheduling.workspace
    coscheduling.start(configuration=COSCHEDULING)
    hosts = workspace.create_nodes(4)
    coscheduling.create("gang", 3)
    admission, topology = ({"name": f"kueue.x-k8s.io/{gate}"} for gate in ("admission", "topology"))
    for job in ("gang", "plain"):
        for number in range(3):
            labels = {
                "kueue.x-k8s.io/managed": "true",
                "kueue.x-k8s.io/queue-name": "team-a",
                "kueue.x-k8s.io/pod-group-name": job,
                **({LABEL: job} if job == "gang" else {}),
            }
            spec = {"schedulingGates": [admission, topology]}
            pod = workload.pod(f"{job}-{number}", requests={"cpu": "1"}, labels=labels, spec=spec)
            pod["metadata"]["annotations"] = {"kueue.x-k8s.io/pod-group-total-count": "3"}
            pod["metadata"]["finalizers"] = ["kueue.x-k8s.io/managed"]
            workspace.create(pod)

    def patch(name: str, part: str, changes: Object) -> None:
        path = f"/api/v1/namespaces/{workspace.namespace}/pods/{name}"
        workspace.api.patch(path, {part: changes}, "application/merge-patch+json")

    def send(name: str) -> None:
        patch(name, "spec", {"schedulingGates": None, "nodeSelector": {"kubernetes.io/hostname": chosen[name]}})

    names = [f"{job}-{number}" for job in ("gang", "plain") for number in range(3)]
    chosen = {name: hosts[index % 2] for index, name in enumerate(names)}
    for name in names:
        patch(name, "spec", {"schedulingGates": [topology]})
    for name in names[1:]:
        send(name)
    eventually(lambda: coscheduling.bound("plain") == 3, "pods without a PodGroup are bound")
    coscheduling.fence()
    assert coscheduling.bound("gang") == 0, "one of them is gated"
    send(names[0])
    eventually(lambda: coscheduling.bound("gang") == 3, "the gang is bound")
    bindings = workspace.bindings()
    assert {name: bindings[name] for name in names} == chosen
    for name in names:
        patch(name, "metadata", {"finalizers": None})


@pytest.mark.parametrize("release", ["1.36", "1.37"])
def test_gangs_of_kubernetes_are_bound_whole_or_not_and_their_conditions_say_so(release: str, tmp_path: Path) -> None:
    with kubernetes_groups(release, tmp_path) as gangs:
        gangs.start(flags=(f"--feature-gates={GATES_OF[release]}",))
        all_are_bound_once_the_last_comes(gangs)
        shown = (CONDITION_OF[release], "True", "Scheduled")
        eventually(lambda: gangs.condition("train") == shown, "the condition says so")
        gangs.create("large", 5)
        gangs.add("large", 0, 1, 2, 3, 4)
        shown = (CONDITION_OF[release], "False", "Unschedulable")
        eventually(lambda: gangs.condition("large") == shown, "the condition of a gang without room says so")
        assert gangs.bound("large") == 0


def three_groups(gangs: Gangs) -> Outcome:
    """Play one group that fits whole, one of which a pod has no room, and one that has none at all."""
    gangs.workspace.create_nodes(3)
    for name, least, members in (("whole", 4, 4), ("partly", 2, 2), ("none", 5, 6)):
        gangs.create(name, least)
        gangs.add(name, *range(members))
        eventually(functools.partial(gangs.is_decided, name), f"the group {name} is decided")
        if name == "partly":
            # kube-scheduler may deny that a group was placed, if a pod more comes before it has read its own condition.
            gangs.fence()
            gangs.add(name, 2)
    eventually(lambda: gangs.bound("whole") == 4, "all of a group are bound")
    eventually(lambda: gangs.bound("partly") == 2, "all of a group for which there is room are bound")
    eventually(lambda: len(gangs.outcome().rejections) == 7, "each of the other pods says why")
    # Five of the last group may have been tried before the sixth came: then one pod is enough to know that it is vain.
    eventually(
        lambda: sum(name == "none" and "cpu" in text for name, _, text in gangs.outcome().rejections) == 2,
        "all six of the last group were tried together",
    )
    return gangs.outcome()


def with_both(folder: Path, play: Callable[[Gangs], Outcome], more_gates: str = "", release: str = "1.37") -> Outcome:
    """Play on a control plane of a release with kube-scheduler, and on one with ours; the outcomes must be equal."""
    gates = f"--feature-gates={GATES_OF[release]}{more_gates}"
    outcomes = []
    for side in ("theirs", "ours"):
        (folder / side).mkdir()
        with kubernetes_groups(release, folder / side, more_gates) as gangs:
            if side == "ours":
                gangs.start(flags=(gates,))
            else:
                KubeScheduler(gangs.workspace.control_plane, extra_flags=(gates,))
            outcomes.append(play(gangs))
    theirs, ours = outcomes
    assert ours == theirs
    return ours


POLICY_OF = {"modest": "Never", "eager": "PreemptLowerPriority"}  # of a class of priority


def near(key: str) -> Object:
    """Return the constraint that all pods of a group are on nodes with one value of a label."""
    return {"schedulingConstraints": {"topology": [{"key": key}]}}


def create_racks(gangs: Gangs, **racks: int) -> None:
    """Create racks of so many nodes; a rack is in the zone that its name begins with."""
    for rack, count in racks.items():
        for number in range(count):
            gangs.workspace.create_node(f"{rack}-{number}", labels={"rack": rack, "zone": rack[0]})


def groups_in_racks(gangs: Gangs) -> Outcome:
    """Play one group that fits into one rack, one for which no hall is large enough, and one whose label no node has.

    The first has room in two racks, of which the smaller is fuller then. Halls are equal, since kube-scheduler says of
    any of them why the group does not fit.
    """
    create_racks(gangs, a=1, b=2, c=3)
    for number in range(4):
        gangs.workspace.create_node(f"hall-{number}", labels={"hall": str(number % 2)})
    for name, least, key in (("train", 4, "rack"), ("large", 5, "hall"), ("lost", 1, "row")):
        gangs.create(name, least, **near(key))
        gangs.add(name, *range(least))
        eventually(functools.partial(gangs.is_decided, name), f"the group {name} is decided")
    eventually(lambda: gangs.bound("train") == 4, "the group that fits is bound")
    eventually(lambda: len(gangs.outcome().rejections) == 6, "each pod of the others says why")
    return gangs.outcome()


def job_in_racks(gangs: Gangs) -> Outcome:
    """Play a job of two groups with a rack each in one zone, and one of which a group does not fit.

    The other one has two halls with a row each. They are equal, since kube-scheduler says of any of them why the job
    does not fit.
    """
    create_racks(gangs, a1=2, a2=1, b1=2, b2=2)
    for number in range(4):
        hall = str(number % 2)
        gangs.workspace.create_node(f"hall-{number}", labels={"hall": hall, "row": hall})
    for name, of_parts, whole, part_of_it in (("job", (4, 4), "zone", "rack"), ("large", (1, 9), "hall", "row")):
        gangs.compose(name, 2, **near(whole))
        for number, least in enumerate(of_parts):
            part = f"{name}-{number}"
            parent = {"parentCompositePodGroupName": name, "workloadRef": gangs.of_workload(part)}
            gangs.create(part, least, **near(part_of_it), **parent)
            gangs.add(part, *range(least))
    eventually(lambda: gangs.bound("job") == 8, "both groups of the job are bound")
    eventually(lambda: len(gangs.outcome().rejections) == 10, "each pod of the other job says why")
    parts = [f"{name}-{number}" for name in ("job", "large") for number in range(2)]
    eventually(lambda: all(map(gangs.is_decided, parts)), "each group has its condition")
    return gangs.outcome()


def priority_class(name: str, value: int = 100, policy: str = "PreemptLowerPriority") -> Object:
    return {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": name},
        "value": value,
        "preemptionPolicy": policy,
    }


def fill(gangs: Gangs, *names: str) -> None:
    """Create pods of which two fill a node, whose evictions violate a budget."""
    budget = {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "web", "namespace": gangs.workspace.namespace},
        "spec": {"minAvailable": len(names), "selector": {"matchLabels": {"app": "web"}}},
    }
    gangs.workspace.api.apply(budget)
    for name in names:
        spec = {"terminationGracePeriodSeconds": 0}
        gangs.workspace.create_pod(name, requests={"cpu": "2"}, labels={"app": "web"}, spec=spec)
    eventually(lambda: len(gangs.workspace.bindings()) == len(names), "the nodes are full")


def groups_that_evict(gangs: Gangs) -> Outcome:
    """Play a group that would not fit without all others, and another for which they are evicted; return what both say.

    The first one is tried again and again, so what it says is kept before the second comes.
    """
    gangs.workspace.api.apply(priority_class("high"))
    gangs.workspace.create_nodes(2)
    fill(gangs, *(f"low-{number}" for number in range(4)))
    gangs.create("vain", 5, priorityClassName="high")
    gangs.add("vain", *range(5), priorityClassName="high")
    eventually(lambda: gangs.is_decided("vain"), "the group that does not fit is decided")
    eventually(lambda: len(gangs.outcome().rejections) == 5, "each of its pods says why")
    before = gangs.outcome()
    assert before.pods_per_node == [2, 2, 5], "nobody is evicted in vain"
    gangs.create("train", 4, priorityClassName="high")
    gangs.add("train", *range(4), priorityClassName="high")
    eventually(lambda: gangs.bound("train") == 4, "the group that fits is bound")
    eventually(lambda: gangs.condition("train") == (CONDITION_OF["1.36"], "True", "Scheduled"), "its condition says so")
    after = gangs.outcome()
    return before._replace(conditions={**before.conditions, "train": after.conditions["train"]})


WITH_POLICIES = (  # group, its class, and that of its pods
    ("modest", "modest", "modest"),
    ("torn", "eager", "modest"),
    ("eager", "eager", "eager"),
)


def groups_with_policies(gangs: Gangs) -> Outcome:
    """Play groups that would have to evict pods: one that may not, one whose pods disagree, and one that evicts."""
    workspace = gangs.workspace
    workspace.api.apply(*(priority_class(name, policy=policy) for name, policy in POLICY_OF.items()))
    workspace.create_nodes(2)
    for number in range(4):
        workspace.create_pod(f"low-{number}", requests={"cpu": "2"}, spec={"terminationGracePeriodSeconds": 0})
    eventually(lambda: len(workspace.bindings()) == 4, "the nodes are full")
    for name, of_group, of_pods in WITH_POLICIES:
        # The apiserver refuses a PodGroup that leaves its policy out and has a class with another than the default.
        gangs.create(name, 2, priorityClassName=of_group, preemptionPolicy=POLICY_OF[of_group])
        gangs.add(name, 0, 1, priorityClassName=of_pods)
        eventually(functools.partial(gangs.is_decided, name), f"the group {name} is decided")
    eventually(lambda: gangs.bound("eager") == 2, "pods are evicted for the last group")
    eventually(lambda: gangs.condition("eager") == (CONDITION_OF["1.37"], "True", "Scheduled"), "its condition says so")
    eventually(lambda: len(gangs.outcome().rejections) == 4, "each pod of the other groups says why")
    return gangs.outcome()


def test_the_same_becomes_of_groups_as_with_kube_scheduler(tmp_path: Path) -> None:
    ours = with_both(tmp_path, three_groups)
    assert {name: each[0]["status"] for name, each in ours.conditions.items()} == {
        "whole": "True",
        "partly": "True",
        "none": "False",
    }


def test_the_same_becomes_of_groups_with_preemption_policies_as_with_kube_scheduler(tmp_path: Path) -> None:
    ours = with_both(tmp_path, groups_with_policies, ",PodGroupPreemptionPolicy=true")
    assert {name: each[0]["reason"] for name, each in ours.conditions.items()} == {
        "modest": "Unschedulable",
        "torn": "SchedulerError",
        "eager": "Scheduled",
    }
    assert {"torn", "modest"} == {name for name, _, _ in ours.rejections}


@pytest.mark.parametrize("release", ["1.36", "1.37"])
def test_the_same_becomes_of_groups_with_topology_constraints_as_with_kube_scheduler(
    release: str, tmp_path: Path
) -> None:
    ours = with_both(tmp_path, groups_in_racks, ",TopologyAwareWorkloadScheduling=true", release)
    assert {name: each[0]["status"] for name, each in ours.conditions.items()} == {
        "train": "True",
        "large": "False",
        "lost": "False",
    }
    assert ours.pods_per_node == [2, 2, 6], "two nodes of one rack, and the pods without one"


def test_the_same_becomes_of_groups_that_preempt_as_a_whole_as_with_kube_scheduler_1_36(tmp_path: Path) -> None:
    ours = with_both(tmp_path, groups_that_evict, ",WorkloadAwarePreemption=true", "1.36")
    assert {name: each[0]["status"] for name, each in ours.conditions.items()} == {"vain": "False", "train": "True"}


PREEMPTION_METRICS = (
    "scheduler_preemption_evaluation_duration_seconds",
    "scheduler_preemption_execution_duration_seconds",
    "scheduler_preemption_pdb_violations",
    "scheduler_workload_preemption_attempts",
    "scheduler_workload_preemption_victims",
)
EXECUTED = 'scheduler_preemption_execution_duration_seconds_count{preemptor="%s",result="success"} 1'


def forms(text: str) -> dict[str, tuple[str, set[tuple[str, ...]], set[str]]]:
    """Return name -> type, names of labels and bounds of buckets of the metrics of preemption."""
    found = {}
    for family in text_string_to_metric_families(text):
        if family.name in PREEMPTION_METRICS:
            labels = {tuple(sorted(sample.labels.keys() - {"le"})) for sample in family.samples}
            bounds = {sample.labels["le"] for sample in family.samples if "le" in sample.labels}
            found[family.name] = family.type, labels, bounds
    return found


def test_metrics_of_preemption_have_names_labels_and_buckets_of_kube_scheduler(tmp_path: Path) -> None:
    found = []
    gates = f"--feature-gates={GATES_OF['1.37']}"
    for side in ("theirs", "ours"):
        (tmp_path / side).mkdir()
        with kubernetes_groups("1.37", tmp_path / side) as gangs:
            theirs = side == "theirs"
            control_plane = gangs.workspace.control_plane
            scheduler = KubeScheduler(control_plane, extra_flags=(gates,)) if theirs else gangs.start(flags=(gates,))
            gangs.workspace.api.apply(priority_class("high"), priority_class("higher", 200))
            gangs.workspace.create_nodes(1)
            fill(gangs, "low-0", "low-1")
            gangs.create("train", 2, priorityClassName="high")
            gangs.add("train", 0, 1, priorityClassName="high", terminationGracePeriodSeconds=0)
            eventually(lambda: gangs.bound("train") == 2, "pods are evicted for the group")
            gangs.workspace.create_pod("alone", requests={"cpu": "2"}, spec={"priorityClassName": "higher"})
            for kind in ("podgroup", "pod"):
                wanted = EXECUTED % kind
                eventually(lambda: wanted in scheduler.get("/metrics"), f"a {kind} has evicted others")  # noqa: B023
            found.append(forms(scheduler.get("/metrics")))
    theirs_found, ours_found = found
    assert sorted(theirs_found) == sorted(PREEMPTION_METRICS)
    assert ours_found == theirs_found


def test_the_same_becomes_of_composite_groups_as_with_kube_scheduler(tmp_path: Path) -> None:
    gates = ",TopologyAwareWorkloadScheduling=true,CompositePodGroup=true"
    ours = with_both(tmp_path, job_in_racks, gates)
    assert {name: each[0]["status"] for name, each in ours.conditions.items()} == {
        "job-0": "True",
        "job-1": "True",
        "large-0": "False",
        "large-1": "False",
    }


def test_a_pod_that_names_a_group_is_bound_by_itself_while_the_gate_is_off(tmp_path: Path) -> None:
    with kubernetes_groups("1.37", tmp_path) as gangs:
        gangs.start()
        gangs.workspace.create_nodes(1)
        gangs.create("train", 4)
        gangs.add("train", 0)
        eventually(lambda: gangs.bound("train") == 1, "the pod is bound")
