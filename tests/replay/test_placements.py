"""Each recorded placement is explained: as ours, by chance, by order, by sampling; or it is a difference."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from msgspec.structs import replace

from kscheduler.api.objects import Node, Pod
from kscheduler.command.cli import main
from kscheduler.config.load import default_config
from kscheduler.config.releases import RELEASE_1_36, RELEASE_1_37, Release
from kscheduler.config.types import SchedulerConfig
from kscheduler.record.entries import OBJECTS_ONLY, Change, ChangeType, End, Header, Synced
from kscheduler.record.kept_fields import encoded
from kscheduler.record.writer import RecordWriter
from kscheduler.replay.placements import Explanation, judge
from kscheduler.testing import make_node, make_pod

ALL = replace(default_config(), percentage_of_nodes_to_score=100)


def node(name: str, cpu: str = "4") -> Node:
    return make_node(name).capacity(cpu=cpu, memory="16Gi", pods=110).obj()


def pod(name: str, cpu: str = "1", on: str = "") -> Pod:
    made = make_pod(name).req(cpu=cpu, memory="100Mi").obj()
    return replace(made, metadata=replace(made.metadata, uid=f"uid-{name}"), spec=replace(made.spec, node_name=on))


def write(path: Path, nodes: Sequence[Node], placed: Sequence[Pod], existing: Sequence[Pod] = ()) -> Path:
    """A record in which all pods were pending, and then bound one after the other to the nodes that they name."""
    with RecordWriter(path) as writer:
        writer.write(Header(OBJECTS_ONLY, "0.1.0", 0.0))

        def change(at: float, resource: str, kind: ChangeType, obj: Node | Pod) -> None:
            writer.write(Change(at, resource, kind, encoded(obj)))

        for each in nodes:
            change(0.0, "nodes", "ADDED", each)
        for each_pod in existing:
            change(0.0, "pods", "ADDED", each_pod)
        writer.write(Synced(0.0))
        for each_pod in placed:
            change(1.0, "pods", "ADDED", replace(each_pod, spec=replace(each_pod.spec, node_name="")))
        for at, each_pod in enumerate(placed):
            change(2.0 + at, "pods", "MODIFIED", each_pod)
        writer.write(End(100.0))
    return path


def explained(path: Path, config: SchedulerConfig = ALL) -> dict[Explanation, int]:
    return {each: number for each, number in judge(path, config).counts.items() if number}


def test_a_pod_on_the_node_that_we_choose_needs_no_explanation(tmp_path: Path) -> None:
    path = write(tmp_path / "run.zst", [node("n0"), node("n1", "64")], [pod("a", on="n1")])
    assert explained(path) == {Explanation.SAME: 1}


def test_chance_decides_between_equal_nodes(tmp_path: Path) -> None:
    path = write(tmp_path / "run.zst", [node("n0"), node("n1")], [pod("a", on="n1")])
    assert explained(path) == {Explanation.TIE: 1}


def test_a_binding_may_be_reported_before_that_of_a_pod_decided_earlier(tmp_path: Path) -> None:
    """The first pod was decided when the second was on n0 already, though the record has them the other way round."""
    path = write(tmp_path / "run.zst", [node("n0", "8"), node("n1", "6")], [pod("b", on="n1"), pod("a", "4", on="n0")])
    assert explained(path)[Explanation.ORDER] == 1


def test_a_node_of_a_lower_score_is_a_difference_with_both_scores(tmp_path: Path) -> None:
    path = write(tmp_path / "run.zst", [node("n0"), node("n1", "64")], [pod("a", "3", on="n0")])
    found = judge(path, ALL)
    (difference,) = found.unexplained
    assert not found.is_explained
    assert (difference.node, difference.best, difference.explanation) == ("n0", "n1", Explanation.LOWER)
    theirs, ours = map(int, difference.why.split(" against "))
    assert theirs < ours


def test_a_scheduler_that_samples_may_take_a_lower_score_among_many_nodes(tmp_path: Path) -> None:
    nodes = [node("n0"), *(node(f"m{number}", "64") for number in range(120))]
    path = write(tmp_path / "run.zst", nodes, [pod("a", "3", on="n0")])
    assert explained(path, default_config()) == {Explanation.SAMPLED: 1}
    assert explained(path, ALL) == {Explanation.LOWER: 1}


def test_a_node_that_does_not_fit_is_a_difference_with_the_reason(tmp_path: Path) -> None:
    path = write(tmp_path / "run.zst", [node("n0", "1"), node("n1", "64")], [pod("a", "3", on="n0")])
    (difference,) = judge(path, ALL).unexplained
    assert (difference.explanation, difference.why) == (Explanation.UNFIT, "Insufficient cpu")


@pytest.mark.parametrize(
    ("release", "explanation"), [(RELEASE_1_36, Explanation.UNFIT), (RELEASE_1_37, Explanation.SAME)]
)
def test_a_pod_that_cannot_be_resized_counts_as_in_the_release_of_its_scheduler(
    tmp_path: Path, release: Release, explanation: Explanation
) -> None:
    """It has no status of containers yet, so that 1.37 counts nothing for it, and 1.36 what it requests."""
    resizing = make_pod("a").req(cpu="8").condition("PodResizePending", "True", "Infeasible").obj()
    path = write(tmp_path / "run.zst", [node("n0")], [replace(resizing, spec=replace(resizing.spec, node_name="n0"))])
    assert explained(path, default_config(release)) == {explanation: 1}


def test_pods_of_other_schedulers_are_only_looked_at_as_neighbours(tmp_path: Path) -> None:
    stranger = pod("s", "3", on="n1")
    stranger = replace(stranger, spec=replace(stranger.spec, scheduler_name="other"))
    path = write(tmp_path / "run.zst", [node("n0"), node("n1")], [stranger, pod("a", "3", on="n0")])
    assert explained(path) == {Explanation.SAME: 1}


def test_the_command_counts_them_and_shows_what_is_not_explained(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write(tmp_path / "run.zst", [node("n0"), node("n1", "64")], [pod("b", on="n1"), pod("a", "3", on="n0")])
    assert main(["replay", str(path)]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[:3] == [
        "2 placements in the record",
        "1 on the node that kscheduler chooses",
        "1 on a node of a lower score",
    ]
    assert lines[4] == "3.000000 s, pod default/a: on a node of a lower score"
