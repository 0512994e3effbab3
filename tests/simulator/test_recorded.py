"""A record is played again: the same pods at the same times on the same cluster, with any scheduler."""

from __future__ import annotations

import asyncio
import dataclasses
import random
from pathlib import Path

import msgspec
import pytest
from msgspec.structs import replace

from kscheduler.api.objects import Node, OwnerReference, Pod, PodSchedulingGate
from kscheduler.client.concurrency import cancel_and_wait
from kscheduler.client.kinds import NODES, RESOURCE_CLAIMS
from kscheduler.config.load import default_config
from kscheduler.errors import ConfigError
from kscheduler.record.entries import Change, ChangeType, End, Header, Synced
from kscheduler.record.recorder import RecorderOptions
from kscheduler.record.writer import RecordWriter
from kscheduler.scheduler import Options
from kscheduler.simulator.claim_controller import ClaimController
from kscheduler.simulator.cluster import Cluster
from kscheduler.simulator.real_scheduler import RealScheduler, real_scheduler
from kscheduler.simulator.recorded import JOBS_NOTE, NOTE, Recorded, read_recorded
from kscheduler.simulator.run import Outcome, RunSettings, simulate_scenario
from kscheduler.simulator.scenario import Scenario
from kscheduler.simulator.virtual_time import LoopClock
from tests.devices.building import devices, make_class, make_slice, request
from tests.record.recording import Play, record
from tests.scenarios.gangs import BY_LABEL, gang, members
from tests.simulator.first_fit import make_node
from tests.simulator.objects import binding, pod
from tests.support.devices import TEMPLATE, gpu_pod, named_claim, template

OURS = frozenset(["default-scheduler"])
FIRST = Options(first_on_tie=True)


def played(path: Path, play: Play, *nodes: str, options: Options = FIRST) -> Recorded:
    """Record a cluster with these nodes and our scheduler, while `play` changes it; return what the record holds."""

    async def scheduled(cluster: Cluster) -> None:
        clock = LoopClock(asyncio.get_running_loop())
        scheduler = RealScheduler(cluster.client(), clock, random.Random(1), default_config(), options)
        running = asyncio.ensure_future(scheduler.run())
        try:
            await scheduler.wait_for_sync()
            await play(cluster)
            await asyncio.sleep(1.0)
        finally:
            await cancel_and_wait(running)

    record(
        RecorderOptions(path),
        lambda cluster: [cluster.create_node(make_node(name, cpu="4")) for name in nodes],
        scheduled,
    )
    return read_recorded(str(path), OURS)


def replayed(recorded: Recorded, options: Options = FIRST) -> Outcome:
    outcome = simulate_scenario(recorded.scenario, real_scheduler(default_config(), options), RunSettings())
    assert outcome.violations == []
    return outcome


def placements(outcome: Outcome) -> dict[str, str]:
    books = outcome.accounting
    return {one.key: books.rows[one.row].name for one in books.records.values() if one.row >= 0}


def test_groups_in_a_record_are_placed_together_or_not_at_all(tmp_path: Path) -> None:
    """A scheduler without gangs was recorded; the simulated one has them."""

    async def play(cluster: Cluster) -> None:
        for name, size in (("large", 3), ("small", 2)):
            cluster.create_object(gang(name, size))
            for member in members(name, size):
                cluster.create_pod(member.obj())
        await asyncio.sleep(1.0)

    recorded = played(tmp_path / "run.zst", play, "n0")
    assert len(recorded.placements) == 2
    outcome = simulate_scenario(recorded.scenario, real_scheduler(BY_LABEL, FIRST), RunSettings())
    assert placements(outcome) == {"default/small-0": "n0", "default/small-1": "n0"}


