"""Every decision of a recorded scheduler comes out again, and where it does not, that is shown."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Sequence
from pathlib import Path

import pytest
import zstandard
from msgspec.structs import replace

from kscheduler.config.load import default_config, parse_config
from kscheduler.config.releases import RELEASE_1_37
from kscheduler.errors import ConfigError
from kscheduler.explain.decisions import ANNOTATION, DETAILS
from kscheduler.explain.options import DecisionLogOptions
from kscheduler.record.entries import Decided, Decision, Divided, End
from kscheduler.record.recorder import RecorderOptions
from kscheduler.record.writer import RecordWriter
from kscheduler.replay.replay import Difference, RecordedInputs
from kscheduler.scheduler import Options
from kscheduler.simulator.claim_controller import ClaimController
from kscheduler.simulator.cluster import Cluster
from kscheduler.simulator.cluster_client import ClusterClient
from kscheduler.simulator.faults import FaultKind, Verb
from kscheduler.simulator.virtual_time import LoopClock
from kscheduler.simulator.volume_controller import VolumeController
from kscheduler.testing import make_node, make_pod
from tests.devices.building import devices, make_slice, request
from tests.framework.plugins.volumebinding.objects import make_claim, make_class, pod_with
from tests.record.recording import record
from tests.replay.recorded_run import PACKING, Play, busy, decisions, entries, recorded, replayed
from tests.scenarios.quotas import CONFIG as QUOTAS
from tests.scenarios.quotas import quota
from tests.scenarios.share_queues import CONFIG as SHARES
from tests.scenarios.share_queues import LABEL as QUEUE_LABEL
from tests.scenarios.share_queues import queue as share_queue
from tests.support.devices import GPU, TEMPLATE, backing, gpu_pod, template


def kinds_of(made: Sequence[Decision]) -> set[str]:
    return {"placed" if each.node else "preempts" if each.victims else "rejected" for each in made}


def test_the_same_configuration_makes_every_decision_again(tmp_path: Path) -> None:
    path = tmp_path / "run.zst"
    recorded(path, busy)
    found = replayed(path)
    assert found.is_equal
    assert found.decisions == found.equal == len(decisions(path)) > 200
    assert found.requests > 0
    assert kinds_of(decisions(path)) == {"placed", "preempts", "rejected"}
    assert not found.is_cut


async def faulty(cluster: Cluster, client: ClusterClient) -> None:
    for verb in (Verb.BIND, Verb.DELETE_POD, Verb.PATCH_STATUS):
        for kind in (FaultKind.CONFLICT, FaultKind.SERVER_ERROR, FaultKind.LOST_ANSWER, FaultKind.FORBIDDEN):
            client.faults.add(kind, verb, count=5)
    await busy(cluster, client)


async def with_volumes(cluster: Cluster, client: ClusterClient) -> None:
    """Pods whose volumes are made where they go, one of which cannot be made."""
    VolumeController(cluster, asyncio.get_running_loop().call_soon)
    cluster.create_object(make_class("made", "csi.example.com"))
    cluster.create_node(make_node("n0").capacity(cpu="4", memory="16Gi", pods=20).obj())
    client.faults.add(FaultKind.SERVER_ERROR, Verb.PATCH_CLAIM, count=1)
    for number in range(4):
        cluster.create_object(make_claim(f"c{number}", "made"))
        cluster.create_pod(pod_with(f"c{number}", name=f"p{number}").req(cpu="1").obj())
        await asyncio.sleep(0.5)


async def with_devices(cluster: Cluster, client: ClusterClient) -> None:
    """Pods with claims for more devices than there are, some of whose writes fail, and one for an extended resource."""
    ClaimController(cluster, asyncio.get_running_loop().call_soon)
    cluster.create_object(backing("gpu", GPU))
    cluster.create_object(template(TEMPLATE, request()))
    for number in range(2):
        cluster.create_node(make_node(f"n{number}").capacity(cpu="4", memory="16Gi", pods=20).obj())
        gpus = devices("g0", "g1")
        cluster.create_object(make_slice(f"n{number}", gpus, node_name=f"n{number}", pool=f"n{number}"))
    client.faults.add(FaultKind.CONFLICT, Verb.PATCH_RESOURCE_CLAIM_STATUS, count=2)
    client.faults.add(FaultKind.SERVER_ERROR, {Verb.PATCH_RESOURCE_CLAIM, Verb.BIND}, count=2)
    for number in range(5):
        cluster.create_pod(gpu_pod(f"p{number}").obj())
        await asyncio.sleep(0.5)
    cluster.create_pod(make_pod("extended").req(cpu="1", **{GPU: "1"}).obj())
    await asyncio.sleep(5.0)
    cluster.delete_pod("default/p0")
    await asyncio.sleep(5.0)
    cluster.delete_pod("default/p1")


async def with_quotas(cluster: Cluster, client: ClusterClient) -> None:
    """Pods of two namespaces, of which one borrows what the other takes back, and a quota that changes."""
    cluster.create_object(quota("lends", {"cpu": "8"}, {"cpu": "12"}))
    cluster.create_object(quota("borrows", {"cpu": "4"}, {"cpu": "12"}))
    for number in range(3):
        cluster.create_node(make_node(f"n{number}").capacity(cpu="4", memory="16Gi", pods=20).obj())
    for namespace in ("borrows", "lends"):
        for number in range(10):
            cluster.create_pod(make_pod(f"p{number}", namespace).req(cpu="1").obj())
            await asyncio.sleep(0.1)
        await asyncio.sleep(5.0)
    larger = quota("borrows", {"cpu": "4"}, {"cpu": "16"})
    cluster.update_object(larger)
    cluster.create_node(make_node("n3").capacity(cpu="4", memory="16Gi", pods=20).obj())


def test_a_run_with_elastic_quotas_is_replayed_too(tmp_path: Path) -> None:
    path, config = tmp_path / "run.zst", parse_config(QUOTAS)
    recorded(path, with_quotas, config=config)
    assert kinds_of(decisions(path)) == {"placed", "preempts", "rejected"}
    found = replayed(path, config, is_same=True)
    assert found.is_equal, (found.kinds, found.differences[:1])
    assert not replayed(path).is_equal  # without quotas, none of them waits for its share


async def with_shares(cluster: Cluster, client: ClusterClient) -> None:
    """Pods of two queues, of which one takes its share back, also after its share has grown."""
    for name, deserved in (("first", 4), ("second", 8)):
        cluster.create_object(share_queue(name, deserved=deserved))
    for number in range(3):
        cluster.create_node(make_node(f"n{number}").capacity(cpu="4", memory="16Gi", pods=20).obj())
    for name in ("first", "second"):
        for number in range(12):
            cluster.create_pod(make_pod(f"{name}-{number}").label(**{QUEUE_LABEL: name}).req(cpu="1").obj())
            await asyncio.sleep(0.1)
        await asyncio.sleep(5.0)
    cluster.update_object(share_queue("first", deserved=2))
    cluster.update_object(share_queue("second", deserved=10))


def test_a_run_with_queues_is_replayed_too(tmp_path: Path) -> None:
    path, config = tmp_path / "run.zst", parse_config(SHARES)
    recorded(path, with_shares, config=config)
    assert kinds_of(decisions(path)) == {"placed", "preempts", "rejected"}
    assert any(isinstance(entry, Divided) for entry in entries(path))
    found = replayed(path, config, is_same=True)
    assert found.is_equal, (found.kinds, found.differences[:1])


def test_queues_of_a_file_are_not_recorded(tmp_path: Path) -> None:
    file = tmp_path / "queues.yaml"
    file.write_text("apiVersion: kscheduler.io/v1alpha1\nkind: Queue\nmetadata: {name: first}\n")
    config = parse_config(SHARES + f"  pluginConfig: [{{name: Queues, args: {{file: {file}}}}}]\n")
    with pytest.raises(ConfigError, match="got queues with shares that a file defines"):
        recorded(tmp_path / "run.zst", with_shares, config=config)
    assert not (tmp_path / "run.zst").exists()


async def restless(cluster: Cluster, client: ClusterClient) -> None:
    """Pods and nodes that are changed and deleted at any moment, and annotations that no record has."""
    await busy(cluster, client)
    for number in range(0, 100, 7):
        key = f"default/p{number}"
        pod = cluster.pods.get(key)
        if pod is None:
            continue
        if number % 2:
            cluster.delete_pod(key)
        else:
            noted = replace(pod.metadata, annotations={"example.com/note": f"secret {number}"})
            cluster.update_pod(replace(pod, metadata=noted))
        await asyncio.sleep(0.2)
    cluster.delete_node("n3")
    await asyncio.sleep(0.2)
    cluster.create_node(make_node("n3").capacity(cpu="16", memory="32Gi", pods=20).obj())


async def unresizable(cluster: Cluster, client: ClusterClient) -> None:
    """A node with a pod, an empty one, and two pods at once: one that cannot be resized, and one as large as a node."""
    for number in range(2):
        cluster.create_node(make_node(f"n{number}").capacity(cpu="4", memory="16Gi", pods=20).obj())
    cluster.create_pod(make_pod("there").req(cpu="1").node("n0").obj())
    await asyncio.sleep(1.0)
    resizing = make_pod("resizing").req(cpu="4").priority(1).condition("PodResizePending", "True", "Infeasible")
    cluster.create_pod(resizing.obj())
    cluster.create_pod(make_pod("large").req(cpu="4").obj())


def test_a_pod_that_is_put_where_it_was_counts_as_in_the_release(tmp_path: Path) -> None:
    """In 1.37 nothing counts for it, so that the other pod, decided in the same batch, fits beside it."""
    path = tmp_path / "run.zst"
    recorded(path, unresizable, config=default_config(RELEASE_1_37))
    assert {each.pod: each.node for each in decisions(path)} == {"default/resizing": "n1", "default/large": "n1"}
    found = replayed(path, replace(PACKING, release=RELEASE_1_37))
    assert [each.recorded.pod for each in found.differences if each.recorded] == ["default/resizing"]


@pytest.mark.parametrize("play", [faulty, with_volumes, with_devices, restless])
def test_so_does_a_run_with(tmp_path: Path, play: Play) -> None:
    path = tmp_path / "run.zst"
    recorded(path, play)
    found = replayed(path)
    assert found.is_equal, (found.kinds, found.differences[:1])
    assert found.decisions > 0


async def of_one_kind(cluster: Cluster, client: ClusterClient) -> None:
    """Many equal pods at once; some of them ask for details of their decision."""
    for number in range(12):
        cluster.create_node(make_node(f"n{number}").capacity(cpu="32", memory="64Gi", pods=110).obj())
    for number in range(300):
        annotations = {ANNOTATION: DETAILS} if number % 100 == 50 else {}
        cluster.create_pod(make_pod(f"p{number}").req(cpu="1").annotation(**annotations).obj())


@pytest.mark.parametrize("explain", [None, DecisionLogOptions()])
def test_batches_are_made_again(tmp_path: Path, explain: DecisionLogOptions | None) -> None:
    path = tmp_path / "run.zst"
    readings = itertools.count()
    recorded(path, of_one_kind, options=Options(explain=explain), stopwatch=lambda: next(readings) * 1e-4)
    assert max(len(entry.decisions) for entry in entries(path) if isinstance(entry, Decided)) > 20
    found = replayed(path)
    assert found.is_equal, (found.kinds, found.differences[:1])
    assert found.decisions == 300


@pytest.mark.parametrize("options", [Options(compiled_lane=False), Options(first_on_tie=True)])
def test_options_of_the_scheduler_are_in_the_record(tmp_path: Path, options: Options) -> None:
    path = tmp_path / "run.zst"
    recorded(path, busy, options=options)
    assert replayed(path).is_equal


def test_another_configuration_shows_what_it_would_have_decided_each_time(tmp_path: Path) -> None:
    path = tmp_path / "run.zst"
    recorded(path, busy)
    found = replayed(path, PACKING)
    assert not found.is_equal
    assert found.decisions == len(decisions(path))
    assert found.kinds.get("another node", 0) > 0
    first = found.differences[0]
    assert first.recorded is not None
    assert first.replayed is not None
    assert (first.recorded.uid, first.recorded.attempt) == (first.replayed.uid, first.replayed.attempt)


async def two_pods_and_a_node(cluster: Cluster, client: ClusterClient) -> None:
    cluster.create_node(make_node("n0").capacity(cpu="1", memory="1Gi", pods=20).obj())
    for name in ("a", "b"):
        cluster.create_pod(make_pod(name).req(cpu="1").obj())
        await asyncio.sleep(1.0)


def test_further_nodes_show_which_pods_had_found_room(tmp_path: Path) -> None:
    path = tmp_path / "run.zst"
    recorded(path, two_pods_and_a_node)
    node = make_node("more").capacity(cpu="8", memory="8Gi", pods=20).obj()
    found = replayed(path, nodes=[node], is_same=False)
    assert found.kinds["placed only in the replay"] >= 1


def test_after_a_difference_each_decision_has_the_recorded_past(tmp_path: Path) -> None:
    """The record has the second pod nowhere, since the first took its room, wherever the replay puts the first."""
    path = tmp_path / "run.zst"
    recorded(path, two_pods_and_a_node)
    first, *others = decisions(path)
    assert (first.node, {each.node for each in others}) == ("n0", {""})
    altered(path, first, replace(first, node="", code="Unschedulable", plugins=("NodeResourcesFit",), nominated=""))
    found = replayed(path)
    assert found.kinds.pop("placed only in the replay") == 1
    assert found.differences[0].recorded == replace(
        first, node="", code="Unschedulable", plugins=("NodeResourcesFit",), nominated=""
    )


def altered(path: Path, was: Decision, now: Decision) -> None:
    """Write the record again with one decision replaced, as if it had been made."""
    inputs = RecordedInputs(path)
    header, start, rest = inputs.header, inputs.start, list(inputs)
    path.unlink()
    with RecordWriter(path) as writer:
        for entry in (header, start, *rest):
            if isinstance(entry, Decided):
                changed = tuple(now if each == was else each for each in entry.decisions)
                writer.write(replace(entry, decisions=changed))
            else:
                writer.write(entry)
        writer.write(End(1e6))


def test_a_difference_is_named() -> None:
    placed = Decision("u", "default/p", 1, "default-scheduler", "n0", 3)
    rejected = Decision("u", "default/p", 1, "default-scheduler", code="Unschedulable", nominated="")
    assert Difference(0.0, placed, replace(placed, node="n1")).kind == "another node"
    assert Difference(0.0, placed, replace(placed, feasible=2)).kind == "the same node, found otherwise"
    assert Difference(0.0, placed, rejected).kind == "placed only in the record"
    assert Difference(0.0, rejected, placed).kind == "placed only in the replay"
    assert Difference(0.0, rejected, replace(rejected, victims=("v",))).kind == "another preemption"
    assert Difference(0.0, rejected, replace(rejected, reason="x")).kind == "rejected for other reasons"
    assert Difference(0.0, None, placed).kind == "tried only in the replay"


# --- the files ------------------------------------------------------------------------------------------------------


def test_a_record_of_several_files_is_replayed_from_the_first(tmp_path: Path) -> None:
    path = tmp_path / "run.zst"
    scheduler = recorded(path, busy, part_bytes=4096)
    assert len(scheduler.parts) > 2
    found = replayed(path)
    assert found.is_equal
    assert found.decisions == len(decisions(path)) > 200


class SetForward(LoopClock):
    """A wall clock that is set forward by three seconds after a while."""

    def wall(self) -> float:
        return super().wall() + (3.0 if self.now() > 5.0 else 0.0)


def test_files_belong_to_one_record_though_the_wall_clock_was_set(tmp_path: Path) -> None:
    path = tmp_path / "run.zst"
    scheduler = recorded(path, busy, part_bytes=4096, clock_type=SetForward)
    assert len(scheduler.parts) > 2
    found = replayed(path)
    assert found.is_equal
    assert found.decisions > 200
    assert not found.is_cut


def test_a_later_file_alone_is_refused_in_clear_words(tmp_path: Path) -> None:
    path = tmp_path / "run.zst"
    *_, last = recorded(path, busy, part_bytes=4096, keep_parts=2).parts
    assert not path.exists()
    with pytest.raises(ConfigError, match=r"expected a record .* from its first file on, got a later file of one"):
        RecordedInputs(last)


def test_a_record_of_another_run_in_the_next_file_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "run.zst"
    recorded(path, two_pods_and_a_node)
    recorded(path, busy)
    assert replayed(path).decisions == len(decisions(path)) < 20
    assert replayed(tmp_path / "run.2.zst").decisions > 200


def test_a_record_without_its_end_is_replayed_as_far_as_it_goes(tmp_path: Path) -> None:
    path = tmp_path / "run.zst"
    recorded(path, busy)
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    found = replayed(path)
    assert found.is_equal
    assert found.is_cut
    assert found.decisions > 0


def test_a_record_of_objects_only_is_refused_in_clear_words(tmp_path: Path) -> None:
    path = tmp_path / "run.zst"

    async def nothing(cluster: Cluster) -> None:
        pass

    record(RecorderOptions(path), lambda cluster: None, nothing)
    with pytest.raises(ConfigError, match="got one of objects only: simulate --record plays it"):
        RecordedInputs(path)


def test_no_secret_is_in_a_record(tmp_path: Path) -> None:
    path = tmp_path / "run.zst"
    recorded(path, restless)
    plain = zstandard.ZstdDecompressor().decompressobj().decompress(path.read_bytes())
    assert b"secret" not in plain
    assert b"record.kscheduler.io/left-out" in plain


def test_a_record_has_the_start_and_all_objects_first(tmp_path: Path) -> None:
    path = tmp_path / "run.zst"
    recorded(path, two_pods_and_a_node)
    assert type(entries(path)[0]).__name__ == "Synced"
