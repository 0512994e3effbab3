"""Writes the test vectors of the batch ABI: each message as JSON, and as the bytes that the reference codec encodes.

    python plugins/abi/make_vectors.py           # write plugins/abi/vectors/*.json

In the JSON form a column is {"i64": [...]}, {"i32": [...]} or {"u8": [...]}, and any other binary value {"bin": "hex"}.
Keys are in the order of the bytes. For messages from the guest the bytes are only one possible encoding; the host
accepts all.
"""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

import msgpack

DIRECTORY = Path(__file__).parent / "vectors"
COLUMNS = {"i64": "q", "i32": "i", "u8": "B"}
MEBIBYTE = 1 << 20
GIBIBYTE = 1 << 30
NO_METRIC = -(1 << 63)


def i64(*values: int) -> dict[str, list[int]]:
    return {"i64": list(values)}


def i32(*values: int) -> dict[str, list[int]]:
    return {"i32": list(values)}


def u8(*values: int) -> dict[str, list[int]]:
    return {"u8": list(values)}


def to_message(value: Any) -> Any:
    """Return the JSON form of a message with its columns encoded as bytes."""
    if isinstance(value, list):
        return [to_message(item) for item in value]
    if not isinstance(value, dict):
        return value
    if len(value) == 1:
        (key, inside), *_ = value.items()
        if key in COLUMNS and isinstance(inside, list):
            return struct.pack(f"<{len(inside)}{COLUMNS[key]}", *inside)
        if key == "bin" and isinstance(inside, str):
            return bytes.fromhex(inside)
    return {key: to_message(inside) for key, inside in value.items()}


