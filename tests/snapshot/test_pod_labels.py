"""The keys under which pods are grouped by their labels."""

from __future__ import annotations

from datetime import UTC, datetime

import msgspec
import pytest

from kscheduler.api.objects import ObjectMeta, Pod
from kscheduler.snapshot import pod_labels
from kscheduler.snapshot.pod_labels import LabelKeys, label_key

GONE_AT = datetime(2026, 1, 1, tzinfo=UTC)


def pod(labels: dict[str, str] | None, namespace: str = "default") -> Pod:
    return Pod(metadata=ObjectMeta(name="a", namespace=namespace, labels=labels))


def test_pods_of_a_template_have_one_key_which_is_computed_once() -> None:
    keys, shared = LabelKeys(), {"app": "web"}
    first = keys.of(pod(shared))
    assert first == label_key(pod(shared))
    assert keys.of(pod(shared)) is first


def test_the_same_labels_in_another_namespace_have_another_key() -> None:
    keys, shared = LabelKeys(), {"app": "web"}
    assert keys.of(pod(shared)) != keys.of(pod(shared, "other"))
    assert keys.of(pod(shared, "other")) == label_key(pod(shared, "other"))


def test_a_terminating_pod_has_a_key_of_its_own() -> None:
    keys, shared = LabelKeys(), {"app": "web"}
    running = pod(shared)
    leaving = msgspec.structs.replace(
        running, metadata=msgspec.structs.replace(running.metadata, deletion_timestamp=GONE_AT)
    )
    assert [keys.of(each) for each in (running, leaving)] == [label_key(running), label_key(leaving)]
    assert label_key(running) != label_key(leaving)


def test_a_pod_without_labels_has_a_key() -> None:
    assert LabelKeys().of(pod(None)) == label_key(pod({}))


def test_keys_are_right_when_more_labels_come_than_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pod_labels, "MAX_KEPT_KEYS", 3)
    keys = LabelKeys()
    for number in range(10):
        assert keys.of(pod({"number": str(number)})) == label_key(pod({"number": str(number)}))
