"""The apiserver's audit log, read as it grows: who asked for what, and whether it was refused."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import msgspec

from tests.deploy.rules import Right


class Request(NamedTuple):
    """One request about a resource, as the audit log has it."""

    user: str
    group: str
    resource: str  # with its subresource: "pods/status"
    verb: str
    namespace: str
    name: str
    code: int
    refused: bool  # by authorization

    def needs(self, right: Right) -> bool:
        """Whether it is this right that the request needs."""
        return (self.group, self.resource, self.verb) == (right.group, right.resource, right.verb)


class AuditLog:
    """All requests so far that were about resources; `read` takes in what was written since."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._offset = 0
        self._requests: dict[str, list[Request]] = {}  # user -> requests, in order

    def of(self, user: str) -> list[Request]:
        """Everything this user has asked for, up to now."""
        self._read()
        return self._requests.get(user, [])

    def _read(self) -> None:
        if not self._path.exists():
            return
        with self._path.open("rb") as file:
            file.seek(self._offset)
            whole = file.read().rpartition(b"\n")[0]  # a line being written is left for the next time
        if whole:
            self._offset += len(whole) + 1
            for line in whole.split(b"\n"):
                request = _request(_decode(line))
                if request is not None:
                    self._requests.setdefault(request.user, []).append(request)


class _User(msgspec.Struct, frozen=True):
    username: str = ""


class _Object(msgspec.Struct, rename="camel"):
    resource: str = ""
    subresource: str = ""
    namespace: str = ""
    name: str = ""
    api_group: str = ""


class _Status(msgspec.Struct, frozen=True):
    code: int = 0


class _Event(msgspec.Struct, rename="camel"):
    verb: str = ""
    user: _User = _User()
    object_ref: _Object | None = None
    response_status: _Status = _Status()
    annotations: dict[str, str] = msgspec.field(default_factory=dict)


_decode = msgspec.json.Decoder(_Event).decode


def _request(event: _Event) -> Request | None:
    about = event.object_ref
    if about is None or not about.resource:
        return None
    return Request(
        event.user.username,
        about.api_group,
        f"{about.resource}/{about.subresource}" if about.subresource else about.resource,
        event.verb,
        about.namespace,
        about.name,
        event.response_status.code,
        event.response_status.code == 403 or event.annotations.get("authorization.k8s.io/decision") == "forbid",
    )
