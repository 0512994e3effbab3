"""Credentials for the test apiserver, and kubeconfig files with them."""

from __future__ import annotations

import base64
import ssl
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from kscheduler.testing.controlplane.certificates import KeyPair


@dataclass(frozen=True, slots=True)
class Credentials:
    """The apiserver's address and certificate authority, and a client certificate or a token."""

    server: str  # https://127.0.0.1:PORT
    authority: Path
    client: KeyPair | None = None
    token: str | None = None

    def ssl_context(self) -> ssl.SSLContext:
        """Return a TLS context that trusts only this authority and presents the client certificate, if there is one."""
        context = ssl.create_default_context(cafile=str(self.authority))
        if self.client is not None:
            context.load_cert_chain(self.client.public, self.client.key)
        return context

    def headers(self) -> dict[str, str]:
        """Return the HTTP headers that authenticate a request."""
        return {"Authorization": f"Bearer {self.token}"} if self.token else {}


def write_kubeconfig(path: Path, credentials: Credentials, *, namespace: str = "default") -> Path:
    """Write a kubeconfig that refers to no other file, so that it can be mounted or copied; return `path`."""
    user: dict[str, str] = {}
    if credentials.client is not None:
        user["client-certificate-data"] = _embedded(credentials.client.public)
        user["client-key-data"] = _embedded(credentials.client.key)
    if credentials.token is not None:
        user["token"] = credentials.token
    cluster = {"server": credentials.server, "certificate-authority-data": _embedded(credentials.authority)}
    document: dict[str, Any] = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "test", "cluster": cluster}],
        "users": [{"name": "user", "user": user}],
        "contexts": [{"name": "test", "context": {"cluster": "test", "user": "user", "namespace": namespace}}],
        "current-context": "test",
    }
    path.touch(mode=0o600)
    path.write_text(yaml.safe_dump(document, sort_keys=False))
    return path


def to_fields(credentials: Credentials) -> dict[str, Any]:
    """Convert credentials to JSON values, for another process on this machine."""
    client = credentials.client
    return {
        "server": credentials.server,
        "authority": str(credentials.authority),
        "client": [str(client.public), str(client.key)] if client else None,
        "token": credentials.token,
    }


def from_fields(fields: dict[str, Any]) -> Credentials:
    """Return the credentials that `to_fields` has converted."""
    client = KeyPair(Path(fields["client"][0]), Path(fields["client"][1])) if fields["client"] else None
    return Credentials(fields["server"], Path(fields["authority"]), client, fields["token"])


def _embedded(path: Path) -> str:
    return base64.b64encode(path.read_bytes()).decode()
