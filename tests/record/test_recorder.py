"""A recorder writes what is there, then every change in order, in parts that can be read by themselves."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from kscheduler.api.elastic_quotas import ElasticQuota, ElasticQuotaSpec
from kscheduler.api.objects import Node, ObjectMeta, Pod
from kscheduler.api.pod_groups import CoschedulingPodGroup, PodGroup
from kscheduler.api.share_queues import KaiQueueObject, QueueObject, QueueSpec
from kscheduler.errors import ConfigError
from kscheduler.input.decoding import json_decoder
from kscheduler.record import recorder
from kscheduler.record.entries import Change
from kscheduler.record.reader import RecordReader
from kscheduler.record.recorder import RecorderOptions
from kscheduler.record.writer import RecordWriter
from kscheduler.simulator.cluster import Cluster
from tests.record.recording import OnFullDisk, entries_of, record
from tests.simulator.first_fit import make_node
from tests.simulator.objects import binding, make_pod


def nothing(cluster: Cluster) -> None:
    pass


async def rest(cluster: Cluster) -> None:
    await asyncio.sleep(1.0)


def test_what_is_there_and_every_change_are_recorded_in_order(tmp_path: Path) -> None:
    def prepare(cluster: Cluster) -> None:
        cluster.create_node(make_node("n0"))
        cluster.create_pod(make_pod("old"))

    async def play(cluster: Cluster) -> None:
        await asyncio.sleep(2.0)
        pod = cluster.create_pod(make_pod("new"))
        await asyncio.sleep(0.5)
        cluster.bind(binding(pod))
        cluster.delete_pod("default/old")
        cluster.create_node(make_node("n1"))
        await asyncio.sleep(0.5)

    recorder = record(RecorderOptions(tmp_path / "run.zst", "kind: Any"), prepare, play)
    entries = entries_of(tmp_path / "run.zst")
    assert entries[:3] == ["0 ADDED nodes n0", "0 ADDED pods old", "synced"]
    assert entries[3] == "2 ADDED pods new"
    assert sorted(entries[4:]) == ["2.5 ADDED nodes n1", "2.5 DELETED pods old", "2.5 MODIFIED pods new"]
    reader = RecordReader(tmp_path / "run.zst")
    assert (reader.header.part, reader.header.configuration) == (1, "kind: Any")
    assert (recorder.changes, recorder.objects) == (4, {"nodes": 2, "pods": 1})
    assert recorder.bytes == (tmp_path / "run.zst").stat().st_size


def test_kinds_of_others_go_by_plural_and_group(tmp_path: Path) -> None:
    """Two kinds are called queues, and two podgroups; an apiserver that serves none of them is recorded as well."""
    named = ObjectMeta(name="team")
    in_namespace = ObjectMeta(name="train", namespace="default")

    def prepare(cluster: Cluster) -> None:
        cluster.create_object(QueueObject(named, spec=QueueSpec()))
        cluster.create_object(KaiQueueObject(named))
        cluster.create_object(ElasticQuota(in_namespace, ElasticQuotaSpec({"cpu": "4"})))
        cluster.create_object(CoschedulingPodGroup(in_namespace))
        cluster.create_object(PodGroup(in_namespace))

    record(RecorderOptions(tmp_path / "run.zst"), prepare, rest)
    assert entries_of(tmp_path / "run.zst") == [
        "0 ADDED elasticquotas.scheduling.x-k8s.io train",
        "0 ADDED queues.kscheduler.io team",
        "0 ADDED queues.scheduling.run.ai team",
        "0 ADDED podgroups.scheduling.x-k8s.io train",
        "0 ADDED podgroups.scheduling.k8s.io train",
        "synced",
    ]


def test_annotations_that_may_hold_anything_are_left_out(tmp_path: Path) -> None:
    pod = (
        '{"metadata":{"name":"p","namespace":"default","annotations":{"kscheduler.io/explain":"details",'
        '"kubectl.kubernetes.io/last-applied-configuration":"TOKEN=secret","example.com/key":"secret"}},'
        '"spec":{"containers":[{"name":"c","env":[{"name":"TOKEN","value":"secret"}]}]}}'
    )
    decode = json_decoder(Pod)
    decoded = decode(pod.encode())
    record(RecorderOptions(tmp_path / "run.zst"), lambda cluster: cluster.create_pod(decoded), rest)
    changes = [entry for entry in RecordReader(tmp_path / "run.zst") if isinstance(entry, Change)]
    assert decode(changes[0].object).metadata.annotations == {"kscheduler.io/explain": "details"}
    assert not any(b"secret" in bytes(change.object) for change in changes)


def test_a_large_part_is_followed_by_another_that_can_be_read_alone(tmp_path: Path) -> None:
    async def play(cluster: Cluster) -> None:
        for number in range(5):
            cluster.create_pod(make_pod(f"p{number}"))
            await asyncio.sleep(1.0)

    options = RecorderOptions(tmp_path / "run.zst", part_bytes=1, keep_parts=2)
    recorder = record(options, lambda cluster: cluster.create_node(make_node("n0")), play)
    assert len(recorder.parts) == 2
    assert set(recorder.parts) == set(tmp_path.iterdir())
    last = recorder.parts[-1]
    assert RecordReader(last).header.part > 2
    before = entries_of(last)[: entries_of(last).index("synced")]
    assert before == ["0 ADDED nodes n0", *(f"0 ADDED pods p{number}" for number in range(len(before) - 1))]
    assert len(before) >= 4


def test_files_are_numbered_on_though_the_first_are_removed(tmp_path: Path) -> None:
    async def play(cluster: Cluster) -> None:
        for number in range(6):
            cluster.create_pod(make_pod(f"p{number}"))
            await asyncio.sleep(1.0)

    ended = record(RecorderOptions(tmp_path / "run.zst", part_bytes=1, keep_parts=1), nothing, play)
    (last,) = ended.parts
    number = RecordReader(last).header.part
    assert number > 3
    assert last == tmp_path / f"run.{number}.zst"


def test_a_recorder_that_starts_again_begins_another_part(tmp_path: Path) -> None:
    first = record(RecorderOptions(tmp_path / "run.zst"), nothing, rest)
    second = record(RecorderOptions(tmp_path / "run.zst"), nothing, rest)
    assert [first.parts, second.parts] == [[tmp_path / "run.zst"], [tmp_path / "run.2.zst"]]
    assert RecordReader(second.parts[0]).header.part == 2


def test_a_full_disk_ends_the_recording_with_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def play(cluster: Cluster) -> None:
        def refuse(self: RecordWriter, content: bytes) -> None:
            raise ConfigError(f"{self.path}: cannot be written: No space left on device")

        monkeypatch.setattr(RecordWriter, "_put", refuse)
        cluster.create_pod(make_pod("p"))
        await asyncio.sleep(5.0)

    with pytest.raises(ConfigError, match="No space left on device"):
        record(RecorderOptions(tmp_path / "run.zst"), nothing, play)


def test_a_disk_without_any_space_ends_the_recording_with_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recorder, "RecordWriter", OnFullDisk)
    with pytest.raises(ConfigError, match=r"run\.zst: cannot be written: No space left on device"):
        record(RecorderOptions(tmp_path / "run.zst"), nothing, rest)


def test_an_object_is_read_as_it_was_recorded(tmp_path: Path) -> None:
    made: list[Node] = []
    options = RecorderOptions(tmp_path / "run.zst")
    record(options, lambda cluster: made.append(cluster.create_node(make_node("n0", cpu="4"))), rest)
    (added,) = [entry for entry in RecordReader(options.path) if isinstance(entry, Change)]
    assert json_decoder(Node)(added.object) == made[0]
