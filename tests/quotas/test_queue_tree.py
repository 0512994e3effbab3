"""Queue objects become a tree, and what is wrong with one does not harm the others."""

from __future__ import annotations

from fractions import Fraction

import msgspec
import pytest

from kscheduler.api.objects import ObjectMeta
from kscheduler.api.share_queues import KaiQueueObject, QueueObject, QueueResource, QueueSpec
from kscheduler.quotas.queue_tree import build_tree

GPU = "nvidia.com/gpu"


def queue(name: str, parent: str = "", priority: int = 100, **resources: QueueResource) -> QueueObject:
    named = {
        resource.replace("_", "/").replace("nvidia/com", "nvidia.com"): terms for resource, terms in resources.items()
    }
    return QueueObject(ObjectMeta(name=name), QueueSpec(parent, priority, named or None))


def kai(text: str) -> KaiQueueObject:
    return msgspec.json.decode(text, type=KaiQueueObject)


def test_a_tree_is_built_in_whatever_order_its_queues_come() -> None:
    tree = build_tree(
        [
            queue("train", "team", 7, cpu=QueueResource("1500m", 4, "0.5")),
            queue("team", cpu=QueueResource("unlimited")),
            queue("other"),
        ]
    )
    assert tree.faults == {}
    train, team = tree.queues["train"], tree.queues["team"]
    assert (train.parent, team.parent, train.priority) == (team, None, 7)
    assert (train.shares["cpu"].deserved, train.shares["cpu"].limit) == (1500, 4000)
    assert train.shares["cpu"].weight == Fraction(1, 2)
    assert (team.shares["cpu"].deserved, team.shares["cpu"].limit, team.shares["cpu"].weight) == (None, None, 1)
    assert {leaf.name for leaf in tree.leaves} == {"train", "other"}


def test_kais_objects_are_read_in_kais_units() -> None:
    tree = build_tree(
        [
            kai(
                '{"metadata": {"name": "team", "creationTimestamp": "2026-01-01T00:00:00Z"},'
                ' "spec": {"displayName": "T", "resources": {"gpu": {"quota": 8, "limit": -1, "overQuotaWeight": 2.5},'
                ' "cpu": {"quota": -1, "limit": 1500}, "memory": {"quota": 0.5, "limit": 2}}}}'
            ),
            kai('{"metadata": {"name": "a"}, "spec": {"parentQueue": "team", "priority": 5}}'),
        ]
    )
    assert tree.faults == {}
    team, low = tree.queues["team"], tree.queues["a"]
    assert [(share.deserved, share.limit, share.weight) for share in team.shares.values()] == [
        (None, 1500, 0),
        (500_000, 2_000_000, 0),
        (8, None, Fraction(5, 2)),
    ]
    assert list(team.shares) == ["cpu", "memory", GPU]
    assert (team.priority, team.created, low.parent, low.priority) == (100, "2026-01-01T00:00:00Z", team, 5)
    assert all(share.limit == 0 for share in low.shares.values()), "what is not stated is 0 there"


def test_queues_without_a_place_in_the_tree_are_left_out_with_the_reason() -> None:
    tree = build_tree(
        [
            queue("a", "b"),
            queue("b", "c"),
            queue("c", "b"),
            queue("self", "self"),
            queue("lost", "nowhere"),
            queue("below", "lost"),
            queue("fine"),
        ]
    )
    assert list(tree.queues) == ["fine"]
    assert tree.faults == {
        "a": "queue a: spec.parent: expected a tree, got a loop: b -> c -> b",
        "b": "queue b: spec.parent: expected a tree, got a loop: b -> c -> b",
        "c": "queue c: spec.parent: expected a tree, got a loop: c -> b -> c",
        "self": "queue self: spec.parent: expected a tree, got a loop: self -> self",
        "lost": 'queue lost: spec.parent: expected a queue above lost, got "nowhere", which does not exist',
        "below": 'queue below: spec.parent: expected a queue above lost, got "nowhere", which does not exist',
    }