# name -> (function, direction, what the example shows, message)
VECTORS: dict[str, tuple[str, str, str, Any]] = {
    "describe-pure": (
        "ks_describe",
        "guest to host",
        "a filter and a score that read labels of the node and of the pod, and nothing else",
        {
            "abi": 1,
            "name": "LabelScore",
            "points": ["filter", "score"],
            "depends": ["pod", "node"],
            "pod": ["labels"],
            "labels": ["zone"],
            "normalize": "default",
        },
    ),
    "describe-usage": (
        "ks_describe",
        "guest to host",
        "a score that packs GPUs",
        {
            "abi": 1,
            "name": "GpuPacking",
            "version": "1.0.0",
            "points": ["score"],
            "depends": ["pod", "node", "usage"],
            "pod": ["requests"],
            "table": ["allocatable", "usage"],
            "resources": ["example.com/gpu"],
            "normalize": "none",
            "message_limit": 1048576,
        },
    ),
    "table-full": (
        "ks_table",
        "host to guest",
        "three rows, the second of which is dead; all parts but pods and images",
        {
            "gen": 1,
            "full": True,
            "rows": 3,
            "alive": u8(1, 0, 1),
            "names": ["node-a", "", "node-c"],
            "cordoned": u8(0, 0, 1),
            "alloc": {"cpu": i64(4000, 0, 8000), "memory": i64(8 * GIBIBYTE, 0, 16 * GIBIBYTE)},
            "max_pods": i64(110, 0, 110),
            "used": {"cpu": i64(250, 0, 0), "memory": i64(64 * MEBIBYTE, 0, 0)},
            "used_cpu": i64(350, 0, 0),
            "used_memory": i64(264 * MEBIBYTE, 0, 0),
            "pods_n": i64(2, 0, 0),
            "labels": {"zone": {"v": ["eu-1", "eu-2"], "i": i32(0, -1, 1)}},
            "annotations": {"example.com/rack": {"v": ["r7"], "i": i32(-1, -1, 0)}},
            "taints": {"v": [[["dedicated", "gpu", "NoSchedule"]]], "i": i32(-1, -1, 0)},
            "metrics": {"watts": i64(180, NO_METRIC, NO_METRIC)},
        },
    ),
    "table-usage-delta": (
        "ks_table",
        "host to guest",
        "a pod came to row 2",
        {
            "gen": 2,
            "rows": 3,
            "at": i32(2),
            "used": {"cpu": i64(500), "memory": i64(0)},
            "used_cpu": i64(500),
            "used_memory": i64(200 * MEBIBYTE),
            "pods_n": i64(1),
        },
    ),
    "table-node-delta": (
        "ks_table",
        "host to guest",
        "row 1 has a node now, row 3 is new; a value of the label zone that was not known before",
        {
            "gen": 3,
            "rows": 4,
            "at": i32(1, 3),
            "alive": u8(1, 1),
            "names": ["node-b", "node-d"],
            "labels": {"zone": {"n": 2, "v": ["eu-3"], "i": i32(2, 0)}},
        },
    ),
    "table-pods-images": (
        "ks_table",
        "host to guest",
        "the pods on each node, with their labels, and the images there",
        {
            "gen": 1,
            "full": True,
            "rows": 2,
            "alive": u8(1, 1),
            "images": {"v": [[["registry.example/web:1", 52428800]]], "i": i32(0, -1)},
            "pods": [[{"uid": "u1", "labels": {"app": "web"}}, {"uid": "u2"}], []],
        },
    ),
    "call-pre-filter": (
        "ks_call",
        "host to guest",
        "point 2, a pod with labels and requests",
        {
            "pods": [
                {
                    "name": "web-7",
                    "namespace": "default",
                    "uid": "0c1f",
                    "labels": {"app": "web"},
                    "priority": 100,
                    "requests": {"cpu": 500, "memory": 256 * MEBIBYTE, "example.com/gpu": 1},
                    "scored_cpu": 500,
                    "scored_memory": 256 * MEBIBYTE,
                    "tolerations": [["dedicated", "Equal", "gpu", "NoSchedule"]],
                }
            ]
        },
    ),
    "answer-pre-filter": (
        "ks_call",
        "guest to host",
        "only rows 0 and 2, and a state for what follows",
        {"pods": [{"state": {"bin": "0100000000000000"}, "only": i32(0, 2)}]},
    ),
    "call-filter": (
        "ks_call",
        "host to guest",
        "point 3, about all rows, with the state of preFilter",
        {"pods": [{"labels": {"app": "web"}, "state": {"bin": "0100000000000000"}}]},
    ),
    "answer-filter": (
        "ks_call",
        "guest to host",
        "row 0 fits, rows 1 and 2 are out for the first and the second reason",
        {
            "pods": [
                {
                    "verdicts": u8(0, 1, 2),
                    "reasons": [[2, "node(s) had too little left"], [3, "node(s) were in the wrong zone"]],
                }
            ]
        },
    ),
    "call-score-batch": (
        "ks_call",
        "host to guest",
        "point 6, two pods, about rows 0 and 2",
        {"pods": [{"labels": {"zone": "eu-1"}}, {"labels": {"zone": "eu-2"}}], "rows": i32(0, 2)},
    ),
    "answer-score-batch": (
        "ks_call",
        "guest to host",
        "scores of these rows for each pod",
        {"pods": [{"scores": i64(100, 0)}, {"scores": i64(0, 100)}]},
    ),
    "call-normalize": (
        "ks_call",
        "host to guest",
        "point 7, the raw scores of the feasible rows 0 and 2",
        {"pods": [{"labels": {"app": "web"}}], "rows": i32(0, 2), "scores": [i64(-5, 1 << 40)]},
    ),
    "call-permit": (
        "ks_call",
        "host to guest",
        "point 10, the pod is to go to row 2",
        {"pods": [{"name": "web-7", "namespace": "default", "uid": "0c1f"}], "node": "node-c", "row": 2},
    ),
    "answer-permit": (
        "ks_call",
        "guest to host",
        "wait for at most five seconds",
        {"pods": [{"status": [4, "waiting for the others"], "wait_ms": 5000}]},
    ),
    "answer-skip": ("ks_call", "guest to host", "preScore: nothing to score for this pod", {"pods": [{"status": [5]}]}),
    "answer-error": ("ks_call", "guest to host", "the call failed", {"error": "no table"}),
    "answer-pod-error": (
        "ks_call",
        "guest to host",
        "the first of two pods failed",
        {"pods": [{"error": "label zone: expected a word"}, {"scores": i64(7)}]},
    ),
}


def vector(name: str) -> dict[str, Any]:
    """Return one test vector, as written to its file."""
    function, direction, shows, message = VECTORS[name]
    packed = msgpack.packb(to_message(message), use_bin_type=True)
    return {
        "name": name,
        "function": function,
        "direction": direction,
        "shows": shows,
        "message": message,
        "hex": packed.hex(),
    }


def main() -> None:
    DIRECTORY.mkdir(exist_ok=True)
    for name in VECTORS:
        (DIRECTORY / f"{name}.json").write_text(json.dumps(vector(name), indent=1) + "\n")


if __name__ == "__main__":
    main()