def test_the_same_scheduler_places_the_pods_of_a_record_as_before(tmp_path: Path) -> None:
    async def play(cluster: Cluster) -> None:
        for number in range(40):
            cluster.create_pod(pod(f"p{number}", cpu=("500m", "250m")[number % 2]))
            await asyncio.sleep(0.1)

    recorded = played(tmp_path / "run.zst", play, *(f"n{number}" for number in range(5)))
    outcome = replayed(recorded)
    assert len(recorded.placements) == 40
    assert {
        life.uid: placements(outcome)[life.key] for life in outcome.accounting.records.values()
    } == recorded.placements
    assert recorded.compared(outcome) == "40 of 40 pods are on the node that the record has."
    assert [round(life.created_s, 3) for life in outcome.accounting.records.values()][:3] == [0.0, 0.1, 0.2]


def test_a_replay_is_the_same_every_time_where_chance_decides(tmp_path: Path) -> None:
    async def play(cluster: Cluster) -> None:
        for number in range(30):
            cluster.create_pod(pod(f"p{number}", cpu="100m"))
            await asyncio.sleep(0.1)

    seeded = Options()
    recorded = played(tmp_path / "run.zst", play, "n0", "n1", "n2", options=seeded)
    first, second = (placements(replayed(recorded, seeded)) for _ in range(2))
    assert first == second
    assert len(set(first.values())) == 3


def test_claims_and_slices_of_a_record_are_there_and_the_simulation_allocates_them(tmp_path: Path) -> None:
    async def play(cluster: Cluster) -> None:
        ClaimController(cluster, asyncio.get_running_loop().call_soon)
        cluster.create_object(template(TEMPLATE, request()))
        cluster.create_object(named_claim("shared"))
        cluster.create_object(make_class())
        cluster.create_object(make_slice("n1", devices("g0"), node_name="n1", pool="n1"))
        cluster.create_pod(gpu_pod("a").obj())
        await asyncio.sleep(1.0)
        cluster.create_pod(gpu_pod("b").obj())
        await asyncio.sleep(5.0)
        cluster.create_object(make_slice("n0", devices("g0", "g1"), node_name="n0", pool="n0"))
        await asyncio.sleep(5.0)
        cluster.create_pod(gpu_pod("c", "shared").obj())
        await asyncio.sleep(5.0)
        cluster.delete_pod("default/a")
        await asyncio.sleep(5.0)
        cluster.delete_claim("default/shared")  # it is in use: it stays until its pod is gone

    recorded = played(tmp_path / "run.zst", play, "n0", "n1")
    outcome = replayed(recorded)
    assert placements(outcome) == {"default/a": "n1", "default/b": "n0", "default/c": "n0"}
    assert recorded.compared(outcome) == "3 of 3 pods are on the node that the record has."
    claims = outcome.cluster.store(RESOURCE_CLAIMS).objects
    recorded_names = {each.object.key for each in recorded.scenario.changes if each.resource is RESOURCE_CLAIMS}
    assert set(claims) == {key for key in recorded_names if not key.startswith("default/a-")}
    assert claims["default/shared"].metadata.deletion_timestamp is not None
    pools = {key: claim.status.allocation.devices.results for key, claim in claims.items() if claim.status.allocation}
    assert [[each.pool for each in results or ()] for results in pools.values()] == [["n0"], ["n0"]]


def test_nodes_come_change_and_go_at_their_times(tmp_path: Path) -> None:
    async def play(cluster: Cluster) -> None:
        cluster.create_pod(pod("waits", cpu="8"))
        await asyncio.sleep(5.0)
        cluster.create_node(make_node("large", cpu="16"))
        await asyncio.sleep(20.0)
        cluster.delete_node("n0")
        node = cluster.nodes["large"]
        cluster.update_node(replace(node, spec=replace(node.spec, unschedulable=True)))
        await asyncio.sleep(5.0)
        cluster.create_pod(pod("late", cpu="1"))
        await asyncio.sleep(5.0)

    recorded = played(tmp_path / "run.zst", play, "n0")
    outcome = replayed(recorded)
    assert placements(outcome) == {"default/waits": "large"}
    (life, _) = outcome.accounting.records.values()
    assert life.bound_s is not None
    assert life.bound_s >= 5.0
    assert set(outcome.cluster.nodes) == {"large"}


