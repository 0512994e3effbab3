"""Questions of the apiserver about new pods, and the answers."""

from __future__ import annotations

import base64
import contextlib
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kscheduler.errors import DecodeError
from kscheduler.serving.routing.admission import answer, read_review
from kscheduler.serving.routing.rules import NewPod, Route
from tests.support.routing import review


def test_a_question_is_about_the_new_pod_in_its_namespace() -> None:
    question = read_review(json.dumps(review()).encode())
    assert question.uid == "u1"
    assert not question.is_dry_run
    assert question.pod == NewPod("shop", {"a": "b"}, {"c": "d"}, "default-scheduler", False)


@pytest.mark.parametrize(
    "changes",
    [
        {"operation": "UPDATE"},
        {"operation": "DELETE", "object": None},
        {"subResource": "binding"},
        {"resource": {"group": "apps", "version": "v1", "resource": "deployments"}},
    ],
)
def test_what_is_no_new_pod_is_no_question_of_ours(changes: dict[str, Any]) -> None:
    assert read_review(json.dumps(review(**changes)).encode()).pod is None


def test_a_pod_with_a_node_says_so() -> None:
    pod = read_review(json.dumps(review(object={"spec": {"nodeName": "n"}})).encode()).pod
    assert pod == NewPod("shop", {}, {}, "default-scheduler", True)


OTHERS: list[dict[str, Any]] = [{"uid": ""}, {"object": []}, {"object": {"spec": 1}}]
NO_REVIEWS = [
    b"",
    b"[]",
    b"{",
    b"{}",
    b"\xff",
    json.dumps({**review(), "apiVersion": "admission.k8s.io/v1beta1"}).encode(),
]


@pytest.mark.parametrize("body", [*NO_REVIEWS, *(json.dumps(review(**changes)).encode() for changes in OTHERS)])
def test_what_is_no_review_is_refused(body: bytes) -> None:
    with pytest.raises(DecodeError, match="expected a"):
        read_review(body)


@given(st.binary(max_size=200))
def test_bytes_are_read_or_refused_and_nothing_else(body: bytes) -> None:
    with contextlib.suppress(DecodeError):
        read_review(body)


def test_the_answer_allows_and_patches_the_scheduler() -> None:
    question = read_review(json.dumps(review()).encode())
    response = json.loads(answer(question, Route("batch", "kscheduler")))
    assert (response["apiVersion"], response["kind"]) == ("admission.k8s.io/v1", "AdmissionReview")
    given_answer = response["response"]
    assert (given_answer["uid"], given_answer["allowed"], given_answer["patchType"]) == ("u1", True, "JSONPatch")
    assert json.loads(base64.b64decode(given_answer["patch"])) == [
        {"op": "add", "path": "/spec/schedulerName", "value": "kscheduler"}
    ]
    assert json.loads(answer(question, None))["response"] == {"uid": "u1", "allowed": True}
