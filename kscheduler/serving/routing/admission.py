"""Decodes AdmissionReviews (admission.k8s.io/v1) of new pods, and encodes answers that patch spec.schedulerName."""

from __future__ import annotations

import base64
from typing import Any

import msgspec

from kscheduler.api.objects import APIStruct, Labels
from kscheduler.config.types import DEFAULT_SCHEDULER_NAME
from kscheduler.errors import DecodeError
from kscheduler.input.decoding import json_decoder
from kscheduler.serving.routing.rules import NewPod, Route

API_VERSION = "admission.k8s.io/v1"
KIND = "AdmissionReview"


class _Metadata(APIStruct, frozen=True):
    labels: Labels | None = None
    annotations: Labels | None = None


class _Spec(APIStruct, frozen=True):
    scheduler_name: str = ""
    node_name: str = ""


class _Pod(APIStruct, frozen=True):
    metadata: _Metadata = _Metadata()
    spec: _Spec = _Spec()


class _Resource(APIStruct, frozen=True):
    group: str = ""
    resource: str = ""


class _Request(APIStruct, frozen=True):
    uid: str = ""
    resource: _Resource = _Resource()
    sub_resource: str = ""
    namespace: str = ""
    operation: str = ""
    dry_run: bool | None = None
    object: msgspec.Raw = msgspec.Raw(b"null")

    @property
    def is_new_pod(self) -> bool:
        is_pod = (self.resource.group, self.resource.resource) == ("", "pods") and not self.sub_resource
        return is_pod and self.operation == "CREATE"


class _Review(APIStruct, frozen=True):
    api_version: str = ""
    kind: str = ""
    request: _Request | None = None


class Question(msgspec.Struct, frozen=True):
    """An admission request.

    `pod` is None if the request does not create a pod: the webhook may be registered for more.
    """

    uid: str
    is_dry_run: bool
    pod: NewPod | None


_decode_review = json_decoder(_Review, as_go=True)
_decode_pod = json_decoder(_Pod, as_go=True)


def read_review(body: bytes) -> Question:
    """Decode a request. Raises DecodeError for anything but an AdmissionReview of admission.k8s.io/v1."""
    try:
        review = _decode_review(body)
        request = review.request
        found = _decode_pod(request.object) if request is not None and request.is_new_pod else None
    except DecodeError as error:
        raise DecodeError(f"expected an {KIND} of {API_VERSION}: {error}") from error
    if (review.api_version, review.kind) != (API_VERSION, KIND) or request is None or not request.uid:
        raise DecodeError(f"expected a request in an {KIND} of {API_VERSION}, got {review.api_version} {review.kind}")
    pod = None if found is None else _new_pod(request.namespace, found)
    return Question(request.uid, bool(request.dry_run), pod)


def _new_pod(namespace: str, pod: _Pod) -> NewPod:
    return NewPod(
        namespace,
        pod.metadata.labels or {},
        pod.metadata.annotations or {},
        pod.spec.scheduler_name or DEFAULT_SCHEDULER_NAME,
        bool(pod.spec.node_name),
    )


def answer(question: Question, route: Route | None) -> bytes:
    """Encode an answer that allows the request and, if `route` is not None, patches `spec.schedulerName`."""
    response: dict[str, Any] = {"uid": question.uid, "allowed": True}
    if route is not None:
        # "add" replaces the value of an existing member (RFC 6902).
        patch = [{"op": "add", "path": "/spec/schedulerName", "value": route.scheduler_name}]
        response["patchType"] = "JSONPatch"
        response["patch"] = base64.b64encode(msgspec.json.encode(patch)).decode()
        response["auditAnnotations"] = {"routing-rule": route.rule}
    return msgspec.json.encode({"apiVersion": API_VERSION, "kind": KIND, "response": response})
