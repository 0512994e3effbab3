"""Guests that go by pod and node object alone, says their user: what they answer, and how often they are asked."""

from __future__ import annotations

import functools
import itertools
import json
import random
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kscheduler._fast import Scores, Verdicts
from kscheduler.api.documents import NodeDocument, PodDocument
from kscheduler.api.objects import Node
from kscheduler.config.load import parse_config
from kscheduler.framework.class_draft import ClassDraft, Source
from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.faults import CycleFault
from kscheduler.framework.interface import PreFilterResult
from kscheduler.framework.out_of_tree import find_plugins
from kscheduler.framework.signatures import Signer
from kscheduler.framework.status import unschedulable
from kscheduler.snapshot.pod_info import PodInfo
from kscheduler.testing.wrappers import PodBuilder, make_node, make_pod
from kscheduler.wasm.extension.kept_answers import KeptAnswer, KeptAnswers, look_of
from kscheduler.wasm.plugins import GuestPlugins
from kscheduler.watch.eventhandlers import NodeDocuments
from tests.support.lanes import TwoLanes
from tests.wasm.extension.encoding.kept_objects import KeptObjects
from tests.wasm.extension.encoding.samples import NODE, POD
from tests.wasm.extension.kit import Room, compiled, info, module

_OK = "(i32.const 0)"

# How often a letter occurs, after a dot, in the pod and in the node at hand: labels say so.
_COUNTS = """
  (func $count (param $at i32) (param $size i32) (param $letter i32) (result i32) (local $found i32)
    (loop $next (if (i32.gt_s (local.get $size) (i32.const 0)) (then
      (if (i32.eq (i32.load16_u (local.get $at)) (local.get $letter))
        (then (local.set $found (i32.add (local.get $found) (i32.const 1)))))
      (local.set $at (i32.add (local.get $at) (i32.const 1)))
      (local.set $size (i32.sub (local.get $size) (i32.const 1)))
      (br $next))))
    (local.get $found))
  (func $in_pod (param $letter i32) (result i32)
    (call $count (i32.const 8192) (call $pod (i32.const 8192) (i32.const 50000)) (call $dotted (local.get $letter))))
  (func $dotted (param $letter i32) (result i32)
    (i32.or (i32.const 46) (i32.shl (local.get $letter) (i32.const 8))))
  (func $in_node (param $letter i32) (result i32)
    (call $count (i32.const 65536)
      (call $node (i32.const 1024) (call $node_name (i32.const 1024) (i32.const 300))
        (i32.const 65536) (i32.const 60000)) (call $dotted (local.get $letter))))"""
# A pod with Z's has to go where there are as many or more; Y's are preferred.
_NEEDS = "(if (result i32) (i32.gt_u (call $in_pod (i32.const 90)) (call $in_node (i32.const 90)))"
POLICY: dict[str, Any] = {
    "globals_": _COUNTS,
    "text": "no Z",
    "filter": f"{_NEEDS} (then (call $reason (i32.const 16) (i32.const 4)) (i32.const 2)) (else (i32.const 0)))",
    "score": "(i64.shl (i64.extend_i32_u (i32.mul (i32.const 7) (call $in_node (i32.const 89)))) (i64.const 32))",
}
IMPORTS = ("pod", "node", "node_name", "reason")


def guest(**more: Any) -> bytes:
    return module(*IMPORTS, **{**POLICY, **more})


def node(name: str, letters: str = "") -> Node:
    return make_node(name).capacity(cpu="8", memory="16Gi", pods=100).label(of=_dotted(letters)).obj()


def pod(name: str = "p", letters: str = "") -> PodBuilder:
    return make_pod(name).req(cpu="100m").label(of=_dotted(letters))


def _dotted(letters: str) -> str:
    return "".join(f".{letter}" for letter in letters) or "x"


