from __future__ import annotations

from typing import Any

import pytest

from kscheduler._fast import COMPILED
from kscheduler.framework.class_draft import ClassDraft, Source
from kscheduler.framework.cycle_state import CycleState
from kscheduler.input.redaction import SecretURL
from kscheduler.snapshot.pod_info import PodInfo
from kscheduler.testing import make_node, make_pod
from kscheduler.wasm.arguments import WasmArguments
from kscheduler.wasm.batch.kept_answers import KeptAnswers
from kscheduler.wasm.batch.points import Point
from kscheduler.wasm.engine import FuncType, GuestFault, Import
from tests.wasm.batch.fake_guest import FakeModule, ListGuest, pack, unpack
from tests.wasm.batch.plugins import URL, Made, filter_all, info, make, make_table, one, score_all

PURE = {"depends": ["pod", "node"], "pod": ["labels"], "labels": ["zone"]}
POD = info(make_pod("web").label(app="web"))


def rows_of(guest: ListGuest, question: Any) -> list[int]:
    return unpack("i", question["rows"]) if "rows" in question else list(range(len(guest.rows)))


def by_zone(guest: ListGuest, point: int, question: Any) -> Any:
    """Nodes in a zone are out, for the zone's name; the score is the length of the name."""
    zones = [guest.rows[row]["labels/zone"] or "" for row in rows_of(guest, question)]
    if point == Point.FILTER:
        reasons = sorted({zone for zone in zones if zone})
        marks = bytes(reasons.index(zone) + 1 if zone else 0 for zone in zones)
        return one(verdicts=marks, reasons=[[2, zone] for zone in reasons])
    return one(scores=pack("q", *map(len, zones)))


def zoned(name: str, zone: str) -> Any:
    return make_node(name).label("zone", zone) if zone else make_node(name)


def made_by_zone(*zones: str, normalize: str = "none") -> Made:
    table = make_table(*(zoned(f"n{row}", zone) for row, zone in enumerate(zones)))
    guest = ListGuest(["filter", "score"], {**PURE, "normalize": normalize}, by_zone)
    return make(guest=guest, table=table)


def test_a_pod_that_looks_like_one_before_costs_no_call() -> None:
    made = made_by_zone("", "b")
    assert [filter_all(made).feasible_rows(), score_all(made)] == [[0], [0, 1]]
    calls = len(made.guest.calls)
    assert [filter_all(made).feasible_rows(), score_all(made)] == [[0], [0, 1]]
    assert len(made.guest.calls) == calls


def test_a_node_that_has_changed_costs_its_row() -> None:
    made = made_by_zone("", "b", "c", *"defgh")
    state = CycleState()
    filter_all(made, state), score_all(made)
    made.guest.calls.clear()
    made.table.set_node(zoned("n1", "dd").obj())
    made.table.set_node(zoned("n8", "c").obj())
    verdicts = filter_all(made, state)
    reasons = [made.plugin.explain(state, POD, verdicts.detail(row)).message for row in (1, 2, 8)]
    assert (verdicts.feasible_rows(), reasons) == ([0], ["dd", "c", "c"])
    assert score_all(made) == [0, 2, 1, 1, 1, 1, 1, 1, 1]
    assert [unpack("i", question["rows"]) for _, question in made.guest.calls] == [[1, 8], [1, 8]]


def test_a_pod_that_comes_costs_its_row_where_usage_counts() -> None:
    def by_pods(guest: ListGuest, point: int, question: Any) -> Any:
        return one(scores=pack("q", *(10 * guest.rows[row]["pods_n"] for row in rows_of(guest, question))))

    made = make(guest=ListGuest(["score"], {"depends": ["usage"], "table": ["usage"]}, by_pods))
    assert score_all(made) == [0, 0, 0]
    made.table.add_pod(made.table.at(1), info(make_pod("p")))
    assert score_all(made) == [0, 10, 0]
    assert [question.get("rows") for _, question in made.guest.calls] == [None, None]  # of three rows it is a third
    made = make(guest=made.guest, table=make_table(*(make_node(f"n{row}") for row in range(40))))
    score_all(made)
    made.table.add_pod(made.table.at(7), info(make_pod("p")))
    made.table.set_node(make_node("n9").label("zone", "z").obj())
    assert score_all(made) == [0] * 7 + [10] + [0] * 32
    assert made.guest.calls[-1][1].get("rows") == (pack("i", 7, 9) if COMPILED else None)  # the twin keeps no history


