"""Guests that harm, answer wrongly or never, and a profile for them."""

from __future__ import annotations

import functools
import json
import struct
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import msgpack

from kscheduler.config.load import parse_config
from kscheduler.config.types import SchedulerConfig
from kscheduler.framework.out_of_tree import find_plugins
from kscheduler.wasm.plugins import GuestPlugins
from tests.support.skips import package
from tests.wasm.extension.kit import module

wasmtime = package("wasmtime")
HOSTILE, PEACEFUL = "hostile", "default-scheduler"
# What an export does in the place of its work; the rest of its body is there for the type's sake.
LOOP = "(loop $again (br $again))"
TRAP = "unreachable"
DEEP = "(call $deep)"
BOMB = """
  (loop $more (br_if $more (i32.ne (memory.grow (i32.const 16)) (i32.const -1))))
  (memory.fill (i32.const 0) (i32.const 1) (i32.shl (memory.size) (i32.const 16))) unreachable"""
OUTSIDE = "(drop (i32.load (i32.const -8)))"
HARM = {"loops": LOOP, "traps": TRAP, "recurses": DEEP, "bombs": BOMB, "reads outside": OUTSIDE}
DESCRIBED, ANSWER, ROOM = 1024, 8192, 65536  # addresses


def text(data: bytes) -> str:
    return "".join(f"\\{byte:02x}" for byte in data)


def both(address: int, size: int) -> int:
    value = address << 32 | size
    return value - (1 << 64) if value >> 63 else value


_NOW = '(import "kscheduler" "now" (func $now (result i64)))'  # a guest that asks for the time is not pure


def batch_guest(
    answer: bytes = b"", *, points: tuple[str, ...] = ("score",), returns: int | None = None, depends: str = "other",
    before: Mapping[str, str] = MappingProxyType({}), more: str = "", normalize: str = "none",
) -> bytes:  # fmt: skip
    """A guest of the batch ABI that answers the bytes at every point. `before`: export -> what it does first."""
    reported = {"abi": 1, "name": "Hostile", "points": list(points), "depends": [depends], "normalize": normalize}
    if depends == "other":
        reported |= {"table": ["names"]}
    described = msgpack.packb(reported)
    results = {
        "kscheduler_abi_v1": ("", "i32", 1),
        "ks_alloc": ("i32", "i32", ROOM),
        "ks_configure": ("i32 i32", "i64", 0),
        "ks_describe": ("", "i64", both(DESCRIBED, len(described))),
        "ks_table": ("i32 i32", "i64", 0),
        "ks_call": ("i32 i32 i32", "i64", both(ANSWER, len(answer)) if returns is None else returns),
    }
    lines = [
        f'(module {_NOW if any("$now" in body for body in before.values()) else ""} (memory (export "memory") 4)',
        f'(data (i32.const {DESCRIBED}) "{text(described)}") (data (i32.const {ANSWER}) "{text(answer)}")',
        f"(func $deep (call $deep) (call $deep)) {more}",
    ]
    for name, (params, result, value) in results.items():
        signature = f"(param {params})" if params else ""
        body = f"{before.get(name, '')} ({result}.const {value})"
        lines.append(f'(func (export "{name}") {signature} (result {result}) {body})')
    return bytes(wasmtime.wat2wasm("\n".join([*lines, ")"])))


def extension_guest(harm: str, *exports: str) -> bytes:
    """A guest of the extension interface in which one export, the first, does harm."""
    zero = {"postfilter": "(i64.const 0)", "score": "(i64.const 0)", "permit": "(i64.const 0)"}
    zero |= {"enqueue": "", "unreserve": "", "postbind": ""}
    bodies = {name: zero.get(name, "(i32.const 0)") for name in dict.fromkeys([*exports, "filter"])}
    bodies[exports[0]] = harm + bodies[exports[0]]
    return module(globals_="(func $deep (call $deep) (call $deep))", **bodies)


Document = Mapping[str, Any]
MULTI_POINT: Document = {"multiPoint": {"enabled": [{"name": "Guest"}]}}


def config_with(
    guest: bytes, folder: Path, guests: GuestPlugins, plugins: Document = MULTI_POINT, **arguments: object
) -> SchedulerConfig:
    """Two profiles, of which one has the guest."""
    path = folder / "guest.wasm"
    path.write_bytes(guest)
    args = {"guestURL": path.as_uri(), "deadline": "5ms", "memory": "4Mi", **arguments}
    document = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [
            {
                "schedulerName": HOSTILE,
                "plugins": plugins,
                "pluginConfig": [{"name": "Guest", "args": args}],
            },
            {"schedulerName": PEACEFUL},
        ],
    }
    find = functools.partial(find_plugins, guests=guests)
    return parse_config(json.dumps(document), "scheduler.yaml", find_plugins=find)


def packed(**answer: Any) -> bytes:
    made: bytes = msgpack.packb({"pods": [answer]})
    return made


def scores(*values: int) -> bytes:
    return packed(scores=struct.pack(f"<{len(values)}q", *values))


BAD_ANSWERS = {
    "too few scores": scores(1, 2),
    "too many scores": scores(1, 2, 3, 4),
    "a score too high": scores(0, 101, 0),
    "a score too low": scores(0, -1, 0),
    "a number that is none": scores(0, -(1 << 63), 0),
    "half a score": packed(scores=b"1234567"),
    "scores that are text": packed(scores="1234"),
    "two pods": msgpack.packb({"pods": [{}, {}]}),
    "no pods": msgpack.packb({"pods": []}),
    "no message": b"\xc1",
    "half a message": scores(1, 2, 3)[:-5],
    "text that is none": b"\x81\xa5error\xa1\x80",
    "a list": msgpack.packb([1, 2, 3]),
    "a nest of lists": b"\x91" * 5000 + b"\x90",
    "a claim of a great many entries": b"\x81\xa4pods\xdd\xff\xff\xff\xff",
    "state without end": packed(state=bytes(65_537)),
}
