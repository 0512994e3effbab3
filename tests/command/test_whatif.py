"""`kscheduler whatif` from its arguments to its answer, on records and on what `simulate` takes."""

from __future__ import annotations

import asyncio
import json
import shlex
from pathlib import Path
from typing import Any

import pytest

from kscheduler.command.cli import main
from kscheduler.record.recorder import RecorderOptions
from kscheduler.simulator.cluster import Cluster
from kscheduler.simulator.cluster_client import ClusterClient
from kscheduler.testing import make_node, make_pod
from kscheduler.ui.documents import DocumentKind, read_document
from tests.record.recording import record
from tests.replay.recorded_run import recorded

GENERATED = ("--nodes", "4", "--pods", "60", "--seed", "3")


def answer(capsys: pytest.CaptureFixture[str], *flags: str) -> dict[str, Any]:
    assert main(["whatif", *flags, "-o", "json", "--quiet"]) == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def refused(capsys: pytest.CaptureFixture[str], code: int, *flags: str) -> str:
    assert main(["whatif", *flags, "--quiet"]) == code
    return capsys.readouterr().err


async def too_many(cluster: Cluster, client: ClusterClient) -> None:
    """Six pods in a minute for two nodes with room for two each."""
    for number in range(2):
        cluster.create_node(make_node(f"n{number}").capacity(cpu="2", memory="8Gi").label("pool", "web").obj())
    for number in range(6):
        cluster.create_pod(make_pod(f"p{number}").req(cpu="1").obj())
        await asyncio.sleep(10.0)


@pytest.fixture
def running(tmp_path: Path) -> str:
    """The record of a running scheduler."""
    path = tmp_path / "run.zst"
    recorded(path, too_many)
    return str(path)


def test_added_nodes_are_answered_as_a_difference(capsys: pytest.CaptureFixture[str], running: str) -> None:
    found = answer(capsys, "--record", running, "--add-nodes", "1:n0")
    assert found["changes"] == ["with 1 more node (n0)"]
    pods = found["comparison"]["pods"]
    assert (pods["common"], pods["only_placed_in_b"], pods["placed_in_neither"]) == (6, 2, 0)
    assert found["by_chance"]["common"] == 6
    assert [each["before_s"] for each in found["waiting"]][2:] == [None, None]
    assert found["waiting"][3]["after_s"] < 1.0
    assert found["pending"] == []


def test_added_nodes_are_answered_as_a_text(capsys: pytest.CaptureFixture[str], running: str) -> None:
    assert main(["whatif", "--record", running, "--add-nodes", "1:n0", "--limit", "2"]) == 0
    text = capsys.readouterr().out
    assert text.startswith("what if: with 1 more node (n0)\n\n2 pods are scheduled that were not (e.g. default/p4, ")
    assert "0 pods stay pending\n" in text
    assert "max" in text
    assert "for ever" in text
    assert "A: as it is (simulated)\nB: changed (simulated)\n" in text


