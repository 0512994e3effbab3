"""A record is a side: as its scheduler placed the pods, with our plugins' answers right before each binding."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from msgspec.structs import replace

from kscheduler.api.objects import Pod
from kscheduler.compare.comparing import compare
from kscheduler.compare.recorded_side import RecordedSide
from kscheduler.config.load import parse_config
from kscheduler.errors import ConfigError
from kscheduler.record.entries import FORMAT, Change, ChangeType, End, Header, Synced
from kscheduler.record.writer import RecordWriter
from kscheduler.simulator.recorded import read_recorded
from kscheduler.wasm.plugins import GuestPlugins
from tests.compare.runs import DEFAULT, LEAST, MOST, nodes, simulated, small_pods, write_record
from tests.simulator.objects import pod

OURS = frozenset(["default-scheduler"])
LARGE = pod("large", cpu="4")


def recorded(path: Path, config: str) -> RecordedSide:
    """A side with a record of two nodes, three small pods and a large one that fits if the small ones are packed."""
    write_record(path, config, nodes(2), [*small_pods(3), LARGE])
    return RecordedSide(str(path), parse_config(config), GuestPlugins(cache_dir=None, reloads=False))


def test_a_record_has_the_nodes_that_its_scheduler_chose(tmp_path: Path) -> None:
    side = recorded(tmp_path / "least.zst", LEAST)
    run = side.run()
    assert run.pods is not None
    assert {key: run.pods.node(row) for key, row in run.pods.rows.items()} == {
        "default/p0": "n0",
        "default/p1": "n1",
        "default/p2": "n0",
        "default/large": "",
    }
    message = run.pods.message(run.pods.rows["default/large"])
    assert message.startswith("0/2 nodes are available: 2 Insufficient cpu.")
    assert run.report.reasons[0].kind == "Insufficient cpu"
    assert run.report.parameters == {"configuration": "as recorded"}


def test_two_records_are_compared_by_the_scores_of_their_configurations(tmp_path: Path) -> None:
    found = compare(recorded(tmp_path / "a.zst", LEAST), recorded(tmp_path / "b.zst", MOST))
    small, large = found.differences
    assert (small.pod, small.node_a, small.node_b) == ("default/p1", "n1", "n0")
    assert (small.why.kind, small.why.plugin, small.state) == ("score", "NodeResourcesFit", "equal")
    assert (small.why.scores[0].in_a, small.why.scores[0].in_b) == ((174, 150), (24, 50))
    assert (large.pod, large.node_a, large.node_b) == ("default/large", "", "n1")
    assert (large.why.kind, large.why.plugin, large.why.message) == ("filter", "NodeResourcesFit", "Insufficient cpu")
    assert (large.state, large.follows_from) == ("different", "default/p1")


def test_a_record_simulated_with_its_own_configuration_does_not_differ(tmp_path: Path) -> None:
    side = recorded(tmp_path / "a.zst", MOST)
    scenario = read_recorded(str(tmp_path / "a.zst"), OURS).scenario
    found = compare(side, simulated("again", scenario, MOST))
    assert (found.pods.same_node, found.pods.different) == (4, 0)


def test_a_record_simulated_with_another_configuration_names_the_plugin(tmp_path: Path) -> None:
    side = recorded(tmp_path / "a.zst", LEAST)
    scenario = read_recorded(str(tmp_path / "a.zst"), OURS).scenario
    found = compare(side, simulated("packed", scenario, MOST))
    assert [(each.pod, each.why.kind, each.why.plugin) for each in found.differences] == [
        ("default/p1", "score", "NodeResourcesFit"),
        ("default/large", "filter", "NodeResourcesFit"),
    ]


def test_placements_that_our_scores_do_not_explain_are_not_explained(tmp_path: Path) -> None:
    # Both are judged by a configuration by which neither of them was made.
    one, other = recorded(tmp_path / "a.zst", LEAST), recorded(tmp_path / "b.zst", MOST)
    guests = GuestPlugins(cache_dir=None, reloads=False)
    sides = [RecordedSide(str(tmp_path / f"{name}.zst"), parse_config(DEFAULT), guests) for name in "ab"]
    assert (one.kind, other.kind) == ("record", "record")
    found = compare(sides[0], sides[1])
    assert found.differences[0].why.kind == "other"


def test_a_record_in_which_a_node_holds_too_much_is_compared_with_a_note(tmp_path: Path) -> None:
    path = tmp_path / "a.zst"
    waiting = [replace(each, metadata=replace(each.metadata, uid=each.key)) for each in small_pods(2, cpu="3")]
    bound = [replace(each, spec=replace(each.spec, node_name="n0")) for each in waiting]
    with RecordWriter(path) as writer:
        writer.write(Header(FORMAT, "0.1.0", 0.0))
        writer.write(Change(0.0, "nodes", "ADDED", msgspec.Raw(msgspec.json.encode(nodes(1)[0]))))
        writer.write(Synced(0.0))
        changes: list[tuple[ChangeType, list[Pod]]] = [("ADDED", waiting), ("MODIFIED", bound)]
        for kind, pods in changes:
            for each in pods:
                writer.write(Change(1.0, "pods", kind, msgspec.Raw(msgspec.json.encode(each))))
        writer.write(End(2.0))
    side = RecordedSide(str(path), parse_config(LEAST), GuestPlugins(cache_dir=None, reloads=False))
    report = side.run().report
    assert (report.pods.placed, report.violations) == (2, [])
    assert "violated, such as: at 1 s: node n0 holds 6000 of cpu, has 4000, after pod default/p1." in report.notes[0]


def test_a_record_that_was_cut_off_says_so(tmp_path: Path) -> None:
    path = tmp_path / "a.zst"
    write_record(path, LEAST, nodes(2), small_pods(3))
    whole = path.read_bytes()
    path.write_bytes(whole[:-9])
    side = RecordedSide(str(path), parse_config(LEAST), GuestPlugins(cache_dir=None, reloads=False))
    assert "The record has no end" in side.run().report.notes[0]
    path.write_bytes(whole[: len(whole) // 9])
    with pytest.raises(ConfigError, match=r"a\.zst: "):
        RecordedSide(str(path), parse_config(LEAST), GuestPlugins(cache_dir=None, reloads=False))