def test_pods_leave_and_are_edited_as_they_were(tmp_path: Path) -> None:
    async def play(cluster: Cluster) -> None:
        gated = cluster.create_pod(pod("gated", scheduling_gates=[PodSchedulingGate(name="g")]))
        cluster.create_pod(pod("short"))
        await asyncio.sleep(3.0)
        gated = cluster.pods[gated.key]
        cluster.update_pod(replace(gated, spec=replace(gated.spec, scheduling_gates=None)))
        cluster.delete_pod("default/short")
        await asyncio.sleep(2.0)

    outcome = replayed(played(tmp_path / "run.zst", play, "n0"))
    lives = {life.key: (life.bound_s, life.left_s) for life in outcome.accounting.records.values()}
    bound_s, left_s = lives["default/gated"]
    assert bound_s is not None
    assert bound_s == pytest.approx(3.0, abs=0.1)
    assert left_s is None
    assert lives["default/short"][1] == pytest.approx(3.0, abs=0.1)


def test_pods_of_another_scheduler_are_where_it_put_them(tmp_path: Path) -> None:
    async def play(cluster: Cluster) -> None:
        theirs = cluster.create_pod(pod("theirs", cpu="4", scheduler_name="other"))
        await asyncio.sleep(1.0)
        cluster.bind(binding(theirs, "n0"))
        await asyncio.sleep(1.0)
        cluster.create_pod(pod("ours", cpu="1"))
        await asyncio.sleep(1.0)

    recorded = played(tmp_path / "run.zst", play, "n0", "n1")
    assert list(recorded.placements.values()) == ["n1"]
    assert placements(replayed(recorded)) == {"default/theirs": "n0", "default/ours": "n1"}


def test_a_pod_that_came_with_its_node_comes_at_its_time(tmp_path: Path) -> None:
    """As a kubelet's static pod does, on a node that joined later."""

    async def play(cluster: Cluster) -> None:
        await asyncio.sleep(10.0)
        cluster.create_node(make_node("joined", cpu="4"))
        await asyncio.sleep(1.0)
        cluster.create_pod(pod("static", node_name="joined"))
        await asyncio.sleep(1.0)

    outcome = replayed(played(tmp_path / "run.zst", play, "n0"))
    [life] = outcome.accounting.records.values()
    assert placements(outcome) == {"default/static": "joined"}
    assert life.created_s == pytest.approx(11.0, abs=0.1)
    assert life.existing


def test_a_pod_whose_node_is_gone_is_no_fault_of_the_scheduler(tmp_path: Path) -> None:
    orphan = pod("orphan", node_name="gone")
    path = written(tmp_path / "run.zst", added(0.0, orphan))
    assert placements(replayed(read_recorded(path, OURS))) == {}


def test_another_scheduler_may_take_room_that_the_simulation_has_given_away(tmp_path: Path) -> None:
    async def play(cluster: Cluster) -> None:
        theirs = cluster.create_pod(pod("theirs", cpu="4", scheduler_name="other"))
        cluster.create_pod(pod("ours", cpu="3"))
        await asyncio.sleep(1.0)
        cluster.bind(binding(theirs, "n1"))
        await asyncio.sleep(1.0)

    recorded = played(tmp_path / "run.zst", play, "n0", "n1")
    [node] = recorded.placements.values()
    assert node == "n0"
    scenario = without_node("n0", recorded.scenario)
    outcome = simulate_scenario(scenario, real_scheduler(default_config(), FIRST), RunSettings())
    assert placements(outcome) == {"default/theirs": "n1", "default/ours": "n1"}
    assert outcome.violations == []


