from __future__ import annotations

from collections.abc import Callable

from kscheduler.api.labels import CompiledLabelSelector
from kscheduler.api.objects import LabelSelector, Pod, SelectorRequirement
from kscheduler.snapshot.owners import REPLICA_SET, REPLICATION_CONTROLLER, STATEFUL_SET, Owners
from kscheduler.testing import make_pod

WEB = make_pod("p").label(app="web", tier="front").obj()


def owned(kind: tuple[str, str], name: str = "mine") -> Pod:
    return make_pod("p").label(app="web", tier="front").owner(kind[1], name, api_version=kind[0]).obj()


def wanted(selector: CompiledLabelSelector | None) -> list[str] | None:
    """The requirements, each as text."""
    if selector is None:
        return None
    return [f"{each.key} {each.operator.value} {sorted(each.values)}" for each in selector.requirements or ()]


def test_a_pod_that_nobody_knows_belongs_to_nothing() -> None:
    owners = Owners()
    assert owners.selector_of(WEB) is None
    owners.set_service("other", "s", {"app": "web"})
    owners.set_service("default", "db", {"app": "db"})
    owners.set_service("default", "headless", None)
    owners.set_service("default", "empty", {})
    assert owners.selector_of(WEB) is None


def test_the_selectors_of_all_services_of_a_pod_are_merged() -> None:
    owners = Owners()
    owners.set_service("default", "a", {"app": "web"})
    owners.set_service("default", "b", {"tier": "front", "app": "web"})
    assert wanted(owners.selector_of(WEB)) == ["app In ['web']", "tier In ['front']"]
    owners.remove_service("default", "b")
    assert wanted(owners.selector_of(WEB)) == ["app In ['web']"]
    owners.remove_service("default", "a")
    owners.remove_service("default", "a")
    assert owners.selector_of(WEB) is None


def test_the_controller_adds_its_selector() -> None:
    for kind in (REPLICATION_CONTROLLER, REPLICA_SET, STATEFUL_SET):
        owners = Owners()
        owners.set_service("default", "s", {"app": "web"})
        owners.set_controller(kind, "default", "mine", LabelSelector(match_labels={"tier": "front"}))
        assert wanted(owners.selector_of(owned(kind))) == ["app In ['web']", "tier In ['front']"]
        assert wanted(owners.selector_of(owned(kind, "another"))) == ["app In ['web']"]
        owners.remove_controller(kind, "default", "mine")
        assert wanted(owners.selector_of(owned(kind))) == ["app In ['web']"]


def test_a_replication_controllers_label_takes_the_place_of_a_services_as_in_kube_scheduler() -> None:
    owners = Owners()
    owners.set_service("default", "s", {"app": "web"})
    for kind in (REPLICATION_CONTROLLER, REPLICA_SET):
        owners.set_controller(kind, "default", "mine", LabelSelector(match_labels={"app": "db"}))
    assert wanted(owners.selector_of(owned(REPLICATION_CONTROLLER))) == ["app In ['db']"]
    assert wanted(owners.selector_of(owned(REPLICA_SET))) == ["app In ['web']", "app In ['db']"]


def test_a_controller_of_another_kind_says_nothing() -> None:
    owners = Owners()
    owners.set_controller(REPLICA_SET, "default", "mine", LabelSelector(match_labels={"app": "web"}))
    assert owners.selector_of(owned(("batch/v1", "Job"))) is None
    assert owners.selector_of(owned(("apps/v2", "ReplicaSet"))) is None


def test_expressions_of_a_controller_count_and_malformed_ones_do_not() -> None:
    owners = Owners()
    for operator, expected in (("In", ["app In ['web']"]), ("Between", None)):
        expression = SelectorRequirement("app", operator, ["web"])
        owners.set_controller(REPLICA_SET, "default", "mine", LabelSelector(match_expressions=[expression]))
        assert wanted(owners.selector_of(owned(REPLICA_SET))) == expected
    owners.set_controller(STATEFUL_SET, "default", "mine", None)
    assert owners.selector_of(owned(STATEFUL_SET)) is None


def test_a_replication_controller_overrules_services_and_other_controllers_add_to_them() -> None:
    for kind, expected in (
        (REPLICATION_CONTROLLER, ["app In ['db']"]),
        (REPLICA_SET, ["app In ['web']", "app In ['db']"]),
    ):
        owners = Owners()
        owners.set_service("default", "s", {"app": "web"})
        owners.set_controller(kind, "default", "mine", LabelSelector(match_labels={"app": "db"}))
        assert wanted(owners.selector_of(owned(kind))) == expected


def test_the_generation_moves_when_an_answer_may_have_changed_and_only_then() -> None:
    owners = Owners()
    selector = LabelSelector(match_labels={"app": "web"})
    steps: tuple[tuple[Callable[[], None], bool], ...] = (
        (lambda: owners.set_service("default", "s", {"app": "web"}), True),
        (lambda: owners.set_service("default", "s", {"app": "web"}), False),
        (lambda: owners.set_service("default", "s", {"app": "db"}), True),
        (lambda: owners.set_service("default", "s", None), True),
        (lambda: owners.set_service("default", "s", None), False),
        (lambda: owners.set_controller(REPLICA_SET, "default", "mine", selector), True),
        (lambda: owners.set_controller(REPLICA_SET, "default", "mine", selector), False),
        (lambda: owners.remove_controller(REPLICA_SET, "default", "mine"), True),
        (lambda: owners.remove_controller(REPLICA_SET, "default", "mine"), False),
    )
    for step, (change, moves) in enumerate(steps):
        before = owners.generation
        change()
        assert (owners.generation != before) is moves, step