def test_the_answer_is_a_page_too(capsys: pytest.CaptureFixture[str], running: str, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    answer(capsys, "--record", running, "--add-nodes", "1:n0", "--no-chance", "--html", str(page))
    assert b"added-n0-0" in page.read_bytes()
    assert b'"changes":["with 1 more node (n0)"]' in page.read_bytes()
    nowhere = str(tmp_path / "none" / "page.html")
    assert "page.html: " in refused(capsys, 2, "--record", running, "--add-nodes", "1:n0", "--html", nowhere)


def test_the_answer_is_the_same_every_time(capsys: pytest.CaptureFixture[str], running: str) -> None:
    def figures() -> dict[str, Any]:
        found = answer(capsys, "--record", running, "--cordon", "n1")
        for side in ("a", "b"):
            found["comparison"][side]["report"].pop("machine")
        found["comparison"].pop("figures")  # of which the speeds differ
        return found

    assert figures() == figures()


def test_a_record_of_objects_only_will_do(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    async def play(cluster: Cluster) -> None:
        cluster.create_pod(make_pod("p").req(cpu="1").obj())
        await asyncio.sleep(1.0)

    def prepare(cluster: Cluster) -> None:
        cluster.create_node(make_node("n0").capacity(cpu="1", memory="8Gi").obj())

    path = tmp_path / "run.zst"
    record(RecorderOptions(path), prepare, play)
    found = answer(capsys, "--record", str(path), "--taint", "n0", "kept:NoSchedule")
    assert found["comparison"]["pods"]["only_placed_in_a"] == 1
    assert [reason["kind"] for reason in found["pending"]] == ["node(s) had untolerated taint(s)"]


def test_the_page_takes_what_is_printed_as_json(
    capsys: pytest.CaptureFixture[str], running: str, tmp_path: Path
) -> None:
    flags = ["--record", running, "--find", "min-nodes", "--add-nodes", "n0", "--slo", "pending p99 < 30s"]
    found = answer(capsys, *flags)
    path = tmp_path / "answer.json"
    path.write_text(json.dumps(found))
    assert read_document(path).kind is DocumentKind.WHAT_IF
    assert shlex.split(found["command"])[2:-3] == flags
    assert found["needed"]["objectives"] == [{"text": "pending p99 < 30s", "value": 30.0, "unit": "seconds"}]
    assert [trial["values"] for trial in found["needed"]["trials"]] == [[0.0025], [None]]


def test_the_fewest_nodes_are_found(capsys: pytest.CaptureFixture[str], running: str) -> None:
    found = answer(
        capsys, "--record", running, "--find", "min-nodes", "--add-nodes", "n0", "--slo", "pending p99 < 30s"
    )
    assert (found["needed"]["nodes"], [trial["nodes"] for trial in found["needed"]["trials"]]) == (1, [1, 0])
    assert found["changes"] == ["with 1 more node (n0)"]


def test_each_trial_is_shown_while_it_searches(capsys: pytest.CaptureFixture[str], running: str) -> None:
    flags = ["--find", "min-nodes", "--add-nodes", "n0", "--slo", "pending p99 < 30s", "--limit", "0"]
    assert main(["whatif", "--record", running, *flags]) == 0
    shown = capsys.readouterr()
    assert shown.err.startswith("n0: 1 more: pending p99 = 2.5 ms: met\nn0: 0 more: pending p99 = for ever: not met\n")
    assert shown.out.startswith("1 more node (n0) is needed for pending p99 < 30s\n  0 more: ")


def test_a_job_that_is_bound_sooner_leaves_sooner(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """Four jobs of 30 s, one after the other on one node: on two nodes the last one waits half as long."""

    async def queued(cluster: Cluster, client: ClusterClient) -> None:
        cluster.create_node(make_node("n0").capacity(cpu="1", memory="8Gi").obj())
        for number in range(4):
            cluster.create_pod(make_pod(f"p{number}").req(cpu="1").owner("Job", "job").obj())
        for _ in range(4):
            await asyncio.sleep(30.0)
            ended = next(pod for pod in cluster.pods.values() if pod.spec.node_name)
            cluster.delete_pod(ended.key)

    path = tmp_path / "run.zst"
    recorded(path, queued)
    found = answer(capsys, "--record", str(path), "--add-nodes", "1:n0", "--no-chance")
    longest = next(each for each in found["waiting"] if each["share"] == "max")
    assert longest["before_s"] == pytest.approx(90.0, abs=5.0)
    assert longest["after_s"] == pytest.approx(30.0, abs=5.0)


def test_another_release_is_answered(capsys: pytest.CaptureFixture[str], running: str) -> None:
    found = answer(capsys, "--record", running, "--new-emulated-version", "1.37")
    assert found["changes"] == ["with the kube-scheduler of release 1.37"]
    assert found["comparison"]["parameters"] == [["emulated release", "1.36", "1.37"]]
    assert found["comparison"]["pods"]["moved"] == 0


def test_other_feature_gates_are_answered(capsys: pytest.CaptureFixture[str], running: str) -> None:
    gates = "StorageCapacityScoring=true"
    found = answer(capsys, "--record", running, "--new-feature-gates", gates)
    assert found["changes"] == [f"with the feature gates {gates}"]
    assert found["comparison"]["pods"]["moved"] == 0
    shown = refused(capsys, 2, "--record", running, "--new-feature-gates", "Foo=true")
    assert "--new-feature-gates: unrecognized feature gate: Foo" in shown


def test_gates_of_both_scenarios_are_kept_unless_another_release_is_asked_for(
    capsys: pytest.CaptureFixture[str], running: str
) -> None:
    both = ("--record", running, "--feature-gates", "GenericWorkload=true")
    found = answer(capsys, *both, "--new-feature-gates", "GangScheduling=true")
    changed = "GangScheduling=true,GenericWorkload=true"
    assert found["comparison"]["parameters"] == [["feature gates", "GenericWorkload=true", changed]]
    found = answer(capsys, *both, "--new-emulated-version", "1.37", "--new-feature-gates", "VolumeLimitScaling=false")
    assert found["comparison"]["parameters"] == [
        ["emulated release", "1.36", "1.37"],
        ["feature gates", "GenericWorkload=true", "VolumeLimitScaling=false"],
    ]


def test_feature_gates_without_effect_are_notes_on_the_scenarios_that_have_them(
    capsys: pytest.CaptureFixture[str], running: str
) -> None:
    both = ("--record", running, "--feature-gates", "MemoryQoS=true")
    old = "--feature-gates MemoryQoS=true has no effect: it is of other parts of Kubernetes."

    def on_gates(*flags: str) -> list[list[str]]:
        sides = (answer(capsys, *both, *flags)["comparison"][side]["report"]["notes"] for side in "ab")
        return [[note for note in notes if "feature-gates" in note] for notes in sides]

    assert on_gates("--new-feature-gates", "StorageCapacityScoring=true") == [[old], [old]]
    before, after = on_gates("--new-feature-gates", "PodLevelResourceManagers=true")
    assert (before, after[:1]) == ([old], [old])
    assert after[1].startswith("--new-feature-gates PodLevelResourceManagers=true has no effect: ")
    assert on_gates("--new-emulated-version", "1.37") == [[old], []], "another release begins with its own gates"


def test_another_configuration_is_answered(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    config = tmp_path / "packing.yaml"
    config.write_text(
        "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\nprofiles:\n"
        "- pluginConfig:\n  - {name: NodeResourcesFit, args: {scoringStrategy: {type: MostAllocated}}}\n"
    )
    path = "profiles[0].pluginConfig[name=NodeResourcesFit].args.scoringStrategy.type"
    by_file = answer(capsys, *GENERATED, "--first-on-tie", "--new-config", str(config))
    by_path = answer(capsys, *GENERATED, "--first-on-tie", "--set", f"{path}=MostAllocated")
    assert by_file["comparison"]["pods"] == by_path["comparison"]["pods"]
    assert by_file["comparison"]["pods"]["moved"] > 0
    assert by_file["by_chance"] is None


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (("--add-nodes", "3:genral-32"), '--add-nodes: unknown shape "genral-32": did you mean "general-32"?'),
        (("--weight", "NodeAfinity=3"), '--weight: unknown plugin "NodeAfinity": did you mean "NodeAffinity"?'),
        (("--remove-nodes", "node-9"), '--remove-nodes: "node-9" is no node, shape or label of the 4 nodes'),
        (("--slo", "pending p99 < 3", "--find", "min-nodes", "--add-nodes", "gpu-8"), "expected a duration"),
        (("--new-config", "none.yaml"), "none.yaml: "),
        (("--set", "profiles[0].schedulerName=other", "--cordon", "all"), "expected the profiles default-scheduler"),
    ],
)
def test_wrong_input_is_refused_in_clear_words(
    capsys: pytest.CaptureFixture[str], flags: tuple[str, ...], message: str
) -> None:
    assert message in refused(capsys, 2, *GENERATED, *flags)


def test_an_objective_that_is_never_met_is_a_failure_with_the_reason(
    capsys: pytest.CaptureFixture[str], running: str
) -> None:
    flags = ("--find", "min-nodes", "--add-nodes", "n0", "--slo", "pending p50 < 1us", "--most", "1")
    error = refused(capsys, 1, "--record", running, *flags)
    assert (
        'error: expected "pending p50 < 1us" to hold with at most 1 more node (n0, --most), got pending p50 = ' in error
    )


def test_a_truncated_record_is_played_as_far_as_it_goes(
    capsys: pytest.CaptureFixture[str], running: str, tmp_path: Path
) -> None:
    whole = Path(running).read_bytes()
    cut = tmp_path / "cut.zst"
    cut.write_bytes(whole[: len(whole) - 30])
    found = answer(capsys, "--record", str(cut), "--add-nodes", "1:n0", "--no-chance")
    assert any(note.startswith("The record has no end") for note in found["comparison"]["a"]["report"]["notes"])
    cut.write_bytes(whole[:100])
    assert "cut.zst: " in refused(capsys, 2, "--record", str(cut), "--add-nodes", "1:n0")


def test_a_tampered_record_is_refused(capsys: pytest.CaptureFixture[str], running: str) -> None:
    content = bytearray(Path(running).read_bytes())
    content[len(content) // 2] ^= 0xFF
    Path(running).write_bytes(content)
    assert "run.zst: " in refused(capsys, 2, "--record", running, "--add-nodes", "1:n0")
