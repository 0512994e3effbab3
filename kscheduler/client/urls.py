"""Reads URLs: checks them, finds their proxy, and separates user info from the address.

The user info becomes an Authorization header, so that no library gets both together.
"""

from __future__ import annotations

import base64
import binascii
import ipaddress
from urllib.parse import unquote, urlsplit, urlunsplit
from urllib.request import getproxies, proxy_bypass

from kscheduler.errors import ConfigError
from kscheduler.input.redaction import SecretURL


def is_http(url: SecretURL) -> bool:
    """Return True for an http or https URL that has a host and, if any, a numeric port."""
    try:
        parts = urlsplit(url.reveal())
        _ = parts.port
    except ValueError:
        return False
    return parts.scheme in ("http", "https") and bool(parts.hostname)


def is_loopback(host: str) -> bool:
    """Return True for hosts for which Go never uses a proxy."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def address_of(url: SecretURL) -> str:
    """Return the URL without user info, for a request; its query may hold a secret. ValueError for an invalid URL."""
    parts = urlsplit(url.reveal())
    _, at, host = parts.netloc.rpartition("@")
    return urlunsplit(parts._replace(netloc=host)) if at else url.reveal()


def basic_header(url: SecretURL) -> str:
    """Return the Authorization header for the URL's user info, as Go's client writes it; "" without user info."""
    info, at, _ = urlsplit(url.reveal()).netloc.rpartition("@")
    user, _, password = info.partition(":")
    text = f"{unquote(user)}:{unquote(password)}"
    return f"Basic {base64.b64encode(text.encode()).decode()}" if at else ""


def header_secrets(header: str) -> set[str]:
    """Return the parts of an Authorization header that are secret and must be hidden in texts."""
    kind, _, value = header.strip().partition(" ")
    found = {value or kind}
    if kind.lower() == "basic":
        try:
            user, _, password = base64.b64decode(value, validate=True).decode().partition(":")
        except (binascii.Error, UnicodeDecodeError):
            return found
        found |= {user, password}
    return found - {""}


def environment_proxy(url: SecretURL) -> SecretURL | None:
    """Return the proxy that environment variables set for a URL, or None. Raises ConfigError for an unusable proxy.

    aiohttp could determine it as well, but would then also send the passwords of ~/.netrc.
    """
    parts = urlsplit(url.reveal())
    if is_loopback(parts.hostname or "") or proxy_bypass(parts.netloc.rpartition("@")[2]):
        return None
    found = getproxies().get(parts.scheme)
    return checked_proxy(SecretURL(found), f"{parts.scheme.upper()}_PROXY") if found else None


def checked_proxy(given: SecretURL, where: str) -> SecretURL:
    """Return the proxy's URL; host and port alone mean http, as in Go's clients.

    Raises ConfigError for an unusable one. A host without a port is refused, because it could be a token by mistake and
    would be looked up as a name. A scheme without a default port would make aiohttp fail with an AssertionError.
    """
    has_scheme = "://" in given.reveal()
    url = given if has_scheme else SecretURL(f"http://{given.reveal()}")
    is_good = is_http(url) and (has_scheme or urlsplit(url.reveal()).port is not None)
    if not is_good or any(character <= " " for character in url.reveal()):
        raise ConfigError(f"{where}: expected a URL such as http://proxy:3128, got {given.quoted}")
    return url
