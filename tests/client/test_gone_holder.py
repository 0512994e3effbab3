"""When the holder of a Lease has provably ended, and what is no proof. In virtual time."""

from __future__ import annotations

import asyncio
import json
import random
from typing import Any

import pytest

from kscheduler.api.documents import PodDocument
from kscheduler.client.gone_holder import GoneHolder
from kscheduler.client.leaderelection import ElectionConfig, LeaderElector
from kscheduler.client.protocol import Client
from kscheduler.errors import APIError, ConfigError, NotFound
from kscheduler.input.decoding import json_decoder
from kscheduler.simulator.cluster import Cluster
from kscheduler.simulator.virtual_time import LoopClock, run_virtual

ENDED = {"state": {"terminated": {"exitCode": 137}}}
RUNNING = {"state": {"running": {"startedAt": "2026-01-01T00:00:00Z"}}}


def pod(uid: str, phase: str, *containers: dict[str, Any], specified: int = 1) -> PodDocument:
    document = {
        "metadata": {"name": "holder", "namespace": "ns", "uid": uid},
        "spec": {"containers": [{"name": f"c{index}"} for index in range(specified)]},
        "status": {"phase": phase, "containerStatuses": list(containers)},
    }
    return json_decoder(PodDocument)(json.dumps(document).encode())


class Pods:
    """A client that knows one pod."""

    def __init__(self, answer: PodDocument | APIError) -> None:
        self.answer = answer

    async def get_pod_document(self, namespace: str, name: str) -> PodDocument:
        if isinstance(self.answer, APIError):
            raise self.answer
        return self.answer


def has_ended(answer: PodDocument | APIError, identity: str = "holder_u1_x", *, is_first: bool = True) -> bool:
    gone = GoneHolder(Pods(answer), "ns", "me", "u2", is_first_process=is_first)  # type: ignore[arg-type]
    return run_virtual(gone(identity))


@pytest.mark.parametrize("phase", ["Failed", "Succeeded"])
def test_a_pod_whose_containers_have_all_ended_is_proof(phase: str) -> None:
    assert has_ended(pod("u1", phase, ENDED))
    assert has_ended(pod("u1", phase, ENDED, ENDED, specified=2))


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(NotFound("no such pod", status=404), id="deleted, perhaps by force"),
        pytest.param(APIError("busy", status=500), id="no answer"),
        pytest.param(pod("u9", "Failed", ENDED), id="another pod of the name"),
        pytest.param(pod("u1", "Running", RUNNING), id="running"),
        pytest.param(pod("u1", "Running", ENDED), id="about to be started again"),
        pytest.param(pod("u1", "Failed", RUNNING), id="failed as a controller has it, on a silent node"),
        pytest.param(pod("u1", "Failed"), id="without a report of the kubelet"),
        pytest.param(pod("u1", "Failed", ENDED, specified=2), id="one container not reported"),
    ],
)
def test_nothing_less_is_proof(answer: PodDocument | APIError) -> None:
    assert not has_ended(answer)


@pytest.mark.parametrize("identity", ["host_5f7c0f7e", "holder", "", "_u1_x", "holder__x"])
def test_an_identity_that_names_no_pod_proves_nothing(identity: str) -> None:
    assert not has_ended(pod("u1", "Failed", ENDED), identity)


def test_the_container_before_ours_has_ended_if_we_are_the_first_process_of_this_one() -> None:
    answer = NotFound("not asked", status=404)
    assert has_ended(answer, "me_u2_before", is_first=True)
    assert not has_ended(answer, "me_u2_before", is_first=False)


def test_an_environment_without_the_pod_is_refused() -> None:
    with pytest.raises(ConfigError, match="POD_NAME, POD_UID"):
        GoneHolder.from_environment(Pods(APIError("")), {"POD_NAMESPACE": "ns"})  # type: ignore[arg-type]


@pytest.mark.parametrize(("proof", "least_s", "most_s"), [(True, 0.0, 3.0), (False, 10.0, 18.0)])
def test_the_lease_of_a_holder_that_has_ended_is_taken_at_once_and_no_other(
    proof: bool, least_s: float, most_s: float
) -> None:
    async def main() -> None:
        clock = LoopClock(asyncio.get_running_loop())
        cluster = Cluster(clock)
        dead = asyncio.Event()
        electors: list[LeaderElector] = []

        async def ended(identity: str) -> bool:
            return proof and dead.is_set() and identity == "a"

        tasks = []
        leads = asyncio.Event()
        for name, started in (("a", asyncio.Event().set), ("b", leads.set)):
            client: Client = cluster.client()
            config = ElectionConfig(name)
            elector = LeaderElector(client, clock, random.Random(name), config, on_started=started, has_ended=ended)
            electors.append(elector)
            tasks.append(asyncio.ensure_future(elector.run()))
            await asyncio.sleep(1)
        await asyncio.sleep(20)
        assert electors[0].is_leader
        tasks[0].cancel()
        dead.set()
        killed = clock.now()
        await leads.wait()
        assert least_s <= clock.now() - killed <= most_s
        tasks[1].cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    run_virtual(main())