class Asked:
    """A room, and the nodes that its guest asked to see."""

    def __init__(self, data: bytes, monkeypatch: pytest.MonkeyPatch | None = None, **arguments: Any) -> None:
        nodes = [node("n1", "ZY"), node("n2"), node("n3", "ZZYY")]
        self.room = Room(data, nodes, **arguments)
        self.asked: list[str] = []
        world = self.room.plugin._world
        show = world.node

        def noted(name: str) -> bytes:
            self.asked.append(name)
            found: bytes = show(name)
            return found

        world.node = noted
        self.calls = 0
        attempt = self.room.pool.attempt

        def counted(work: Any, uid: str | None = None) -> Any:
            self.calls += 1
            return attempt(work, uid)

        self.room.pool.attempt = counted

    def decide(self, each: PodBuilder) -> dict[str, int | str]:
        """Node -> why not, or its score."""
        table, plugin, state, pod = self.room.cache.table, self.room.plugin, CycleState(), info(each)
        verdicts, scores = Verdicts(), Scores()
        verdicts.reset(table.columns)
        scores.reset(table.columns)
        if hasattr(plugin, "pre_filter"):
            assert plugin.pre_filter(state, pod) == (None, None)
        plugin.filter_table(state, pod, table, verdicts, 1)
        if hasattr(plugin, "pre_score"):
            plugin.pre_score(state, pod)
        plugin.score_table(state, pod, table, verdicts, scores)
        fits = verdicts.feasible_rows()
        return {
            each.name: scores.raw(each.row)
            if each.row in fits
            else str(plugin.explain(state, pod, verdicts.detail(each.row)).message)
            for each in table
        }

    def new_questions(self) -> list[str]:
        asked, self.asked[:] = sorted(self.asked), []
        return asked


def test_a_pod_like_one_before_costs_no_call_and_a_changed_node_one() -> None:
    asked = Asked(guest(prefilter=_OK), pure=True)
    expected = {"n1": 7, "n2": "no Z", "n3": 14}
    assert asked.decide(pod("a", "Z")) == expected
    assert asked.new_questions() == sorted(["n1", "n2", "n3"] * 2)
    assert asked.decide(pod("b", "Z")) == expected
    assert (asked.new_questions(), asked.calls) == ([], 3)  # prefilter, filter, score
    asked.room.cache.set_node(node("n2", "ZYYY"))
    assert asked.decide(pod("c", "Z")) == {**expected, "n2": 21}
    assert asked.new_questions() == ["n2", "n2"]
    asked.room.cache.set_node(node("n2", "ZYYY"))  # the same again
    assert asked.decide(pod("d", "Z")) == {**expected, "n2": 21}
    assert asked.new_questions() == []
    assert asked.decide(pod("e", "ZZ")) == {"n1": "no Z", "n2": "no Z", "n3": 14}  # another look


def test_without_the_users_word_a_guest_is_asked_each_time() -> None:
    asked = Asked(guest())
    for _ in range(2):
        asked.decide(pod())
        assert len(asked.new_questions()) == 6


@pytest.mark.parametrize(
    "more", [{"reserve": _OK}, {"addpod": _OK}, {"normalizescore": _OK}, {"permit": "(i64.const 0)"}]
)
def test_nothing_is_kept_of_guests_that_cannot_do_without_their_calls(more: dict[str, str]) -> None:
    asked = Asked(guest(**more), pure=True)
    for _ in range(2):
        asked.decide(pod())
        assert len(asked.new_questions()) == 6
    assert asked.room.plugin.sign_pod(info(pod())) is None


