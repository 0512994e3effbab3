"""Implements `kscheduler plugin inspect FILE`: shows a wasm plugin's interface without compiling or running it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from kscheduler.command.flags.plugin import InspectOptions
from kscheduler.counted import counted
from kscheduler.errors import ConfigError
from kscheduler.input.redaction import SecretURL
from kscheduler.wasm.engine import MEMORY, PAGE_BYTES, MemoryType
from kscheduler.wasm.loading.abi import Abi, interface_of, origin_of
from kscheduler.wasm.loading.apart import run_apart
from kscheduler.wasm.loading.fetch import Fetched, Fetcher
from kscheduler.wasm.loading.sections import BadModule, Sections, printable, read_sections
from kscheduler.wasm.loading.source import FILE_PREFIX

Document = dict[str, Any]
EXIT_UNUSABLE = 1  # the file is WebAssembly, but no plugin


def inspect(options: InspectOptions) -> tuple[str, int]:
    """Run the command; return the text to print and the exit code. Raises ConfigError for an unreadable file."""
    shown = shown_file(options.file)
    fetched = run_apart(Fetcher(SecretURL(as_url(options.file)), allow_insecure=options.allow_insecure).fetch())
    try:
        document = document_of(shown, fetched)
    except BadModule as error:
        raise ConfigError(f"{shown}: {error}") from error
    text = json.dumps(document, indent=2) + "\n" if options.output == "json" else text_of(document)
    return text, EXIT_UNUSABLE if document["faults"] else 0


def as_url(file: str) -> str:
    """Return a path as a file URL; a URL is returned unchanged."""
    return file if "://" in file else FILE_PREFIX + file


def shown_file(file: str) -> str:
    """Return FILE for messages: a path unchanged, a URL without its secrets."""
    return SecretURL(file).shown if "://" in file else file


def document_of(name: str, fetched: Fetched) -> Document:
    """Return the command's result as a JSON document. Raises BadModule if the file is no plugin."""
    sections = read_sections(fetched.data)
    interface = interface_of(sections)
    abi = interface.abi
    return {
        "guest": name,
        "sizeBytes": len(fetched.data),
        "sha256": fetched.sha256,
        "abi": None if abi is None else abi.value,
        "abiName": None if abi is None else abi.text,
        # A guest of the batch ABI reports its extension points at run time, and nothing runs here.
        "extensionPoints": None if abi is Abi.BATCH else list(interface.points),
        "faults": list(interface.faults),
        "memory": _memory(sections),
        "hasStartFunction": sections.has_start,
        "exports": [{"name": export, "type": str(kind)} for export, kind in sections.exports.items()],
        "imports": [
            {
                "module": each.module,
                "name": each.name,
                "type": str(each.type),
                "of": origin_of(each) or None,
                "isKnown": each not in interface.unknown_imports,
            }
            for each in sections.imports
        ],
        "customSections": list(sections.custom),
    }


def _memory(sections: Sections) -> Document | None:
    found = sections.exports.get(MEMORY)
    if not isinstance(found, MemoryType):
        return None
    most = found.maximum_pages
    return {
        "minimumBytes": found.minimum_pages * PAGE_BYTES,
        "maximumBytes": None if most is None else most * PAGE_BYTES,
    }


# --- text output ----------------------------------------------------------------------------------------------------


def text_of(document: Mapping[str, Any]) -> str:
    lines = [
        f"guest      {document['guest']}",
        f"size       {counted(document['sizeBytes'], 'byte')}",
        f"sha256     {document['sha256']}",
        f"speaks     {document['abiName'] or 'neither ABI of a plugin'}",
        f"runs at    {_points(document)}",
        f"memory     {_memory_text(document['memory'])}",
    ]
    if document["hasStartFunction"]:
        lines.append("start      a function runs when the module is instantiated")
    lines += _table("exports", [(printable(each["name"]), each["type"], "") for each in document["exports"]])
    lines += _table(
        "imports",
        [
            (
                f"{printable(each['module'])} {printable(each['name'])}",
                each["type"],
                (each["of"] or "unknown") + _mark(each),
            )
            for each in document["imports"]
        ],
    )
    if document["faults"]:
        lines += ["", "It cannot be loaded:", *(f"  - {fault}" for fault in document["faults"])]
    return "\n".join(lines) + "\n"


def _points(document: Mapping[str, Any]) -> str:
    points = document["extensionPoints"]
    if points is None:
        return "what the guest says when it is asked (kscheduler plugin test shows it)"
    return ", ".join(points) or "no extension point"


def _memory_text(memory: Mapping[str, Any] | None) -> str:
    if memory is None:
        return "none is exported"
    most = memory["maximumBytes"]
    return f"{_size(memory['minimumBytes'])} at first, {'no maximum' if most is None else f'at most {_size(most)}'}"


def _size(count: int) -> str:
    return f"{count // 1024**2} MiB" if count % 1024**2 == 0 and count else f"{count // 1024} KiB"


def _mark(each: Mapping[str, Any]) -> str:
    return "" if each["isKnown"] or not each["of"] else " (not for this guest)"


def _table(title: str, rows: list[tuple[str, str, str]]) -> list[str]:
    if not rows:
        return ["", f"{title}: none"]
    width, type_width = max(len(row[0]) for row in rows), max(len(row[1]) for row in rows)
    return ["", f"{title}:", *(f"  {name:{width}}  {kind:{type_width}}  {note}".rstrip() for name, kind, note in rows)]
