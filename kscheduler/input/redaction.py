"""Secret values, which can be used but are never shown in any text.

`Secret` is any secret text; `SecretURL` is a URL that may contain one in its user info, query or fragment. str, repr,
format, logging, msgspec, json and yaml give a form without the secret, or fail; pickling fails. Only `reveal` returns
the value itself, so that every use of a secret can be found by searching for that name.

A text without a scheme where a URL is expected is shown only if it clearly is a file path, an address, or the name of
this machine or of a Service; anything else could be a token that was pasted into the wrong field.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterable
from typing import Any, NoReturn
from urllib.parse import quote, quote_plus, unquote, unquote_plus

HIDDEN = "<hidden>"

_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]{0,11}")  # what is longer is no scheme, but perhaps a token
_FILE = "file"
_PORT = re.compile(r"[0-9]*")
# Ends at a quotation mark and a backslash, so that a text which is JSON stays JSON.
_URL_IN_TEXT = re.compile(rf"[A-Za-z][A-Za-z0-9+.-]*://(?:{HIDDEN}|[^\s\"<>\\])*")
# A path that begins as one, or a file that ends as those do that people name here. A separator alone is not enough:
# nearly half of all tokens of 40 characters in base64 have one, 1 - (63/64)^40.
_PATH = re.compile(
    r"(?:~?/|[.]{1,2}/).*|.*[.](?:wasm|wat|ya?ml|json|py|so|sock|tar|t?gz|zst)", re.DOTALL | re.IGNORECASE
)
# What can be neither a user nor a token: an address, or the name of a Service. "prometheus:9090" could be a user and a
# password.
_PLACE = re.compile(
    r"(?:[0-9]{1,3}(?:[.][0-9]{1,3}){3}|localhost|[a-z0-9.-]+[.]svc(?:[.][a-z0-9.-]+)?)(?::[0-9]{1,5})?(?:/.*)?"
)
_PATH_EXCLUDES = re.compile(r"[:@?#=&\s]")  # what could begin or end a secret
_NO_SECRETS = frozenset({"http", "https"})
_SHORT = 4  # characters; what is shorter is looked for as a whole word only


class Secret:
    """A text that may be used but never shown. "" counts as no secret, and is shown."""

    __slots__ = ("_value",)

    def __init__(self, value: str = "") -> None:
        self._value = value

    def reveal(self) -> str:
        """Return the secret itself. Use it only for the request or file that needs it, never for a message."""
        return self._value

    @property
    def shown(self) -> str:
        """Return the form without the secret, which people may see."""
        return HIDDEN if self._value else ""

    def hide_in(self, text: str) -> str:
        """Return a text, such as a library's or a server's message, with the secret removed."""
        return hide_parts(text, [self._value])

    def __str__(self) -> str:
        return self.shown

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.shown!r})"

    def __format__(self, spec: str) -> str:
        return format(self.shown, spec)

    def __bool__(self) -> bool:
        return bool(self._value)

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and isinstance(other, Secret) and other._value == self._value

    def __hash__(self) -> int:
        return hash((type(self), self._value))

    def __copy__(self) -> Secret:
        return self

    def __deepcopy__(self, memo: Any) -> Secret:
        return self

    def __reduce_ex__(self, protocol: Any) -> NoReturn:
        raise TypeError(f"a {type(self).__name__} is not written anywhere")


class SecretURL(Secret):
    """A URL whose user info, query and fragment are never shown."""

    __slots__ = ()

    @property
    def shown(self) -> str:
        return _shown_url(self._value)

    @property
    def quoted(self) -> str:
        """Return what to write after "got" where another URL was expected: the shown form, or why there is none."""
        shown = self.shown
        return repr(shown) if shown != HIDDEN else "a text without http:// or https://, which may be secret"

    def hide_in(self, text: str) -> str:
        return hide_urls(hide_parts(text, _secret_parts(self._value)))

    def __truediv__(self, part: str) -> SecretURL:
        """Return the URL with a slash and `part` appended, even if it ends with a slash, as Go does for extenders."""
        return SecretURL(f"{self._value.rstrip('/')}/{part}")


def hide_urls(text: str) -> str:
    """Return a text in which every URL is replaced by its form without secrets."""
    return _URL_IN_TEXT.sub(_shown_match, text) if "://" in text else text


def _shown_match(found: re.Match[str]) -> str:
    """Return the URL that was found, without secrets; punctuation behind it does not count as part of it."""
    url = found[0].rstrip(".,;:!)'`")
    return _shown_url(url) + found[0][len(url) :]


def hide_parts(text: str, parts: Iterable[str]) -> str:
    """Return a text with these values removed in any case, since libraries write hosts and escapes in lower case."""
    for part in sorted({part for part in parts if part}, key=len, reverse=True):
        pattern = re.escape(part)
        if len(part) < _SHORT:
            pattern = rf"(?<!\w){pattern}(?!\w)"
        text = re.sub(pattern, HIDDEN, text, flags=re.IGNORECASE)
    return text


def _shown_url(url: str) -> str:
    """Return a URL without its secrets.

    Of an invalid URL more is hidden in case of doubt, so that no password is shown.
    """
    prefix, rest = _without_scheme(url)
    before_fragment, has_fragment, _ = rest.partition("#")
    place, has_query, _ = before_fragment.partition("?")
    end = (f"?{HIDDEN}" if has_query else "") + (f"#{HIDDEN}" if has_fragment else "")
    if prefix.lower() == f"{_FILE}://":
        return prefix + _shown_path(place) + end
    authority, slash, path = place.partition("/")
    _, at, host = authority.rpartition("@")
    if "@" in path:  # a slash in a password, or a path with an @: nobody can tell
        at, host, slash, path = "@", path.rpartition("@")[2], "", ""
    if not prefix and not at:
        is_path = _PATH.fullmatch(place) and not _PATH_EXCLUDES.search(place)
        return (place if is_path or not place or _PLACE.fullmatch(place) else HIDDEN) + end
    port = host.rpartition("]")[2].partition(":")
    is_doubtful = bool(port[1]) and not _PORT.fullmatch(port[2].partition("/")[0])
    if is_doubtful or (port[1] and not at and "@" in rest):  # a password with ? or #, or no user at all before its @
        return f"{prefix}{HIDDEN}"
    return f"{prefix}{HIDDEN + '@' if at else ''}{host}{slash}{path}{end}"


def _shown_path(path: str) -> str:
    """Return a file path without secrets, as people also write user and password in front of a host there."""
    before, at, rest = path.rpartition("@")
    return f"{HIDDEN}@{rest}" if at and (":" in before or "/" not in before) else path


def _without_scheme(url: str) -> tuple[str, str]:
    """Split off a URL's scheme with "://"; ("", url) if it has none."""
    scheme, slashes, rest = url.partition("://")
    return (scheme + slashes, rest) if slashes and _SCHEME.fullmatch(scheme) else ("", url)


