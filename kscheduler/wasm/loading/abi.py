"""Determines from a guest's imports and exports which ABI it uses, its extension points, and why it cannot be loaded.

A guest that exports the function `kscheduler_abi_v1` uses the batch ABI; one that exports a plugin function of
kube-scheduler-wasm-extension uses the extension ABI. Error texts are kube-scheduler-wasm-extension's where it has one.
Unlike there, any set of extension points is accepted. A guest of the batch ABI reports its extension points itself
(`ks_describe`), so that it has none here.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from kscheduler.config.extension_points import ExtensionPoint
from kscheduler.counted import counted
from kscheduler.wasm import assemblyscript, wasi
from kscheduler.wasm.engine import MEMORY, FuncType, Import, MemoryType, Wasi
from kscheduler.wasm.loading.sections import Sections, printable

BATCH_MARK = "kscheduler_abi_v1"
_ANY_BATCH_MARK = re.compile(r"kscheduler_abi_v(\d+)")
_SHOWN = 10  # unknown imports that are named in the faults, at most
NODES_MODULE = "k8s.io/api"
SCHEDULER_MODULE = "k8s.io/scheduler"
KLOG_MODULE = "k8s.io/klog"
PODS_IMPORTS = frozenset({"currentPod", "targetPod", "handle.get_waiting_pod"})


class Abi(enum.StrEnum):
    BATCH = "kscheduler"
    EXTENSION = "kube-scheduler-wasm-extension"

    __str__ = str.__str__

    @property
    def text(self) -> str:
        return "kscheduler batch ABI, version 1" if self is Abi.BATCH else "kube-scheduler-wasm-extension"


@dataclass(frozen=True, slots=True)
class Interface:
    """A guest's ABI and extension points, and the reasons why it cannot be loaded, if any."""

    abi: Abi | None  # None if the guest uses neither ABI
    points: tuple[str, ...]  # extension points of its exports, as the configuration spells them
    faults: tuple[str, ...]  # why it cannot be loaded; empty if it can
    unknown_imports: tuple[Import, ...]  # imports that no host function provides
    sees_nodes: bool = False  # it imports functions that return complete node objects
    sees_pods: bool = False  # it imports functions that return complete pod objects


def interface_of(sections: Sections) -> Interface:
    abi = _abi(sections)
    unknown = unknown_imports(sections, abi)
    sees_nodes = any(each.module == NODES_MODULE for each in sections.imports)
    sees_pods = any(each.module == SCHEDULER_MODULE and each.name in PODS_IMPORTS for each in sections.imports)
    faults = tuple(_faults(sections, abi, unknown))
    return Interface(abi, _points(sections, abi), faults, unknown, sees_nodes, sees_pods)


def _abi(sections: Sections) -> Abi | None:
    if BATCH_MARK in sections.functions:
        return Abi.BATCH
    if any(name in sections.functions for name in EXTENSION_EXPORTS):
        return Abi.EXTENSION
    return None


def _faults(sections: Sections, abi: Abi | None, unknown: tuple[Import, ...]) -> list[str]:
    faults = []
    if abi is None:
        faults.append(_neither(sections))
    if not isinstance(sections.exports.get(MEMORY), MemoryType):
        faults.append("wasm: guest doesn't export memory[memory]")
    if abi is Abi.EXTENSION:
        faults += _extension_faults(sections)
    elif abi is Abi.BATCH:
        faults += _batch_faults(sections)
    faults += [
        f"import {printable(each.module)}.{printable(each.name)} {each.type}: {_why_unknown(each, abi)}"
        for each in unknown[:_SHOWN]
    ]
    if len(unknown) > _SHOWN:
        faults.append(f"and {counted(len(unknown) - _SHOWN, 'more unknown import')}")
    return faults


def _extension_faults(sections: Sections) -> list[str]:
    exported = {name: kind for name, kind in sections.functions.items() if name in EXTENSION_EXPORTS}
    faults = [
        f"wasm: guest exports the wrong signature for func[{name}]. should be {go_form(EXTENSION_EXPORTS[name][0])}"
        for name, kind in exported.items()
        if kind != EXTENSION_EXPORTS[name][0]
    ]
    if not any(EXTENSION_EXPORTS[name][2] for name in exported):
        faults.append("wasm: filter, score, reserve, permit or bind must be exported")
    return faults


def _batch_faults(sections: Sections) -> list[str]:
    faults = []
    for name, (expected, is_required) in BATCH_EXPORTS.items():
        found = sections.exports.get(name)
        if found != expected and (is_required or found is not None):
            faults.append(f"export {name}: expected {expected}, got {'none' if found is None else found}")
    return faults


def _neither(sections: Sections) -> str:
    for name in sections.functions:
        if match := _ANY_BATCH_MARK.fullmatch(name):
            return f"expected version 1 of the batch ABI, got a guest of version {match.group(1)}"
    return "wasm: guest does not export any plugin functions"


def go_form(kind: FuncType) -> str:
    """Format a function type as Go does: `() -> (i32)`, and `()` for a function without results."""
    text = str(kind)
    return text.removesuffix(" -> ()")


# --- extension points -----------------------------------------------------------------------------------------------


