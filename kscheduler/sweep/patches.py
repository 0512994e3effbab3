"""Sets values in a document at JSON paths: `a.b[0]`, `a["key.with.dots"]`, `list[name=X]` or `list[?(@.name=="X")]`.

A path may begin with `$.`. What is missing on the way is created: mappings, the entry of a list that the path selects
by a key, and the entry behind the last one. The value null removes what is there.
"""

from __future__ import annotations

import copy
import itertools
import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from kscheduler.config.decode import describe
from kscheduler.errors import ConfigError

_STEP = re.compile(
    r"""\.?(?P<key>[A-Za-z_][\w-]*)
      | \[\s*(?P<index>\d+)\s*\]
      | \[\s*(?P<quote>["'])(?P<quoted>.*?)(?P=quote)\s*\]
      | \[\s*\?\(\s*@\.(?P<long_by>[\w-]+)\s*==\s*(?P<mark>["'])(?P<long_value>.*?)(?P=mark)\s*\)\s*\]
      | \[\s*(?P<by>[A-Za-z_][\w-]*)\s*=\s*(?P<value>[^\]]+?)\s*\]""",
    re.VERBOSE,
)


@dataclass(frozen=True, slots=True)
class Selected:
    """A step to the entry of a list whose `key` has this value."""

    key: str
    value: str


Step = str | int | Selected
Choice = dict[str, Any]  # path -> the value that is set there


def parse_path(text: str) -> list[Step]:
    """Return the steps of a path. Raises ConfigError, which shows where the path cannot be read."""
    at = 1 if text.startswith("$") else 0
    steps: list[Step] = []
    while at < len(text):
        found = _STEP.match(text, at)
        if found is None or (text[at] == "." and not steps and at == 0):
            raise ConfigError(
                f'expected a path such as "profiles[0].plugins", got "{text}", unreadable at "{text[at:]}"'
            )
        at = found.end()
        if found["key"] is not None:
            steps.append(found["key"])
        elif found["index"] is not None:
            steps.append(int(found["index"]))
        elif found["quoted"] is not None:
            steps.append(found["quoted"])
        else:
            steps.append(Selected(found["by"] or found["long_by"], found["value"] or found["long_value"] or ""))
    if not steps:
        raise ConfigError(f'expected a path such as "profiles[0].plugins", got "{text}"')
    return steps


def count_choices(patches: Mapping[str, Any]) -> int:
    """Return how many documents the patches give, without making them."""
    return math.prod(len(value) for value in patches.values() if isinstance(value, list))


def choices(patches: Mapping[str, Any]) -> Iterator[Choice]:
    """Yield each combination of the values of all paths; the last path's values change first."""
    values = [value if isinstance(value, list) else [value] for value in patches.values()]
    for chosen in itertools.product(*values):
        yield dict(zip(patches, chosen, strict=True))


def choice_name(name: str, patches: Mapping[str, Any], choice: Choice) -> str:
    """Return the name of one combination: `name[weight=5]`, with the paths that have several values."""
    varied = [path for path, value in patches.items() if isinstance(value, list) and len(value) > 1]
    if not varied:
        return name
    last = {path: str(_last_key(path)) for path in varied}
    if len(set(last.values())) < len(varied):
        last = {path: path for path in varied}
    return f"{name}[{','.join(f'{last[path]}={_shown(choice[path])}' for path in varied)}]"


def patched(document: Mapping[str, Any], choice: Choice) -> dict[str, Any]:
    """Return a copy of the document with the values set. Raises ConfigError if a path does not fit the document."""
    changed = copy.deepcopy(dict(document))
    for path, value in choice.items():
        try:
            _set(changed, parse_path(path), copy.deepcopy(value))
        except ConfigError as error:
            raise ConfigError(f'patches["{path}"]: {error}') from None
    return changed


def _last_key(path: str) -> str:
    keys = [step for step in parse_path(path) if isinstance(step, str)]
    return keys[-1] if keys else path


def _shown(value: Any) -> str:
    if isinstance(value, bool) or value is None:
        return {True: "true", False: "false", None: "null"}[value]
    return str(value) if isinstance(value, (str, int, float)) else describe(value).removeprefix("a ")


def _set(document: Any, steps: list[Step], value: Any) -> None:
    place = document
    for step, following in itertools.pairwise(steps):
        place = _entered(place, step, {} if isinstance(following, str) else [])
    last = steps[-1]
    if isinstance(last, str):
        _check_kind(place, dict, last)
        if value is None:
            place.pop(last, None)
        else:
            place[last] = value
        return
    _check_kind(place, list, last)
    at = _position(place, last)
    if value is None:
        del place[at : at + 1]
    else:
        place[at : at + 1] = [value]


def _entered(place: Any, step: Step, missing: Any) -> Any:
    """Return what the step leads to; if there is nothing, `missing` is put there."""
    if isinstance(step, str):
        _check_kind(place, dict, step)
        if place.get(step) is None:
            place[step] = missing
        return place[step]
    _check_kind(place, list, step)
    at = _position(place, step)
    if at == len(place):
        place.append({step.key: step.value} if isinstance(step, Selected) else missing)
    return place[at]


def _position(place: list[Any], step: int | Selected) -> int:
    if isinstance(step, int):
        if step > len(place):
            raise ConfigError(f"[{step}]: expected an index of at most {len(place)}")
        return step
    for index, entry in enumerate(place):
        if isinstance(entry, dict) and str(entry.get(step.key)) == step.value:
            return index
    return len(place)


def _check_kind(place: Any, kind: type[Any], step: Step) -> None:
    if not isinstance(place, kind):
        expected = "a mapping" if kind is dict else "a list"
        shown = (
            step if isinstance(step, str) else f"[{step}]" if isinstance(step, int) else f"[{step.key}={step.value}]"
        )
        raise ConfigError(f'"{shown}": expected {expected} above it, got {describe(place)}')