def _secret_parts(url: str) -> set[str]:
    """Return the secret parts of a URL, in all forms in which libraries write them."""
    prefix, rest = _without_scheme(url)
    before_fragment, _, fragment = rest.partition("#")
    place, _, query = before_fragment.partition("?")
    info = place.rpartition("@")[0]
    user, _, password = info.partition(":")
    found = {url, info} if info or query or fragment else set()
    shown = re.split("[?#]", _shown_url(url).removeprefix(prefix))[0]
    doubtful = info  # any part of it may be a secret, and be taken for another part by a library
    if shown == HIDDEN:
        doubtful = place
        found |= {url, place}
    parts = re.split(r"[]:/@?#&=[\s]", doubtful)
    found |= {part for part in parts if len(part) >= _SHORT and part.lower() not in _NO_SECRETS}
    for raw in (info, user, password):
        plain = unquote(raw)
        found |= {raw, plain, quote(plain, safe=""), quote(plain), json.dumps(plain)[1:-1]}
    if info:
        found.add(base64.b64encode(f"{unquote(user)}:{unquote(password)}".encode()).decode())
    values = [query, fragment, *(pair.partition("=")[2] for pair in query.split("&"))]
    for raw in values:
        if len(raw) >= _SHORT:
            found |= {raw, unquote_plus(raw), quote_plus(unquote_plus(raw))}
    return found