@settings(max_examples=40, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.sampled_from(["node", "gone", "pod", "pod"]),
            st.integers(0, 5),
            st.sampled_from(["", "Z", "ZZ", "Y", "ZY", "YYYY"]),
        ),
        max_size=25,
    )
)
def test_what_is_kept_is_what_would_be_answered(steps: list[tuple[str, int, str]]) -> None:
    kept, fresh = Asked(guest(prefilter=_OK, prescore=_OK), pure=True), Asked(guest(prefilter=_OK, prescore=_OK))
    for step, number, letters in steps:
        name = f"n{number}"
        for asked in (kept, fresh):
            if step == "node":
                asked.room.cache.set_node(node(name, letters))
            elif step == "gone" and asked.room.cache.table.get(name) is not None:
                asked.room.cache.remove_node(name)
        if step == "pod":
            assert kept.decide(pod("p", letters)) == fresh.decide(pod("p", letters))
    assert len(kept.asked) <= len(fresh.asked) + 6


def test_what_prefilter_and_prescore_say_is_kept_too() -> None:
    names = "(call $names (i32.const 16) (i32.const 3)) (i32.const 0)"
    room = Room(module("names", text="n2\0", prefilter=names, prescore="(i32.const 5)", score="unreachable"), pure=True)
    for name in "ab":
        result, status = room.plugin.pre_filter(CycleState(), info(make_pod(name)))
        assert (set(result.node_names), status) == ({"n2"}, None)
        room.plugin.pre_score(state := CycleState(), info(make_pod(name)))
        verdicts, scores = Verdicts(), Scores()
        verdicts.reset(room.cache.table.columns)
        scores.reset(room.cache.table.columns)
        room.plugin.score_table(state, info(make_pod(name)), room.cache.table, verdicts, scores)
    (answer,) = room.plugin._answers._kept.values()
    assert (answer.is_unscored, answer.pre_filtered[1]) == (True, None)


def test_a_fault_is_not_kept() -> None:
    asked = Asked(guest(filter="(if (call $in_node (i32.const 90)) (then unreachable)) (i32.const 0)"), pure=True)
    for _ in range(2):
        with pytest.raises(CycleFault, match="wasm: filter error"):
            asked.decide(pod())
    for name in ("n1", "n3"):
        asked.room.cache.set_node(node(name))
    asked.room.clock.advance(1000.0)
    assert set(asked.decide(pod())) == {"n1", "n2", "n3"}


def test_a_guest_that_failed_and_is_ignored_is_asked_again() -> None:
    broken = guest(filter="(if (call $in_node (i32.const 90)) (then unreachable)) (i32.const 0)")
    asked = Asked(broken, pure=True, failurePolicy="ignore")
    assert set(asked.decide(pod())) == {"n1", "n2", "n3"}
    assert asked.room.plugin._answers.of(look_of(pod().obj())).seen_marks == -1


def test_more_reasons_than_can_be_kept_are_reported_nevertheless() -> None:
    by_name = "(call $reason (i32.const 1024) (call $node_name (i32.const 1024) (i32.const 300))) (i32.const 2)"
    room = Room(guest(filter=by_name), [node(f"n{number}") for number in range(300)], pure=True)
    verdicts, state = Verdicts(), CycleState()
    verdicts.reset(room.cache.table.columns)
    room.plugin.filter_table(state, info(pod()), room.cache.table, verdicts, 1)
    assert not verdicts.feasible_rows()
    row = room.node("n299").row
    assert room.plugin.explain(state, info(pod()), verdicts.detail(row)).message == "n299"


def test_a_new_version_answers_for_itself() -> None:
    asked = Asked(guest(), pure=True)
    asked.decide(pod("a", "Z"))
    changes = asked.room.cache.table.node_changes.count
    (follower,) = asked.room.guest.followers
    follower.replace(compiled(guest(filter=_OK)))
    assert asked.decide(pod("b", "Z")) == {"n1": 7, "n2": 0, "n3": 14}
    assert asked.room.cache.table.node_changes.count > changes  # so that classes are compiled again


# --- what distinguishes pods ---------------------------------------------------------------------------------------


def whole(**changes: Any) -> PodDocument:
    document = json.loads(json.dumps(POD))
    for path, value in changes.items():
        *parents, last = path.split("__")
        inner = document
        for parent in parents:
            inner = inner[parent]
        inner[last] = value
    return msgspec.json.decode(json.dumps(document, separators=(",", ":")), type=PodDocument)


