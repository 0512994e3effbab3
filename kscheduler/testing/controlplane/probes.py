"""Checks whether a component of the control plane answers, so that tests can wait until it is ready."""

from __future__ import annotations

import ssl
import urllib.error
import urllib.request


def unverified_tls() -> ssl.SSLContext:
    """Return a TLS context for servers with self-signed certificates; nothing secret is sent over it."""
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


def is_healthy(url: str, tls: ssl.SSLContext | None = None) -> bool:
    """Return True if a GET of the URL is answered with status 200."""
    try:
        with urllib.request.urlopen(url, timeout=2, context=tls) as answer:
            return bool(answer.status == 200)
    except OSError:  # URLError is one
        return False
