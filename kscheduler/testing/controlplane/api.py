"""A small synchronous client of the test apiserver, for preparing and inspecting a cluster.

It is not the client under test and shares no code with it, so that errors of one are detected by the other. Each
request has a connection of its own and takes a few milliseconds; bulk creation is in load.py.
"""

from __future__ import annotations

import contextlib
import http.client
import urllib.parse
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from kscheduler.testing.controlplane.faults import RequestFailed
from kscheduler.testing.controlplane.kubeconfig import Credentials

PAGE = 1000  # objects per page of a list
FIELD_MANAGER = "kscheduler-harness"
CONTENT_TYPES = {"PATCH": "application/strategic-merge-patch+json"}  # other methods: plain JSON

Object = dict[str, Any]


class Api:
    """Makes requests as one user. Answers are decoded JSON; an error status raises RequestFailed."""

    def __init__(self, credentials: Credentials) -> None:
        self.credentials = credentials
        self._ssl = credentials.ssl_context()
        self._address = urllib.parse.urlsplit(credentials.server)

    def get(self, path: str) -> Any:
        """Get one object, or one page of a list."""
        return self.request("GET", path)

    def create(self, path: str, body: Object) -> Any:
        """POST an object to a collection or subresource."""
        return self.request("POST", path, body)

    def replace(self, path: str, body: Object) -> Any:
        """Replace an object or subresource by PUT."""
        return self.request("PUT", path, body)

    def patch(self, path: str, body: Object, content_type: str | None = None) -> Any:
        """Send a patch; by default a strategic merge patch."""
        return self.request("PATCH", path, body, content_type=content_type)

    def delete(self, path: str, *, missing_ok: bool = False) -> Any:
        """Delete an object or a whole collection at once, with no grace period. `missing_ok`: a 404 is no error."""
        try:
            return self.request("DELETE", path, {"kind": "DeleteOptions", "apiVersion": "v1", "gracePeriodSeconds": 0})
        except RequestFailed as error:
            if missing_ok and error.status == 404:
                return None
            raise

    def list_all(self, path: str, **selectors: str) -> list[Object]:
        """Return every object of a collection, read page by page; `selectors`: `fieldSelector` and `labelSelector`."""
        objects: list[Object] = []
        query: dict[str, str] = {"limit": str(PAGE), **selectors}
        while True:
            page = self.get(f"{path}?{urllib.parse.urlencode(query)}")
            objects += page["items"]
            token = page["metadata"].get("continue")
            if not token:
                return objects
            query["continue"] = token

    def apply(self, *documents: Object, dry_run: bool = False) -> list[Object]:
        """Apply whole manifests server-side, in order; return the resulting objects. With `dry_run` nothing is kept."""
        options = f"fieldManager={FIELD_MANAGER}&force=true" + ("&dryRun=All" if dry_run else "")
        return [
            self.patch(
                f"{self.path_of(document)}?{options}",
                document,
                content_type="application/apply-patch+yaml",
            )
            for document in documents
        ]

    def text(self, path: str) -> str:
        """Return the body of a GET whose answer is not JSON, such as /metrics or /readyz."""
        return self._send("GET", path, None, {}).decode()

    def request(self, method: str, path: str, body: Object | None = None, *, content_type: str | None = None) -> Any:
        """Make any request with a JSON body. Raises RequestFailed for a 4xx or 5xx answer."""
        headers = {"Content-Type": content_type or CONTENT_TYPES.get(method, "application/json")}
        encoded = None if body is None else msgspec.json.encode(body)
        return msgspec.json.decode(self._send(method, path, encoded, headers))

    def _send(self, method: str, path: str, body: bytes | None, headers: Mapping[str, str]) -> bytes:
        with contextlib.closing(self._connection()) as connection:
            return self._ask(connection, method, path, body, headers)

    def _connection(self) -> http.client.HTTPSConnection:
        address = self._address
        return http.client.HTTPSConnection(address.hostname or "", address.port, context=self._ssl, timeout=120)

    def _ask(
        self,
        connection: http.client.HTTPSConnection,
        method: str,
        path: str,
        body: bytes | None,
        headers: Mapping[str, str],
    ) -> bytes:
        connection.request(method, path, body, {**self.credentials.headers(), **headers})
        response = connection.getresponse()
        content = response.read()
        if response.status >= 400:
            raise _failure(response.status, content)
        return content

    def path_of(self, document: Object) -> str:
        """Return the API path of a manifest's object, found by requesting the API's resource list."""
        version, kind, metadata = document["apiVersion"], document["kind"], document["metadata"]
        base = f"/apis/{version}" if "/" in version else f"/api/{version}"
        resource = _resource_of(self.get(base)["resources"], kind, version)
        if resource["namespaced"]:
            base += f"/namespaces/{metadata.get('namespace', 'default')}"
        return f"{base}/{resource['name']}/{metadata['name']}"


class KeptApi(Api):
    """An `Api` on one persistent connection, for many requests from one thread; they take a millisecond or two each."""

    def __init__(self, credentials: Credentials) -> None:
        super().__init__(credentials)
        self._kept: http.client.HTTPSConnection | None = None

    def close(self) -> None:
        """Close the connection; a later request opens a new one."""
        if self._kept is not None:
            self._kept.close()
            self._kept = None

    def _send(self, method: str, path: str, body: bytes | None, headers: Mapping[str, str]) -> bytes:
        while True:
            is_new = self._kept is None
            self._kept = self._kept or self._connection()
            try:
                return self._ask(self._kept, method, path, body, headers)
            except (OSError, http.client.HTTPException):
                self.close()
                if is_new:
                    raise
                # Else the apiserver closed the idle connection; the request is repeated on a new one.


def _resource_of(resources: Sequence[Object], kind: str, version: str) -> Object:
    for resource in resources:
        if resource["kind"] == kind and "/" not in resource["name"]:
            return resource
    raise RequestFailed(404, "NotFound", f"the apiserver has no kind {kind!r} in {version}")


def _failure(status: int, content: bytes) -> RequestFailed:
    try:
        answer = msgspec.json.decode(content)
        return RequestFailed(status, str(answer.get("reason", "")), str(answer.get("message", "")))
    except (msgspec.DecodeError, AttributeError):
        return RequestFailed(status, "", content.decode(errors="replace")[:2000])