_CYCLE = tuple(point.value for point in ExtensionPoint)


def _points(sections: Sections, abi: Abi | None) -> tuple[str, ...]:
    if abi is not Abi.EXTENSION:
        return ()
    found = {EXTENSION_EXPORTS[name][1] for name in sections.functions if name in EXTENSION_EXPORTS}
    return tuple(point for point in _CYCLE if point in found)


_STATUS, _PAIR, _NOTHING = FuncType("", "i"), FuncType("", "I"), FuncType("", "")

# Export of the extension ABI -> its type, its extension point ("" for none), and whether it suffices as a guest's only
# plugin function.
EXTENSION_EXPORTS: Mapping[str, tuple[FuncType, str, bool]] = MappingProxyType(
    {
        "enqueue": (_NOTHING, "", False),
        "prefilter": (_STATUS, "preFilter", True),
        "addpod": (_STATUS, "preFilter", False),
        "removepod": (_STATUS, "preFilter", False),
        "filter": (_STATUS, "filter", True),
        "postfilter": (_PAIR, "postFilter", False),
        "prescore": (_STATUS, "preScore", False),
        "score": (_PAIR, "score", True),
        "normalizescore": (_STATUS, "", False),
        "reserve": (_STATUS, "reserve", True),
        "unreserve": (_NOTHING, "reserve", True),
        "permit": (_PAIR, "permit", True),
        "prebind": (_STATUS, "preBind", False),
        "bind": (_STATUS, "bind", True),
        "postbind": (_NOTHING, "postBind", False),
    }
)
# Export of the batch ABI -> its type, and whether every guest must have it.
BATCH_EXPORTS: Mapping[str, tuple[FuncType, bool]] = MappingProxyType(
    {
        BATCH_MARK: (FuncType("", "i"), True),
        "ks_alloc": (FuncType("i", "i"), True),
        "ks_configure": (FuncType("ii", "I"), True),
        "ks_describe": (FuncType("", "I"), True),
        "ks_table": (FuncType("ii", "I"), False),
        "ks_call": (FuncType("iii", "I"), False),
    }
)


# --- imports --------------------------------------------------------------------------------------------------------


def unknown_imports(sections: Sections, abi: Abi | None) -> tuple[Import, ...]:
    return tuple(each for each in sections.imports if not is_known_import(each, abi))


def is_known_import(each: Import, abi: Abi | None) -> bool:
    if each.module == wasi.MODULE:
        return isinstance(each.type, FuncType) and each.name in _WASI_FUNCTIONS
    return abi is not None and each.type == _host_functions(abi).get((each.module, each.name))


def origin_of(each: Import) -> str:
    """Return the name of the known interface that an import belongs to, for messages; "" if it belongs to none."""
    if each.module == wasi.MODULE:
        return "WASI preview 1" if each.name in _WASI_FUNCTIONS else ""
    if (each.module, each.name) in _LANGUAGES:
        return "AssemblyScript"
    for abi in Abi:
        if (each.module, each.name) in _host_functions(abi):
            return abi.text
    return ""


def _why_unknown(each: Import, abi: Abi | None) -> str:
    expected = _host_functions(abi).get((each.module, each.name))
    if expected is not None:
        return f"expected {expected}"
    origin = origin_of(each)
    return f"it belongs to {origin}, which this guest does not speak" if origin else "no host function of this name"


def _host_functions(abi: Abi | None) -> Mapping[tuple[str, str], FuncType]:
    if abi is None:
        return {}
    return {**_LANGUAGES, **(EXTENSION_IMPORTS if abi is Abi.EXTENSION else BATCH_IMPORTS)}


def _imports(module: str, signatures: str) -> dict[tuple[str, str], FuncType]:
    """Parse `name:params:results ...` into a mapping of (module, name) -> function type."""
    parts = (signature.split(":") for signature in signatures.split())
    return {(module, name): FuncType(params, results) for name, params, results in parts}


EXTENSION_IMPORTS: Mapping[tuple[str, str], FuncType] = MappingProxyType(
    _imports(NODES_MODULE, "node:iiii:i nodeList:ii:i")
    | _imports(
        SCHEDULER_MODULE,
        "get_config:ii:i currentPod:ii:i targetPod:ii:i currentNodeName:ii:i filteredNodeList:ii:i "
        "nodeImageStates:iiii:i nodeToStatusMap:ii:i nodeScoreList:ii:i result.cluster_events:ii: "
        "result.node_names:ii: result.nominated_node_name:ii: result.status_reason:ii: "
        "result.normalized_score_list:ii: handle.eventrecorder.eventf:ii: handle.reject_waiting_pod:iiii: "
        "handle.get_waiting_pod:iiii:",
    )
    | _imports(KLOG_MODULE, "log:iii: logs:iiiii: severity::i")
)
BATCH_IMPORTS: Mapping[tuple[str, str], FuncType] = MappingProxyType(
    _imports("kscheduler", "log:iii: event:iiiii: now::I")
)

_LANGUAGES = {(assemblyscript.MODULE, assemblyscript.ABORT): assemblyscript.ABORT_TYPE}  # for guests of both ABIs

_WASI_FUNCTIONS = frozenset(each.name for each in wasi.functions(Wasi()))
