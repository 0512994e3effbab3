"""Kubeconfigs for servers of tests."""

from __future__ import annotations

from pathlib import Path

import yaml


def kubeconfig(directory: Path, name: str, url: str) -> str:
    """Write a kubeconfig for the server and return its path; the token is `token-of-` and the name."""
    path = directory / f"{name}.kubeconfig"
    document = {
        "clusters": [{"name": "c", "cluster": {"server": url}}],
        "users": [{"name": "u", "user": {"token": f"token-of-{name}"}}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "x",
    }
    path.write_text(yaml.safe_dump(document))
    return str(path)
