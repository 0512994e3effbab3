"""The arguments of a wasm plugin in a profile's `pluginConfig[].args`: read strictly, with all errors at once.

`guestURL`, `guestConfig`, `logSeverity` and `Args` are those of kube-scheduler-wasm-extension; the others are
kscheduler's. An unknown key is an error that lists the known ones. No file is read and no server is called here.
"""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from kscheduler.api.quantity import parse_units
from kscheduler.config.decode import aggregate, describe, describe_kind
from kscheduler.config.duration import Duration
from kscheduler.config.secrets import GUEST_URL, names_guest
from kscheduler.counted import counted
from kscheduler.errors import ConfigError, DecodeError
from kscheduler.input.redaction import Secret, SecretURL
from kscheduler.wasm.engine import NAMES, PAGE_BYTES

FAIL, IGNORE = "fail", "ignore"
FAILURE_POLICIES = (FAIL, IGNORE)
MAX_SEVERITY = 3  # of klog: 0 info, 1 warning, 2 error, 3 fatal

MIN_MEMORY_BYTES = PAGE_BYTES
MAX_MEMORY_BYTES = 4 * 1024**3  # the limit of 32-bit addresses
MIN_DEADLINE = Duration.parse("1ms")  # deadlines are checked a few times in ten milliseconds only
MAX_DEADLINE = Duration.parse("10s")  # the scheduling of all pods waits for a plugin
MIN_RELOAD_INTERVAL = Duration.parse("100ms")


class WasmArguments(msgspec.Struct, frozen=True, kw_only=True):
    """The arguments of one wasm plugin in one profile."""

    guest_url: SecretURL
    guest_config: Secret = Secret()  # passed to the guest unchanged; an object in the file is encoded as JSON
    log_severity: int = 0  # the guest's log messages below this are dropped
    args: tuple[Secret, ...] = ()  # the guest's command line, the program's name first
    sha256: str = ""  # digest of the guest, 64 hexadecimal digits; "": any guest is accepted
    failure_policy: str = FAIL  # whether an error of the guest fails the pod's cycle, or is ignored
    deadline: Duration = Duration.parse("20ms")  # CPU time of one call
    memory_bytes: int = 64 * 1024**2  # limit for one instance
    engine: str = NAMES[0]
    reload_interval: Duration = Duration(0)  # how often the source is checked for a new version; 0: never
    allow_insecure: bool = False  # allows plain http to other machines
    pure: bool = False  # the user declares that answers depend only on the pod and node objects
    # Whether answers about a node do not depend on calls about other nodes. None: derived from the guest's exports.
    parallel: bool | None = None

    @property
    def deadline_s(self) -> float:
        return self.deadline.seconds

    @property
    def is_reloaded(self) -> bool:
        """True if the source is checked for new versions.

        A guest with a digest cannot change, so it is never checked.
        """
        return bool(self.reload_interval) and not self.sha256


def is_wasm(document: Any) -> bool:
    """Return whether a plugin's arguments have the key `guestURL`, or the misspelling `guesturl`, reported later."""
    return isinstance(document, Mapping) and names_guest(document)


def read_arguments(document: Any, path: str) -> WasmArguments:
    """Decode and check the arguments. Raises ConfigError with all errors; `path` is the prefix of their field names."""
    if not isinstance(document, Mapping):
        raise ConfigError(f"{path}: expected a mapping, got {describe(document)}")
    given = {key: value for key, value in document.items() if key not in _IGNORED and value is not None}
    faults: list[str] = []
    values: dict[str, Any] = {}
    for key, value in given.items():
        if key not in _FIELDS:
            faults.append(f"{path}: {_unknown(str(key))}")
            continue
        field, read = _FIELDS[key]
        if field in values:
            faults.append(f"{path}.{key}: expected one of args and Args, got both")
            continue
        try:
            values[field] = read(value)
        except ValueError as error:
            faults.append(f"{path}.{key}: {error}")
    if not given.get(GUEST_URL) and not (is_wasm(given) and GUEST_URL not in given):  # misspelt: reported above
        faults.append(f"{path}: wasm: guestURL is required")
    if faults:
        raise ConfigError(aggregate(faults))
    return WasmArguments(**values)


def _unknown(key: str) -> str:
    folded = {known.lower(): known for known in KNOWN_KEYS}
    close = difflib.get_close_matches(key.lower(), folded, n=1)
    hint = f" (did you mean {folded[close[0]]}?)" if close else ""
    return f'unknown argument "{key[:60]}"{hint}; a wasm plugin knows {", ".join(KNOWN_KEYS)}'


# --- one reader for each kind of value: it raises ValueError with what was expected and what was given --------------


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError(f"expected a string, got {describe(value)}")
    return value


