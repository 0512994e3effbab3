"""Decisions about gangs come out of a record again: whom they evict, what fails, and which of their pods had ended."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from kscheduler.api.pod_groups import POD_GROUP_LABEL
from kscheduler.config.releases import RELEASE_1_36, RELEASE_1_37
from kscheduler.config.types import SchedulerConfig
from kscheduler.record.entries import Answered
from kscheduler.simulator.cluster import Cluster
from kscheduler.simulator.cluster_client import ClusterClient
from kscheduler.simulator.faults import FaultKind, Verb
from kscheduler.testing import make_node, make_pod
from kscheduler.testing.wrappers import PodBuilder
from tests.replay.recorded_run import Play, decisions, entries, recorded, replayed
from tests.scenarios.gangs import BY_LABEL, by_field, gang, group, members
from tests.support.changes import set_pod_phase


def run_of(*, by_label: bool) -> Play:
    """Gangs on four nodes: one that fits, one that evicts others for its minimum, one that never fits, and surplus."""

    def member(pod: PodBuilder, name: str) -> PodBuilder:
        return pod if by_label else pod.scheduling_group(name)

    async def play(cluster: Cluster, client: ClusterClient) -> None:
        for number in range(4):
            cluster.create_node(make_node(f"n{number}").capacity(cpu="4", memory="16Gi", pods=20).obj())
        for number in range(4):
            cluster.create_pod(make_pod(f"single-{number}").req(cpu="1").grace_period(0).obj())
        client.faults.add(FaultKind.CONFLICT, Verb.BIND, count=1)
        client.faults.add(FaultKind.SERVER_ERROR, Verb.DELETE_POD, count=1)
        for name, size, least, priority in (("fits", 3, 2, 0), ("evicts", 5, 5, 10), ("never", 12, 12, 10)):
            cluster.create_object(gang(name, least) if by_label else group(name, least, priority=priority))
            for pod in members(name, size):
                cluster.create_pod(member(pod, name).priority(priority).grace_period(0).obj())
                await asyncio.sleep(0.1)
            await asyncio.sleep(15.0)
        # One of the gang ends, and what it leaves is taken by another pod.
        set_pod_phase(cluster, "default/evicts-0", "Running")
        set_pod_phase(cluster, "default/evicts-0", "Succeeded")
        await asyncio.sleep(5.0)
        late = make_pod("evicts-late").label(POD_GROUP_LABEL, "evicts").req(cpu="2")
        cluster.create_pod(member(late, "evicts").obj())
        cluster.delete_pod("default/evicts-1")
        cluster.create_node(make_node("n4").capacity(cpu="8", memory="16Gi", pods=20).obj())

    return play


CONFIGURATIONS = {
    "by label": BY_LABEL,
    "by field, 1.36": by_field(RELEASE_1_36),
    "by field, 1.37": by_field(RELEASE_1_37),
}


@pytest.mark.parametrize("config", CONFIGURATIONS.values(), ids=CONFIGURATIONS)
def test_every_decision_about_gangs_is_made_again(tmp_path: Path, config: SchedulerConfig) -> None:
    path = tmp_path / "run.zst"
    recorded(path, run_of(by_label=config is BY_LABEL), config=config)
    made = decisions(path)
    found = replayed(path, config, is_same=True)
    assert found.is_equal, (found.kinds, found.differences[:1])
    assert found.decisions == found.equal == len(made)
    placed = {each.pod for each in made if each.node}
    assert {f"default/fits-{number}" for number in range(3)} <= placed
    assert {f"default/evicts-{number}" for number in range(5)} <= placed
    assert not any(pod.startswith("default/never-") for pod in placed)
    assert {True, False} == {entry.succeeded for entry in entries(path) if isinstance(entry, Answered)}


def test_without_gangs_their_pods_are_decided_by_themselves(tmp_path: Path) -> None:
    """The record of a scheduler with gangs, and a configuration without: they are placed one by one, also in part."""
    path = tmp_path / "run.zst"
    recorded(path, run_of(by_label=True), config=BY_LABEL)
    found = replayed(path)
    assert not found.is_equal
    assert found.kinds["placed only in the replay"] > 0


def test_with_gangs_pods_that_were_decided_by_themselves_wait_for_each_other(tmp_path: Path) -> None:
    """The other way round: a gang is not tried pod by pod. Its pods are put where the record has them."""
    path = tmp_path / "run.zst"
    recorded(path, run_of(by_label=True))
    found = replayed(path, BY_LABEL)
    assert found.kinds.keys() == {"tried only in the record"}
