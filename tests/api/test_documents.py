"""Objects whole: what decisions do not read is kept as it came, and who wrote what is left out."""

from __future__ import annotations

import json

import msgspec

from kscheduler.api.documents import NodeDocument, PodDocument, node_document, pod_document
from kscheduler.testing import make_node, make_pod


def test_a_pod_keeps_fields_that_no_decision_reads() -> None:
    sent = {
        "kind": "Pod",
        "metadata": {"name": "p", "namespace": "d", "finalizers": ["f"], "managedFields": [{"manager": "kubectl"}]},
        "spec": {"containers": [{"name": "c", "terminationMessagePath": "/dev/log"}]},
        "status": {"qosClass": "BestEffort"},
    }
    document = msgspec.json.decode(json.dumps(sent), type=PodDocument)
    assert document.key == "d/p"
    shown = json.loads(msgspec.json.encode(document))
    assert shown == {
        "metadata": {"name": "p", "namespace": "d", "finalizers": ["f"]},
        "spec": sent["spec"],
        "status": sent["status"],
    }


def test_documents_of_objects_in_memory_have_what_is_known_of_them() -> None:
    node = node_document(make_node("n").label(disk="ssd").capacity(cpu="4").obj())
    shown = json.loads(msgspec.json.encode(node))
    assert isinstance(node, NodeDocument)
    assert node.key == "n"
    assert shown["metadata"]["labels"]["disk"] == "ssd"
    assert shown["status"]["allocatable"]["cpu"] == "4"
    pod = pod_document(make_pod("p").req(cpu="1").obj())
    assert json.loads(bytes(pod.spec))["containers"][0]["resources"]["requests"] == {"cpu": "1"}