def test_a_queue_cannot_divide_what_its_parent_does_not_have() -> None:
    tree = build_tree([queue("team", cpu=QueueResource(4)), queue("a", "team", memory=QueueResource(1))])
    assert tree.faults == {"a": "queue a: expected team to state what a divides, got nothing of memory"}


def test_two_of_one_name_are_both_left_out() -> None:
    tree = build_tree([queue("a"), queue("a"), queue("a"), queue("b", "a")])
    assert tree.queues == {}
    assert tree.faults["a"] == "queue a: expected one queue of this name, got two"
    assert tree.faults["b"].endswith('got "a", which cannot be used')


@pytest.mark.parametrize(
    ("terms", "message"),
    [
        (QueueResource("lots"), '.deserved: expected an amount of at least 0 or "unlimited", got "lots"'),
        (QueueResource(1, "-2"), '.limit: expected an amount of at least 0 or "unlimited", got "-2"'),
        (QueueResource(1, 2, "-1"), ".weight: expected a weight of at least 0, got -1"),
    ],
)
def test_a_bad_amount_is_named_with_its_field(terms: QueueResource, message: str) -> None:
    tree = build_tree([queue("a", cpu=terms), queue("b")])
    assert tree.faults == {"a": f"queue a: spec.resources[cpu]{message}"}
    assert list(tree.queues) == ["b"]


def test_a_resource_that_no_pod_can_request_is_refused() -> None:
    tree = build_tree([queue("a", gpus=QueueResource(1))])
    assert "expected a resource that pods can request, got gpus" in tree.faults["a"]


@pytest.mark.parametrize(
    ("terms", "message"),
    [
        ('{"gpu": {"quota": 0.5}}', "gpu.quota: expected a whole number, got 0.5"),
        ('{"cpu": {"limit": -2}}', "cpu.limit: expected an amount of at least 0, or -1 for unlimited, got -2"),
        ('{"gpu": {"overQuotaWeight": -1}}', "gpu.overQuotaWeight: expected a weight of at least 0, got -1"),
    ],
)
def test_what_cannot_be_taken_from_kai_is_named(terms: str, message: str) -> None:
    tree = build_tree([kai(f'{{"metadata": {{"name": "a"}}, "spec": {{"resources": {terms}}}}}')])
    assert tree.faults == {"a": f"queue a: spec.resources.{message}"}


def test_a_priority_that_no_apiserver_lets_in_is_a_fault() -> None:
    tree = build_tree([QueueObject(ObjectMeta(name="a"), QueueSpec(priority=2**63))])
    assert tree.faults == {"a": f"queue a: spec.priority: expected an integer of 64 bits, got {2**63}"}


def test_times_that_jobs_run_at_least_are_read_and_malformed_ones_are_faults() -> None:
    spec = QueueSpec(preempt_min_runtime="90s", reclaim_min_runtime="1h30m")
    tree = build_tree(
        [
            QueueObject(ObjectMeta(name="a"), spec),
            kai('{"metadata": {"name": "b"}, "spec": {"reclaimMinRuntime": "5m"}}'),
            QueueObject(ObjectMeta(name="c"), QueueSpec(preempt_min_runtime="soon")),
            QueueObject(ObjectMeta(name="d"), QueueSpec(reclaim_min_runtime="-1s")),
        ]
    )
    assert (tree.queues["a"].preempt_min_s, tree.queues["a"].reclaim_min_s) == (90.0, 5400.0)
    assert (tree.queues["b"].preempt_min_s, tree.queues["b"].reclaim_min_s) == (None, 300.0)
    assert tree.faults["c"] == (
        'queue c: spec.preemptMinRuntime: expected a duration such as "15s" or "1m30s", got "soon"'
    )
    assert tree.faults["d"] == "queue d: spec.reclaimMinRuntime: expected a duration of at least 0, got -1s"