def test_when_reasons_run_out_all_rows_are_asked_again() -> None:
    made = made_by_zone("z")
    for number in range(300):
        made.table.set_node(zoned("n0", f"zone-{number}").obj())
        state = CycleState()
        verdicts = filter_all(made, state)
        assert made.plugin.explain(state, POD, verdicts.detail(0)).message == f"zone-{number}"


def kept_answers(made: Made, max_bytes: int) -> KeptAnswers:
    return KeptAnswers(made.plugin._asker, made.table, (0, 100), follows_pods=False, max_bytes=max_bytes)


def test_answers_are_kept_within_bounds() -> None:
    made = made_by_zone("", "b")
    size = kept_answers(made, 1).filtered(POD, b"look 00", None).size_bytes
    kept = kept_answers(made, 5 * size)
    for number in range(20):
        kept.filtered(POD, f"look {number:02}".encode(), None)
    assert list(kept._kept) == [(f"look {number}".encode(), None) for number in range(15, 20)]


def test_what_a_guest_wants_to_remember_counts_among_what_is_kept() -> None:
    kept = kept_answers(made_by_zone(""), 1_000_000)
    for number in range(50):
        kept.filtered(POD, b"look", number.to_bytes(2, "big") * 32_000)
    assert sum(3 * len(state or b"") for _, state in kept._kept) <= 1_000_000


def test_long_reasons_count_among_what_is_kept_also_those_of_changed_nodes() -> None:
    made = made_by_zone("", *"abcdefgh")
    kept = kept_answers(made, 60_000)
    first = kept.filtered(POD, b"0", None)
    for number in range(1, 9):
        kept.filtered(POD, str(number).encode(), None)
    for row in range(8):
        made.table.set_node(zoned(f"n{row}", f"{row}" * 1_000).obj())
    for number in range(1, 9):
        kept.filtered(POD, str(number).encode(), None)
    assert first.counted_bytes == 0
    sizes = [answer.size_bytes for answer in kept._kept.values()]
    assert sum(sizes) <= 60_000
    assert min(sizes) > 8 * 1_000
    assert kept._bytes == sum(sizes)


def test_pods_are_distinguished_by_what_the_guest_sees_of_them() -> None:
    made = make(guest=ListGuest(["score"], PURE))
    sign = made.plugin.sign_pod
    assert sign(POD) == sign(info(make_pod("other").label(app="web").req(cpu="1"))) is not None
    assert sign(POD) != sign(info(make_pod("other").label(app="db")))
    assert make(depends=["pod"], pod=["name"]).plugin.sign_pod(POD) is None
    sign = make(depends=["pod"], pod=["annotations"]).plugin.sign_pod
    assert sign(POD) == sign(info(make_pod("other"))) is not None
    assert sign(POD) != sign(info(make_pod("other").annotation("a", "b")))
    for word in ("usage", "metrics"):
        assert make(depends=["pod", word], pod=["labels"]).plugin.sign_pod(POD) is not None
    for word in ("pods", "other"):
        assert make(depends=["pod", word], pod=["labels"]).plugin.sign_pod(POD) is None


def test_a_guest_that_reads_the_clock_is_asked_each_time() -> None:
    clock = Import("kscheduler", "now", FuncType("", "I"))
    made = Made(FakeModule(ListGuest(["score"], PURE), [clock]), make_table(), WasmArguments(guest_url=SecretURL(URL)))
    assert made.plugin.sign_pod(POD) is None


def compile_draft(made: Made, pod: PodInfo = POD) -> tuple[bool, ClassDraft]:
    draft = ClassDraft(made.table.columns, len(made.table.node_classes))
    draft.begin("Fake", filters=True, weight=2)
    return made.plugin.compile_class(draft, pod), draft


def test_what_agrees_on_nodes_of_a_profile_goes_into_the_class() -> None:
    can, draft = compile_draft(made_by_zone("", "bb", "bb", normalize="default"))
    assert can
    assert Source.OBJECTS in draft.sources
    assert (draft.filtering, draft.scoring) == (["Fake"], ["Fake"])


