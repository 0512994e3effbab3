"""Asks the apiserver who somebody is, and what they may do: by reviews, which it answers in their status."""

from __future__ import annotations

import functools
from collections.abc import Callable, Hashable
from typing import Any, Generic, NamedTuple, TypeVar, cast

import msgspec

from kscheduler.client.foreign_bodies import decoded
from kscheduler.client.transport import Transport
from kscheduler.input.decoding import json_decoder

T = TypeVar("T")

REVIEW_TIMEOUT_S = 10.0

_encode = msgspec.json.encode


class User(NamedTuple):
    """A user as in a TokenReview's status or a SubjectAccessReview's spec."""

    name: str
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: tuple[tuple[str, tuple[str, ...]], ...] = ()  # key and values, in the order received


class AccessReview(NamedTuple):
    """The status of a SubjectAccessReview."""

    allowed: bool
    reason: str = ""


class Right(NamedTuple):
    """One verb on one resource."""

    group: str  # of the API; "": the core group
    resource: str  # "pods", or "pods/status"
    verb: str
    namespace: str = ""  # "": in all
    name: str = ""  # of the object; "": of any


class Reviews:
    """Creates reviews, each once; to limit them, and to remember their answers, is left to the caller."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    async def token_review(self, token: str) -> User | None:
        """Return the user of a bearer token, or None if the apiserver does not accept the token."""
        status = await self._review("authentication.k8s.io/v1", "TokenReview", {"token": token}, _TokenReview)
        if not status.authenticated:
            return None
        user = status.user
        return User(user.username, user.uid, user.groups, tuple(user.extra.items()))

    async def subject_access_review(self, user: User, verb: str, path: str) -> AccessReview:
        """Return whether this user may do `verb` on a path that is not an API object."""
        return await self._access_review(user, {"nonResourceAttributes": {"path": path, "verb": verb}})

    async def resource_access_review(self, user: User, verb: str, resource: str, namespace: str) -> AccessReview:
        """Return whether this user may do `verb` on a resource of the core group in a namespace ("": in all)."""
        attributes = {"verb": verb, "version": "v1", "resource": resource}
        if namespace:
            attributes["namespace"] = namespace
        return await self._access_review(user, {"resourceAttributes": attributes})

    async def may_user(self, right: Right, user: User) -> AccessReview:
        """Return whether this user has a right."""
        return await self._access_review(user, {"resourceAttributes": _attributes(right)})

    async def may_i(self, right: Right) -> AccessReview:
        """Return whether the user of this client's credentials has a right."""
        return await self._authorize("SelfSubjectAccessReview", {"resourceAttributes": _attributes(right)})

    async def _access_review(self, user: User, attributes: dict[str, object]) -> AccessReview:
        spec: dict[str, object] = {"user": user.name, **attributes}
        if user.groups:
            spec["groups"] = user.groups
        if user.uid:
            spec["uid"] = user.uid
        if user.extra:
            spec["extra"] = dict(user.extra)
        return await self._authorize("SubjectAccessReview", spec)

    async def _authorize(self, kind: str, spec: dict[str, object]) -> AccessReview:
        status = await self._review("authorization.k8s.io/v1", kind, spec, _AccessReview)
        return AccessReview(status.allowed and not status.denied, status.reason)

    async def _review(self, group_version: str, kind: str, spec: dict[str, object], answer: type[T]) -> T:
        body = _encode({"apiVersion": group_version, "kind": kind, "spec": spec})
        path = f"/apis/{group_version}/{kind.lower()}s"
        raw = await self._transport.request("POST", path, body=body, timeout_s=REVIEW_TIMEOUT_S)
        decode: Callable[[bytes], _Review[T]] = _review_decoder(cast(Hashable, answer))
        return decoded(decode, raw, kind, self._transport.host).status


def _attributes(right: Right) -> dict[str, str]:
    resource, _, subresource = right.resource.partition("/")
    given = {
        "namespace": right.namespace,
        "group": right.group,
        "resource": resource,
        "subresource": subresource,
        "name": right.name,
    }
    return {"verb": right.verb} | {name: value for name, value in given.items() if value}


class _Review(msgspec.Struct, Generic[T]):
    status: T


@functools.cache
def _review_decoder(answer: Any) -> Callable[[bytes], Any]:
    return json_decoder(_Review[answer], as_go=True)


class _User(msgspec.Struct, frozen=True):
    username: str = ""
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: dict[str, tuple[str, ...]] = msgspec.field(default_factory=dict)


class _TokenReview(msgspec.Struct):
    authenticated: bool = False
    user: _User = _User()


class _AccessReview(msgspec.Struct):
    allowed: bool = False
    denied: bool = False
    reason: str = ""