def test_a_pod_that_another_scheduler_bound_at_once_is_bound(tmp_path: Path) -> None:
    """One read of a watch may bring both, so that the record has one time for them."""
    theirs = pod("theirs", scheduler_name="other")
    bound = replace(theirs, spec=replace(theirs.spec, node_name="n0"))
    path = written(
        tmp_path / "run.zst",
        added(0.0, make_node("n0", cpu="4")),
        added(2.0, theirs),
        changed(2.0, bound),
    )
    assert placements(replayed(read_recorded(path, OURS))) == {"default/theirs": "n0"}


def test_pods_that_were_there_keep_their_node(tmp_path: Path) -> None:
    async def play(cluster: Cluster) -> None:
        await asyncio.sleep(1.0)

    def prepare(cluster: Cluster) -> None:
        cluster.create_node(make_node("n0", cpu="4"))
        cluster.create_pod(pod("bound", node_name="n0"))
        cluster.create_pod(pod("waiting"))

    record(RecorderOptions(tmp_path / "run.zst"), prepare, play)
    recorded = read_recorded(str(tmp_path / "run.zst"), OURS)
    assert recorded.placements == {}  # nobody scheduled while it was recorded
    assert placements(replayed(recorded)) == {"default/bound": "n0", "default/waiting": "n0"}


def written(path: Path, *changes: Change, is_whole: bool = True) -> str:
    with RecordWriter(path) as writer:
        writer.write(Header(1, "0.1.0", 0.0))
        if is_whole:
            writer.write(Synced(0.0))
        for change in changes:
            writer.write(change)
        if is_whole:
            writer.write(End(1.0))
    return str(path)


def change(at_s: float, kind: ChangeType, obj: Node | Pod) -> Change:
    if isinstance(obj, Pod):
        obj = replace(obj, metadata=replace(obj.metadata, uid=obj.metadata.uid or obj.metadata.name))
    return Change(at_s, "pods" if isinstance(obj, Pod) else "nodes", kind, msgspec.Raw(msgspec.json.encode(obj)))


def added(at_s: float, obj: Node | Pod) -> Change:
    return change(at_s, "ADDED", obj)


def changed(at_s: float, obj: Node | Pod) -> Change:
    return change(at_s, "MODIFIED", obj)


def without_node(name: str, scenario: Scenario) -> Scenario:
    kept = [each for each in scenario.changes if each.resource is not NODES or each.object.metadata.name != name]
    return dataclasses.replace(scenario, changes=kept)


def test_a_job_that_starts_the_same_worker_again_has_both(tmp_path: Path) -> None:
    """The first one waits for longer than it did in the record, and would still run when the second one comes."""
    first, second = (
        replace(
            worker := pod("train-worker-0", cpu="3"),
            metadata=replace(
                worker.metadata, uid=uid, owner_references=[OwnerReference("kubeflow.org/v1", "PyTorchJob", "train")]
            ),
        )
        for uid in ("first", "second")
    )
    on_node = [replace(each, spec=replace(each.spec, node_name="n0")) for each in (first, second)]
    path = written(
        tmp_path / "run.zst",
        added(0.0, make_node("n0", cpu="4")),
        added(0.0, pod("before", cpu="3")),
        added(1.0, first),
        changed(1.5, on_node[0]),
        change(30.0, "DELETED", pod("before", cpu="3")),
        change(101.5, "DELETED", on_node[0]),
        added(110.0, second),
        changed(110.5, on_node[1]),
        change(210.5, "DELETED", on_node[1]),
    )
    outcome = replayed(read_recorded(path, OURS, jobs_run_on=True))
    lives = [
        (life.uid, round(life.bound_s or 0), round(life.left_s or 0)) for life in outcome.accounting.records.values()
    ]
    assert lives == [("before", 0, 30), ("first", 30, 102), ("second", 110, 210)]


