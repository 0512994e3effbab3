"""Fixed bytes, and the errors for documents that cannot be written."""

from __future__ import annotations

import pytest

from kscheduler.errors import DecodeError
from kscheduler.wasm.extension.encoding.messages import Document, encode


def test_an_empty_pod_has_all_that_go_cannot_leave_out() -> None:
    assert len(encode("Pod", {})) == 69


def test_an_empty_node_has_all_that_go_cannot_leave_out() -> None:
    assert len(encode("Node", {})) == 60


def test_an_empty_list_of_nodes_has_its_metadata() -> None:
    assert encode("NodeList", {}).hex(" ") == "0a 06 0a 00 12 00 1a 00"


def test_a_container_without_an_image_has_an_empty_one() -> None:
    assert bytes.fromhex("0a 02 63 30 12 00") in encode("Pod", {"spec": {"containers": [{"name": "c0"}]}})


@pytest.mark.parametrize(
    ("message", "document", "expected"),
    [
        ("Taint", {"key": "k", "effect": "NoSchedule"}, "0a 01 6b 12 00 1a 0a 4e 6f 53 63 68 65 64 75 6c 65"),
        ("ContainerImage", {"names": ["a", "b"], "sizeBytes": 300}, "0a 01 61 0a 01 62 10 ac 02"),
        ("Toleration", {"tolerationSeconds": -1}, "0a 00 12 00 1a 00 22 00 28 ff ff ff ff ff ff ff ff ff 01"),
        ("TCPSocketAction", {"port": 80}, "0a 06 08 00 10 50 1a 00 12 00"),
        ("TCPSocketAction", {"port": "http"}, "0a 0a 08 01 10 00 1a 04 68 74 74 70 12 00"),
        ("ResourceRequirements", {"limits": {"b": "1", "a": "1500m"}},
         "0a 0c 0a 01 61 12 07 0a 05 31 35 30 30 6d 0a 08 0a 01 62 12 03 0a 01 31"),
        ("ContainerStateRunning", {"startedAt": "1970-01-01T00:00:01.9Z"}, "0a 04 08 01 10 00"),
        ("ContainerStateRunning", {"startedAt": "1970-01-01T01:00:00+01:00"}, "0a 04 08 00 10 00"),
        ("ContainerStateRunning", {"startedAt": None}, "0a 00"),
        ("SecretKeySelector", {"name": "n", "key": "k"}, "0a 03 0a 01 6e 12 01 6b"),
    ],
)  # fmt: skip
def test_values_are_written_as_protobuf_has_them(message: str, document: Document, expected: str) -> None:
    assert encode(message, document).hex(" ") == expected


def test_what_nobody_knows_and_managed_fields_are_left_out() -> None:
    document = {"metadata": {"managedFields": [{"manager": "m"}]}, "newerThanUs": 1}
    assert encode("Pod", document) == encode("Pod", {})


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ({"metadata": {"name": 5}}, "Pod.metadata.name: expected a string, got 5"),
        ({"metadata": []}, "Pod.metadata: expected an object, got []"),
        ({"spec": {"containers": {}}}, "Pod.spec.containers: expected a list, got {}"),
        ({"spec": {"priority": "high"}}, "Pod.spec.priority: expected an integer, got 'high'"),
        ({"spec": {"hostNetwork": 1}}, "Pod.spec.hostNetwork: expected true or false, got 1"),
        (
            {"spec": {"containers": [{}, {"resources": {"limits": {"cpu": "much"}}}]}},
            'Pod.spec.containers[1].resources.limits[cpu]: expected a quantity such as "100m" or "2Gi", got \'much\'',
        ),
        (
            {"metadata": {"creationTimestamp": "yesterday"}},
            "Pod.metadata.creationTimestamp: expected a time such as 2006-01-02T15:04:05Z, got 'yesterday'",
        ),
    ],
)
def test_a_value_of_the_wrong_type_is_reported_with_its_path(document: Document, message: str) -> None:
    with pytest.raises(DecodeError) as raised:
        encode("Pod", document)
    assert str(raised.value) == message
