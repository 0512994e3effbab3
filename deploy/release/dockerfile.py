"""What the Dockerfile says about the image that runs: read here, so that the image built without it says the same."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from deploy.release.source import BuildError

_VARIABLE = re.compile(r"\$(?:\{(\w+)\}|(\w+))")


@dataclass
class Settings:
    """The instructions of the last stage that do not change files."""

    user: str = ""
    env: dict[str, str] = field(default_factory=dict)
    labels: dict[str, str] = field(default_factory=dict)
    ports: list[str] = field(default_factory=list)  # such as 10259/tcp
    entrypoint: list[str] = field(default_factory=list)
    cmd: list[str] = field(default_factory=list)
    arguments: dict[str, str] = field(default_factory=dict)  # ARG, of this stage and before the first one


def read(text: str, env: Mapping[str, str], arguments: Mapping[str, str]) -> Settings:
    """Return the settings of the last stage. Raises BuildError for an instruction that is not known.

    `env` is the environment of the stage's base image, and `arguments` are values for ARG instead of the defaults.
    """
    settings, stages = Settings(env=dict(env)), 0
    global_arguments: dict[str, str] = {}
    for instruction, rest in _instructions(text):
        if instruction == "FROM":
            stages += 1
            settings = Settings(env=dict(env), arguments=dict(global_arguments))
        elif instruction == "ARG":
            name, _, default = rest.partition("=")
            value = arguments.get(name, global_arguments.get(name, default))
            (settings.arguments if stages else global_arguments)[name] = value
        else:
            _apply(settings, instruction, rest)
    return settings


def _apply(settings: Settings, instruction: str, rest: str) -> None:
    match instruction:
        case "USER":
            settings.user = rest
        case "ENV":
            settings.env |= _pairs(rest, settings)
        case "LABEL":
            settings.labels |= _pairs(rest, settings)
        case "EXPOSE":
            settings.ports += [port if "/" in port else f"{port}/tcp" for port in rest.split()]
        case "ENTRYPOINT":
            settings.entrypoint = json.loads(rest)
        case "CMD":
            settings.cmd = json.loads(rest)
        case "COPY" | "RUN" | "WORKDIR":
            pass
        case _:
            raise BuildError(f"Dockerfile: {instruction} is not known to deploy/release/dockerfile.py")


def _pairs(rest: str, settings: Settings) -> dict[str, str]:
    def value(match: re.Match[str]) -> str:
        name = match[1] or match[2]
        known = settings.arguments | settings.env
        if name not in known:
            raise BuildError(f"Dockerfile: ${name} has no value here")
        return known[name]

    words = [word.partition("=") for word in shlex.split(rest)]
    return {name: _VARIABLE.sub(value, text) for name, _, text in words}


def _instructions(text: str) -> Iterator[tuple[str, str]]:
    lines = [line for line in text.splitlines() if not line.lstrip().startswith("#")]
    for line in "\n".join(lines).replace("\\\n", " ").splitlines():
        if line.strip():
            instruction, _, rest = line.strip().partition(" ")
            yield instruction.upper(), rest.strip()