def test_pods_of_jobs_run_as_long_as_they_did_if_that_is_wanted(tmp_path: Path) -> None:
    async def play(cluster: Cluster) -> None:
        for name, owner in (("first", "Job"), ("second", "Job"), ("service", "ReplicaSet")):
            made = pod(name, cpu="4")
            owned = replace(made.metadata, owner_references=[OwnerReference("v1", owner, owner)])
            cluster.create_pod(replace(made, metadata=owned))
            await asyncio.sleep(1.0)
        for name in ("first", "second", "service"):
            await asyncio.sleep(10.0)
            cluster.delete_pod(f"default/{name}")

    played(tmp_path / "run.zst", play, "n0")
    for jobs_run_on in (False, True):
        recorded = read_recorded(str(tmp_path / "run.zst"), OURS, jobs_run_on=jobs_run_on)
        lives = [(each.pod.metadata.name, each.runs_s, each.leaves_at_s) for each in recorded.scenario.arrivals]
        if jobs_run_on:
            assert [(name, round(runs_s or 0.0), leaves_at_s) for name, runs_s, leaves_at_s in lives] == [
                ("first", 13, None),
                ("second", 10, None),  # it waited until the first one left
                ("service", 0, pytest.approx(33.0)),
            ]
            assert recorded.scenario.notes == [JOBS_NOTE]
        else:
            assert [each[1] for each in lives] == [None] * 3
            assert [each[2] for each in lives] == pytest.approx([13.0, 23.0, 33.0])


def test_what_was_listed_while_recording_began_is_there_from_the_start(tmp_path: Path) -> None:
    """As in a record of a running scheduler, whose lists take a while, and whose later files go on counting."""

    waiting, bound, gone, late = pod("bound"), pod("bound", node_name="n0"), pod("gone"), pod("late")
    with RecordWriter(tmp_path / "run.zst") as writer:
        writer.write(Header(1, "0.1.0", 0.0))
        writer.write(added(60.1, waiting))
        writer.write(changed(60.2, bound))
        writer.write(added(60.3, gone))
        writer.write(change(60.4, "DELETED", gone))
        writer.write(added(60.5, make_node("n0", cpu="4")))
        writer.write(Synced(60.5))
        writer.write(added(62.0, late))
        writer.write(End(63.0))
    recorded = read_recorded(str(tmp_path / "run.zst"), OURS)
    assert [(each.at_s, each.pod.key) for each in recorded.scenario.arrivals] == [
        (0.0, "default/bound"),
        (1.5, "default/late"),
    ]
    assert placements(replayed(recorded)) == {"default/bound": "n0", "default/late": "n0"}


def test_a_record_without_an_end_says_so_in_its_notes(tmp_path: Path) -> None:
    path = tmp_path / "run.zst"
    with RecordWriter(path) as writer:
        writer.write(Header(1, "0.1.0", 0.0))
        writer.write(Synced(0.0))
    notes = read_recorded(str(path), OURS).scenario.notes
    assert notes == [NOTE, "The record has no end: its recorder was killed, and its last second may be missing."]


@pytest.mark.parametrize(
    ("resource", "text", "message"),
    [
        pytest.param("jobs", b"{}", "expected one of nodes, .*, got a change of 'jobs'", id="an unknown kind"),
        pytest.param("pods", b'{"spec":{"priority":"x"}}', "expected an object of pods: .*int", id="a wrong field"),
    ],
)
def test_a_change_that_cannot_be_read_is_named(tmp_path: Path, resource: str, text: bytes, message: str) -> None:
    path = written(tmp_path / "run.zst", Change(0.5, resource, "ADDED", msgspec.Raw(text)))
    with pytest.raises(ConfigError, match=message):
        read_recorded(path, OURS)


def test_a_record_cut_off_in_what_was_there_is_refused(tmp_path: Path) -> None:
    added = Change(0.0, "pods", "ADDED", msgspec.Raw(msgspec.json.encode(Pod())))
    with pytest.raises(ConfigError, match="expected all that was there when recording began"):
        read_recorded(written(tmp_path / "run.zst", added, is_whole=False), OURS)