def test_pods_of_one_template_have_the_same_look() -> None:
    def with_token(name: str) -> PodDocument:
        return whole(spec__volumes=[{"name": name, "projected": {}}], metadata__name=name, metadata__uid=name)

    assert look_of(with_token("kube-api-access-abcde")) == look_of(with_token("kube-api-access-x2x7k"))
    assert look_of(with_token("kube-api-access-abcde")) != look_of(with_token("data"))
    assert look_of(whole()) == look_of(whole(metadata__resourceVersion="9", status={}))


@pytest.mark.parametrize(
    "changes",
    [
        {"metadata__labels": {"app": "db"}},
        {"metadata__namespace": "other"},
        {"metadata__annotations": {"team": "x"}},
        {"spec__terminationGracePeriodSeconds": 31},
        {"spec__containers": []},
    ],
)
def test_whatever_the_guest_may_go_by_distinguishes_pods(changes: dict[str, Any]) -> None:
    assert look_of(whole(**changes)) != look_of(whole())


def test_pods_that_differ_only_in_what_guests_see_have_signatures_of_their_own() -> None:
    room = Room(guest(), pure=True)
    documents: dict[str, PodDocument] = {}
    room.plugin._world._encoder._whole = KeptObjects(documents, {})
    signer = Signer({"default-scheduler": [room.plugin]})

    def signed(name: str, grace: int) -> Any:
        made = pod(name).obj()
        documents[made.metadata.uid] = whole(spec__terminationGracePeriodSeconds=grace)
        return signer.sign(PodInfo(made))

    assert signed("a", 30) is signed("b", 30)
    assert signed("c", 31) is not signed("a", 30)


def test_answers_are_bounded() -> None:
    room = Room(guest())
    rows = room.cache.table.columns.rows
    kept = KeptAnswers(room.cache.table, max_bytes=3 * (KeptAnswer().size_bytes + 9 * rows))
    for letter in b"abcde":
        kept.of(bytes([letter]))
    assert len(kept) == 3


def test_long_reasons_and_many_names_count_among_the_answers() -> None:
    kept = KeptAnswers(Room(guest()).cache.table, max_bytes=100_000)
    for number in range(50):
        answer = kept.of(bytes([number]))
        if number % 2:
            answer.put_pre_filtered((PreFilterResult(frozenset(f"n{node:04}" * 20 for node in range(100))), None))
        else:
            answer.put_marks([0], [(0, unschedulable("x" * 20_000))], 1)
    assert len(kept) <= 6
    kept.of(b"another")
    assert sum(answer.size_bytes for answer in kept._kept.values()) <= 100_000


# --- classes of the compiled lane -----------------------------------------------------------------------------------


def compile_for(room: Room, each: PodBuilder, *, filters: bool = True, weight: int | None = 1) -> ClassDraft | None:
    draft = ClassDraft(room.cache.table.columns, len(room.cache.table.node_classes))
    draft.begin("guest", filters=filters, weight=weight)
    done = room.plugin.compile_class(draft, info(each))
    assert Source.OBJECTS in draft.sources
    assert room.pool.holders == 0
    return draft if done else None


def test_a_class_has_what_the_guest_says() -> None:
    asked = Asked(guest(), pure=True)
    plain, needy = compile_for(asked.room, pod("a")), compile_for(asked.room, pod("b", "Z"))
    assert plain is not None
    assert needy is not None
    assert plain.key != needy.key
    asked.new_questions()
    again = compile_for(asked.room, pod("c", "Z"))
    assert again is not None
    assert again.key == needy.key
    assert asked.new_questions() == []
    no_filter = compile_for(asked.room, pod("d", "Z"), filters=False)
    assert no_filter is not None
    assert no_filter.key == plain.key


