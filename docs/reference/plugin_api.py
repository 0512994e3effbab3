"""The Python API for plugins: what `kscheduler.framework` exports, with its signatures and docstrings."""

from __future__ import annotations

import dataclasses
import enum
import inspect
import re
from collections.abc import Callable, Iterator

from docs.reference.markdown import escaped, table
from kscheduler import framework
from kscheduler.framework import interface

INTRODUCTION = """\
# Plugin API

What a plugin in Python is given and returns, from `kscheduler.framework`. The [guide](../guides/plugins-python.md)
shows how to write one; plugins in other languages use the [wasm ABI](wasm-abi.md). A plugin need not inherit from these
classes: having the method is enough.

This page is made from the signatures and docstrings in the program.
"""


def page() -> str:
    """Return the page: extension points first, then everything else that is exported."""
    parts = [INTRODUCTION, "## Extension points\n"]
    points = interface.EXTENSION_POINTS
    parts.append(table(("In the file", "Method"), [(f"`{point}`", f"`{method}`") for point, method in points.items()]))
    kinds = {name: getattr(framework, name) for name in framework.__all__}
    protocols = {name: kind for name, kind in kinds.items() if getattr(kind, "_is_protocol", False)}
    for name, kind in protocols.items():
        parts.append(_section(name, kind))
    parts.append("## Values and services\n")
    for name, kind in kinds.items():
        if name not in protocols:
            parts.append(_section(name, kind))
    return "\n".join(parts)


def _section(name: str, kind: object) -> str:
    head = f"### {name}\n"
    if inspect.isclass(kind):
        return "\n".join([head, *_class(kind)])
    if inspect.isfunction(kind):
        return "\n".join([head, _code(name, kind), _doc(kind)])
    shown = repr(kind) if isinstance(kind, int) else type(kind).__name__
    return f"{head}\n`{shown}`\n"


def _class(kind: type) -> Iterator[str]:
    if text := _doc(kind, generated=f"{kind.__name__}("):
        yield text
    if issubclass(kind, enum.Enum):
        yield ", ".join(f"`{member.name}`" for member in kind) + "\n"
        return
    if dataclasses.is_dataclass(kind):
        yield from _fields(kind)
    for name, member in vars(kind).items():
        if name.startswith("_"):
            continue
        if isinstance(member, property) and member.fget is not None:
            yield f"**`{name}`**: {_doc(member.fget) or _returned(member.fget)}\n"
        elif isinstance(member, (classmethod, staticmethod)):
            yield _code(name, member.__func__)
            yield _doc(member.__func__)
        elif inspect.isfunction(member):
            yield _code(name, member)
            yield _doc(member)


def _fields(kind: type) -> Iterator[str]:
    """Yield a table of a dataclass's fields, with the comments beside them."""
    beside = {}
    for line in inspect.getsource(kind).splitlines():
        if match := re.match(r"    (\w+): .*?(?:  # (.*))?$", line):
            beside[match[1]] = match[2] or ""
    rows = [
        (f"`{field.name}`", f"`{field.type}`", escaped(beside.get(field.name, "")))
        for field in dataclasses.fields(kind)
    ]
    if rows:
        yield table(("Field", "Type", ""), rows)


def _code(name: str, function: Callable[..., object]) -> str:
    try:
        signature = str(inspect.signature(function)).replace("'", "")
    except ValueError:  # compiled, without a signature
        return f"```python\n{name}\n```\n"
    awaited = "async " if inspect.iscoroutinefunction(function) else ""
    return f"```python\n{awaited}def {name}{signature}\n```\n"


def _returned(function: Callable[..., object]) -> str:
    return f"`{inspect.signature(function).return_annotation}`"


def _doc(member: object, generated: str = "\0") -> str:
    text = getattr(member, "__doc__", None) or ""
    return "" if text.startswith(generated) else escaped(inspect.cleandoc(text)) + "\n" if text else ""
