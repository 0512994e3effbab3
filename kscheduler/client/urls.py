"""Reads URLs: checks them, finds their proxy, and splits them into an address and a header.

The user info becomes the header, so that no library sees both together.
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
    """Return True for a URL with the scheme http or https, a host, and a port that is a number if it has one."""
    try:
        parts = urlsplit(url.reveal())
        _ = parts.port
    except ValueError:
        return False
    return parts.scheme in ("http", "https") and bool(parts.hostname)


def is_loopback(host: str) -> bool:
    """Return True for the hosts that Go never asks a proxy for."""
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
    """Return the parts of an Authorization header that must not appear in a text."""
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
    """Return the environment's proxy for a URL; None for this machine. Raises ConfigError for an unusable proxy.

    Determined here rather than by aiohttp, which would also send the passwords of ~/.netrc.
    """
    parts = urlsplit(url.reveal())
    if is_loopback(parts.hostname or "") or proxy_bypass(parts.netloc.rpartition("@")[2]):
        return None
    found = getproxies().get(parts.scheme)
    return checked_proxy(SecretURL(found), f"{parts.scheme.upper()}_PROXY") if found else None


def checked_proxy(given: SecretURL, where: str) -> SecretURL:
    """Return a usable proxy; host and port alone mean http, as in Go's clients. Raises ConfigError.

    A host alone is refused: it could as well be a token, and would be looked up as a name.
    aiohttp fails with an AssertionError, which nobody expects, for a scheme that has no port.
    """
    has_scheme = "://" in given.reveal()
    url = given if has_scheme else SecretURL(f"http://{given.reveal()}")
    is_good = is_http(url) and (has_scheme or urlsplit(url.reveal()).port is not None)
    if not is_good or any(character <= " " for character in url.reveal()):
        raise ConfigError(f"{where}: expected a URL such as http://proxy:3128, got {given.shown!r}")
    return url
