"""Demonstrates a wasm plugin: compiles it, serves it by HTTP, and schedules pods without and with it.

    python plugins/demo_wasm.py

Eight pods request one GPU each, on four nodes with eight GPUs. By default, the scheduler spreads them; with
gpu_packing, a plugin in C that it downloads from a server on this machine, they share a node, and three nodes stay free
for pods that need eight GPUs.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from build_guests import PLUGINS, build

EXAMPLE = "gpu_packing"
GPU = "nvidia.com/gpu"
PLUGIN = "GpuPacking"
GPUS = 8  # GPUs per node


class QuietHandler(SimpleHTTPRequestHandler):
    def log_message(self, *parts: Any) -> None:
        """Log nothing: the scheduler logs what it has downloaded."""


@contextmanager
def served(directory: Path) -> Iterator[str]:
    """Serve a directory by HTTP on loopback; yield its URL."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(QuietHandler, directory=str(directory)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()


def configuration(url: str | None) -> dict[str, Any]:
    profile: dict[str, Any] = {"schedulerName": "default-scheduler"}
    if url is not None:
        profile["plugins"] = {"multiPoint": {"enabled": [{"name": PLUGIN, "weight": 100}]}}
        profile["pluginConfig"] = [{"name": PLUGIN, "args": {"guestURL": url, "guestConfig": GPU}}]
    api = "kubescheduler.config.k8s.io/v1"
    return {"apiVersion": api, "kind": "KubeSchedulerConfiguration", "profiles": [profile]}


def simulate(directory: Path, url: str | None) -> dict[str, int]:
    """Place the pods, with the plugin at `url` or without one; return node name -> GPUs in use."""
    config, report = directory / "scheduler.yaml", directory / "report.json"
    config.write_text(json.dumps(configuration(url)))
    files = PLUGINS / EXAMPLE
    command = [sys.executable, "-m", "kscheduler", "simulate", "--quiet", "--seed", "1", "--config", str(config)]
    command += ["--nodes", str(files / "nodes.yaml"), "--pods", str(files / "pods.yaml"), "--output", str(report)]
    subprocess.run(command, check=True, capture_output=True)
    return gpus_by_node(json.loads(report.read_text())["node_utilisation"])


def gpus_by_node(used: dict[str, Any]) -> dict[str, int]:
    shares = used["final"][used["resources"].index(GPU)]
    return {name: round(GPUS * share) for name, share in zip(used["names"], shares, strict=True)}


def main() -> int:
    made = build(PLUGINS / EXAMPLE / f"{EXAMPLE}.c")
    print(f"compiled {EXAMPLE}.c: {made.stat().st_size:,} bytes of WebAssembly")
    with served(made.parent) as url, tempfile.TemporaryDirectory() as directory:
        print(f"serving it at {url}/{made.name}\n\nGPUs in use, of 8 on each node:")
        for words, guest in (("without it", None), ("with it", f"{url}/{made.name}")):
            used = simulate(Path(directory), guest)
            print(f"{words:>12}  ", "  ".join(f"{node} {count}" for node, count in used.items()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
