"""Where a URL leads and who asks: its user info becomes a header, so that no library sees it with the URL."""

from __future__ import annotations

import base64
from urllib.parse import unquote, urlsplit, urlunsplit
from urllib.request import getproxies, proxy_bypass

from kscheduler.client.loopback import is_loopback
from kscheduler.redaction import SecretURL


def address_of(url: SecretURL) -> str:
    """The URL without user info, for a request; its query may be a secret still. ValueError for what is no URL."""
    parts = urlsplit(url.reveal())
    _, at, host = parts.netloc.rpartition("@")
    return urlunsplit(parts._replace(netloc=host)) if at else url.reveal()


def basic_header(url: SecretURL) -> str:
    """The Authorization header that user info stands for, as Go's client writes it; "" without user info."""
    info, at, _ = urlsplit(url.reveal()).netloc.rpartition("@")
    user, _, password = info.partition(":")
    text = f"{unquote(user)}:{unquote(password)}"
    return f"Basic {base64.b64encode(text.encode()).decode()}" if at else ""


def environment_proxy(url: SecretURL) -> SecretURL | None:
    """The proxy of the environment for a URL, none for this machine.

    Asked here rather than by aiohttp, which would also send the passwords of ~/.netrc.
    """
    parts = urlsplit(url.reveal())
    if is_loopback(parts.hostname or "") or proxy_bypass(parts.netloc.rpartition("@")[2]):
        return None
    found = getproxies().get(parts.scheme)
    return SecretURL(found) if found else None
