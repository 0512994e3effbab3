"""Hides secrets in the arguments of out-of-tree plugins, which are plain documents without types for secrets.

Hidden are: every value under a name that suggests a secret; every value that only a wasm plugin reads (its
configuration and its command line, because it can get secrets in no other way); and user info, query and fragment of
every URL. All other secrets of a configuration have the types of `redaction`, which hide themselves.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from kscheduler.input.redaction import HIDDEN, SecretURL, hide_urls

GUEST_URL = "guestURL"  # the argument that makes a plugin of a profile a wasm plugin
_OF_GUESTS = frozenset({"guestconfig", "args"})

# In lower case and without - and _. What only names a file or an object that holds the secret is shown.
_SECRET_NAME = re.compile(
    "passw|passphrase|token|secret|credential|apikey|accesskey|privatekey|keydata|authorization|bearer|cookie"
    "|signature|connectionstring|headers?$|^env$|^auth$|^dsn$|^pwd$|^key$"
)
_NAMES_A_PLACE = re.compile("(files?|path|dir|name|ref)$")
_ADDRESS_NAME = re.compile("ur[il]$|address$|endpoint$|server$|host$|proxy$")


def names_guest(document: Mapping[Any, Any]) -> bool:
    """Return whether arguments have the key `guestURL`, in whatever case: one that is misspelt is reported later."""
    return any(str(key).lower() == GUEST_URL.lower() for key in document)


def shown_arguments(document: Any) -> Any:
    """Return the document with secrets hidden, for a message or a page; its structure and its keys stay."""
    if not isinstance(document, dict) or not names_guest(document):
        return _shown(document)
    return {
        key: _all_hidden(value) if str(key).lower() in _OF_GUESTS else _entry(key, value)
        for key, value in document.items()
    }


def secret_texts(document: Any) -> set[str]:
    """Return the values that `shown_arguments` hides, so that they can be hidden in a plugin's messages, too."""
    return _differing(document, shown_arguments(document))


def _differing(value: Any, shown: Any) -> set[str]:
    if isinstance(value, dict):
        return set().union(*(_differing(item, shown[key]) for key, item in value.items()))
    if isinstance(value, (list, tuple)):
        return set().union(*map(_differing, value, shown))
    return set() if value == shown else {str(value)}


def _shown(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _entry(key, item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_shown(item) for item in value]
    return hide_urls(value) if isinstance(value, str) else value


def _entry(key: Any, value: Any) -> Any:
    name = str(key).lower().replace("-", "").replace("_", "")
    if _SECRET_NAME.search(name) and not _NAMES_A_PLACE.search(name):
        return _all_hidden(value)
    if isinstance(value, str) and _ADDRESS_NAME.search(name):
        return SecretURL(value).shown
    return _shown(value)


def _all_hidden(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _all_hidden(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_all_hidden(item) for item in value]
    return value if value is None or value == "" or isinstance(value, bool) else HIDDEN
