"""Gangs while a real apiserver is killed in the middle of their bindings, in every other run with the scheduler.

    python -m tests.controlplane.gang_restarts --runs 50 --seed 1

There is room for some of the gangs. After apiserver and scheduler are back, that many must be bound whole, and of the
others no pod, as the apiserver's own lists show.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from kscheduler.testing.controlplane import BindWatch, ControlPlane, verify, workload
from kscheduler.testing.controlplane.faults import HarnessError
from kscheduler.testing.controlplane.kscheduler import KScheduler
from kscheduler.testing.controlplane.load import create, nodes, pods
from kscheduler.testing.controlplane.patience import eventually
from kscheduler.testing.controlplane.workspace import Workspace
from tests.controlplane.custom_kinds import serves
from tests.deploy.manifests import own_objects

LABEL = "scheduling.x-k8s.io/pod-group"
GANGS, SIZE, FIT = 40, 6, 25  # how many there are, of how many pods, and for how many there is room
BINDINGS_PER_S = 150  # so that the apiserver dies in the middle of them
CONFIGURATION: dict[str, Any] = {
    "profiles": [
        {"schedulerName": "default-scheduler", "plugins": {"permit": {"enabled": [{"name": "Coscheduling"}]}}}
    ],
}


@dataclass(frozen=True, slots=True)
class Run:
    """What became of one run."""

    seed: int
    killed_at: int  # pods bound
    kills_scheduler: bool
    partial: int  # gangs that the apiserver had half bound when it was back
    fault: str  # "" for none

    def __str__(self) -> str:
        who = "apiserver and scheduler" if self.kills_scheduler else "apiserver"
        end = f"FAILED: {self.fault}" if self.fault else "whole in the end"
        return f"seed {self.seed}: {who} killed after {self.killed_at} bindings, {self.partial} gangs half bound; {end}"


def install(control_plane: ControlPlane) -> None:
    """Define PodGroups of Coscheduling."""
    definitions = [each for each in own_objects("gangs") if each["kind"] == "CustomResourceDefinition"]
    control_plane.api.apply(*definitions)
    path = "/apis/scheduling.x-k8s.io/v1alpha1/podgroups"
    eventually(lambda: serves(control_plane.api, path), "PodGroups are served")


def play(control_plane: ControlPlane, seed: int) -> Run:
    """Play one run on a control plane without nodes, and leave it so."""
    rng = random.Random(seed)
    kill_at, kills_scheduler = rng.randint(10, FIT * SIZE * 2 // 3), bool(seed % 2)
    workspace = Workspace(control_plane)
    try:
        _load(workspace)
        with BindWatch(control_plane.credentials, workspace.namespace) as watch:
            scheduler = _scheduler(control_plane)
            watch.wait(kill_at)
            control_plane.apiserver.kill()
            killed_at = watch.count
            if kills_scheduler:
                scheduler.process.kill()
            control_plane.apiserver.start()
        partial = sum(0 < bound < SIZE for bound in _bound(workspace).values())
        if kills_scheduler:
            _scheduler(control_plane)
        fault = _judge(workspace)
        return Run(seed, killed_at, kills_scheduler, partial, fault)
    finally:
        workspace.clean()


def _scheduler(control_plane: ControlPlane) -> KScheduler:
    return KScheduler(control_plane, configuration=CONFIGURATION, qps=BINDINGS_PER_S, burst=10)


def _load(workspace: Workspace) -> None:
    credentials = workspace.control_plane.credentials
    create(credentials, nodes(FIT * SIZE // 2))
    path = f"/apis/scheduling.x-k8s.io/v1alpha1/namespaces/{workspace.namespace}/podgroups"
    for number in range(GANGS):
        metadata = {"name": f"gang-{number}"}
        group = {"apiVersion": "scheduling.x-k8s.io/v1alpha1", "kind": "PodGroup", "metadata": metadata}
        workspace.api.create(path, {**group, "spec": {"minMember": SIZE}})
    templates = [
        workload.pod(requests={"cpu": "2", "memory": "1Mi"}, labels={LABEL: f"gang-{number}"})
        for number in range(GANGS)
    ]
    create(credentials, pods(GANGS * SIZE, workspace.namespace, templates=templates))


def _bound(workspace: Workspace) -> Counter[str]:
    """Return how many pods of each gang have a node."""
    return Counter(pod["metadata"]["labels"][LABEL] for pod in workspace.pods() if pod["spec"].get("nodeName"))


def _judge(workspace: Workspace) -> str:
    """Wait until all that fits is bound, and return what is wrong then; "" if nothing is."""
    try:
        with BindWatch(workspace.control_plane.credentials, workspace.namespace) as watch:
            watch.wait(FIT * SIZE)
    except HarnessError as error:  # the next run is played all the same
        return f"{error}; {sorted(_bound(workspace).items())}"
    bound = _bound(workspace)
    partial = {gang: count for gang, count in bound.items() if count != SIZE}
    if partial or len(bound) != FIT:
        return f"expected {FIT} gangs with {SIZE} pods each, got {sorted(bound.items())}"
    overcommitted = verify(workspace.api, workspace.namespace, events=False).overcommitted
    return "; ".join(overcommitted)


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="tests.controlplane.gang_restarts", description="gangs and dying apiservers")
    parser.add_argument("--runs", type=int, default=50, help="how many (50)")
    parser.add_argument("--seed", type=int, default=1, help="of the first (1)")
    options = parser.parse_args(argv)
    began_s, found = time.monotonic(), []
    with ControlPlane() as control_plane:
        install(control_plane)
        for seed in range(options.seed, options.seed + options.runs):
            run = play(control_plane, seed)
            found.append(run)
            print(run, flush=True)
    failed = sum(bool(run.fault) for run in found)
    half = sum(bool(run.partial) for run in found)
    took = f"{time.monotonic() - began_s:.0f} s"
    print(f"{len(found)} runs in {took}: in {half} a gang was half bound when the apiserver was back, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