def by_row(guest: ListGuest, point: int, question: Any) -> Any:
    rows = rows_of(guest, question)
    if point == Point.FILTER:
        return one(verdicts=bytes(row % 2 for row in rows), reasons=[[2, "odd"]])
    return one(scores=pack("q", *rows))


def test_what_differs_within_a_profile_goes_into_the_class_by_row() -> None:
    for describe in (PURE, {**PURE, "normalize": "default"}):
        can, draft = compile_draft(make(guest=ListGuest(["filter"], describe, by_row)))
        assert (can, draft.filtering, draft.asks, draft.terms) == (True, ["Fake"], True, None)


def test_scores_that_stay_as_they_are_may_differ_by_row() -> None:
    can, draft = compile_draft(make(guest=ListGuest(["score"], PURE, by_row)))
    assert (can, draft.terms, draft.asks) == (True, None, False)
    assert ("rows", b"\0\1\2", 2) in draft._scores
    can, draft = compile_draft(make(guest=ListGuest(["score"], {**PURE, "normalize": "default"}, by_row)))
    assert (can, draft.terms is not None, draft._scores) == (True, True, [])


def test_what_follows_from_usage_is_asked_by_the_class() -> None:
    describe = {"depends": ["pod", "usage"], "table": ["usage"]}
    made = make(guest=ListGuest(["filter", "score"], describe, by_row))
    can, draft = compile_draft(made)
    assert (can, draft.terms, draft.asks) == (True, None, True)
    assert not any(instance.guest.calls for instance in made.module.made)  # not before a pod is placed
    can, draft = compile_draft(make(guest=ListGuest(["filter", "score"], {**describe, "normalize": "reverse"}, by_row)))
    assert (can, draft.terms is not None, draft.asks) == (True, True, True)


def test_drafts_are_equal_where_the_guest_cannot_distinguish_pods() -> None:
    for normalize in ("none", "default"):
        made = make(
            guest=ListGuest(
                ["filter", "score"], {**PURE, "depends": ["usage", "pod", "node"], "normalize": normalize}, by_row
            )
        )
        keys = [
            compile_draft(made, pod)[1].key for pod in (POD, info(make_pod("x").label(app="web")), info(make_pod("y")))
        ]
        assert keys[0] == keys[1] != keys[2]
        assert hash(keys[0]) == hash(keys[1])


def test_a_skip_leaves_filter_or_score_out_of_the_class() -> None:
    def skip(guest: ListGuest, point: int, question: Any) -> Any:
        assert point in (Point.PRE_FILTER, Point.PRE_SCORE)
        return one(status=[5])

    can, draft = compile_draft(make(guest=ListGuest(["preFilter", "filter", "preScore", "score"], PURE, skip)))
    assert (can, draft.filtering, draft.scoring) == (True, [], [])


def test_a_pre_filter_that_decides_is_asked_pod_by_pod() -> None:
    for answer in (one(status=[2, "no"]), one(only=pack("i", 0))):
        guest = ListGuest(["preFilter", "filter"], PURE, lambda *_, answer=answer: answer)
        assert not compile_draft(make(guest=guest))[0]


@pytest.mark.parametrize(
    ("points", "can"),
    [
        (["filter", "permit"], True),
        (["preFilter", "filter", "permit"], False),  # what PreFilter remembers is handed over at Permit
        (["preFilter", "score"], False),
        (["preScore", "filter"], False),
        (["preScore", "score"], True),
        (["score", "normalizeScore"], False),
    ],
    ids=str,
)
def test_a_class_leaves_out_no_call_that_a_guest_depends_on(points: list[str], can: bool) -> None:
    normalize = "guest" if "normalizeScore" in points else "none"
    assert compile_draft(make(guest=ListGuest(points, {**PURE, "normalize": normalize})))[0] is can


def test_scores_out_of_range_make_no_class() -> None:
    guest = ListGuest(["score"], PURE, lambda *_: one(scores=pack("q", 0, 101, 0)))
    with pytest.raises(GuestFault, match=r"row 1: expected 0\.\.100, got 101"):
        compile_draft(make(guest=guest))