@pytest.mark.parametrize(
    "more",
    [
        {"score": "(i64.const 0x6500000000)"},  # 101
        {"score": "(i64.const 1)"},  # an error
        {"prefilter": "(i32.const 2)"},
        {"prefilter": "unreachable"},
        {"prescore": "(i32.const 1)"},
        {"filter": "unreachable"},
        {"reserve": _OK},
    ],
)
def test_what_does_not_go_into_a_class_is_left_to_the_general_lane(more: dict[str, str]) -> None:
    assert compile_for(Asked(guest(**more), pure=True).room, pod("p", "Z")) is None


def test_a_verdict_by_what_node_classes_do_not_hold_is_left_to_the_general_lane() -> None:
    asked = Asked(guest(), pure=True)
    profiles = len(asked.room.cache.table.node_classes)
    asked.room.cache.set_node(make_node("n4").label(of="x").annotation(of=".Z").obj())
    assert len(asked.room.cache.table.node_classes) == profiles  # that of n2
    assert compile_for(asked.room, pod("p", "Z")) is None
    assert asked.decide(pod("p", "Z"))["n4"] == 0


@pytest.mark.parametrize("seed", range(4))
def test_both_lanes_make_the_same_decisions_while_nodes_come_and_go(seed: int, tmp_path: Path) -> None:
    chance = random.Random(seed)
    lanes = lanes_with(guest(prefilter=_OK), tmp_path)
    for number in range(8):
        lanes.set_node(node(f"n{number}", chance.choice(["", "Z", "ZZ", "ZY", "YYY"])))
    for step in range(10):
        lanes.schedule(*(pod(f"p{step}-{number}", chance.choice(["", "Z", "ZZ"])).obj() for number in range(6)))
        for number in chance.sample(range(12), 2):
            lanes.set_node(node(f"n{number}", chance.choice(["", "Z", "ZZ", "ZY", "YYY"])))
    assert lanes.decided_by_lane > 30


def lanes_with(data: bytes, folder: Path) -> TwoLanes:
    path = folder / "guest.wasm"
    path.write_bytes(data)
    guests = GuestPlugins()
    document = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [
            {
                "schedulerName": "default-scheduler",
                "plugins": {"multiPoint": {"enabled": [{"name": "Guest", "weight": 3}]}},
                "pluginConfig": [
                    {"name": "Guest", "args": {"guestURL": path.as_uri(), "pure": True, "deadline": "10s"}}
                ],
            }
        ],
    }
    find = functools.partial(find_plugins, guests=guests)
    return TwoLanes(parse_config(json.dumps(document), "s.yaml", find_plugins=find), guests=guests)


# --- nodes that change in what only guests see ----------------------------------------------------------------------


def test_a_node_that_changes_in_what_decisions_do_not_read_is_reported() -> None:
    documents = NodeDocuments()
    changed: list[str] = []
    documents.call_on_change(changed.append)

    def version(**changes: Any) -> NodeDocument:
        made = json.loads(json.dumps(NODE))
        made["metadata"]["resourceVersion"] = changes.pop("resourceVersion", "1")
        made["status"].update(changes)
        return msgspec.json.decode(json.dumps(made, separators=(",", ":")), type=NodeDocument)

    def beating(time: str, status: str = "True") -> list[dict[str, str]]:
        return [{"type": "Ready", "status": status, "lastHeartbeatTime": time}]

    steps = [
        version(conditions=beating("1")),
        version(conditions=beating("2"), resourceVersion="2"),
        version(conditions=beating("2", "False")),
        version(conditions=beating("3", "False"), nodeInfo={"kubeletVersion": "v9"}),
    ]
    documents.on_add(steps[0])
    reported = [len(changed)]
    for old, new in itertools.pairwise(steps):
        documents.on_update(old, new)
        reported.append(len(changed))
    assert reported == [1, 1, 2, 3]
    assert set(changed) == {NODE["metadata"]["name"]}