def _url(value: Any) -> SecretURL:
    if not isinstance(value, str):
        raise ValueError(f"expected a string, got {describe_kind(value)}")
    return SecretURL(value)


def _truth(value: Any) -> bool:
    if not isinstance(value, bool):
        raise ValueError(f"expected true or false, got {describe(value)}")
    return value


def _guest_config(value: Any) -> Secret:
    """Read guestConfig: a string, as in kube-scheduler-wasm-extension, or an object or list, which becomes JSON."""
    if isinstance(value, str):
        return Secret(value)
    if not isinstance(value, (dict, list)):
        raise ValueError(f"expected a string, a mapping or a list, got {describe_kind(value)}")
    try:
        return Secret(json.dumps(value, separators=(",", ":"), ensure_ascii=False, allow_nan=False))
    except (TypeError, ValueError, RecursionError) as error:
        raise ValueError(f"expected what can be written as JSON: {error}") from None


def _severity(value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= MAX_SEVERITY:
        raise ValueError(f"expected an integer from 0 (info) to {MAX_SEVERITY} (fatal), got {describe(value)}")
    return value


def _texts(value: Any) -> tuple[Secret, ...]:
    if not isinstance(value, (list, tuple)):
        raise ValueError(f"expected a list of strings, got {describe_kind(value)}")
    for index, item in enumerate(value):
        if not isinstance(item, str) or "\0" in item:
            raise ValueError(f"item {index}: expected a string without NUL, got {describe_kind(item)}")
    return tuple(map(Secret, value))


def _digest(value: Any) -> str:
    digest = _text(value).strip().lower().removeprefix("sha256:")
    if not re.fullmatch(r"[0-9a-f]{64}", digest):
        raise ValueError(f"expected 64 hexadecimal digits, got {describe(value)} ({counted(len(digest), 'character')})")
    return digest


def _one_of(words: tuple[str, ...]) -> Callable[[Any], str]:
    def read(value: Any) -> str:
        if not isinstance(value, str) or value not in words:
            raise ValueError(f"expected {' or '.join(words)}, got {describe(value)}")
        return value

    return read


def _duration(low: Duration, high: Duration | None, *, or_zero: bool = False) -> Callable[[Any], Duration]:
    expected = f"at least {low}" if high is None else f"{low} to {high}"

    def read(value: Any) -> Duration:
        if or_zero and value == 0 and not isinstance(value, bool):
            return Duration(0)
        if not isinstance(value, str):
            raise ValueError(f'expected a duration such as "20ms", got {describe(value)}')
        duration = Duration.parse(value)
        if or_zero and not duration:
            return duration
        if duration < low or (high is not None and high < duration):
            raise ValueError(f"expected {'0, or ' if or_zero else ''}{expected}, got {describe(value)}")
        return duration

    return read


def _memory(value: Any) -> int:
    """Read an amount of memory in bytes, rounded down to whole WebAssembly pages."""
    if isinstance(value, bool) or not isinstance(value, (str, int)):
        raise ValueError(f'expected an amount of memory such as "64Mi", got {describe(value)}')
    try:
        size = parse_units(value, "")
    except DecodeError as error:
        raise ValueError(f'expected an amount of memory such as "64Mi", got {describe(value)}') from error
    if not MIN_MEMORY_BYTES <= size <= MAX_MEMORY_BYTES:
        raise ValueError(f"expected 64Ki to 4Gi, got {describe(value)}")
    return size // PAGE_BYTES * PAGE_BYTES


_FIELDS: Mapping[str, tuple[str, Callable[[Any], Any]]] = {  # key in the file -> attribute, and reader
    GUEST_URL: ("guest_url", _url),
    "guestConfig": ("guest_config", _guest_config),
    "logSeverity": ("log_severity", _severity),
    "args": ("args", _texts),
    "Args": ("args", _texts),  # kube-scheduler-wasm-extension's spelling
    "sha256": ("sha256", _digest),
    "failurePolicy": ("failure_policy", _one_of(FAILURE_POLICIES)),
    "deadline": ("deadline", _duration(MIN_DEADLINE, MAX_DEADLINE)),
    "memory": ("memory_bytes", _memory),
    "engine": ("engine", _one_of(NAMES)),
    "reloadInterval": ("reload_interval", _duration(MIN_RELOAD_INTERVAL, None, or_zero=True)),
    "allowInsecure": ("allow_insecure", _truth),
    "pure": ("pure", _truth),
    "parallel": ("parallel", _truth),
}
KNOWN_KEYS = tuple(key for key in _FIELDS if key != "Args")
_IGNORED = ("apiVersion", "kind")  # keys that kube-scheduler's own arguments have
