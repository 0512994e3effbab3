"""An extender that gives pods the GPU model they request, on the smallest node that has it.

Pods name the model in an annotation, nodes in a label. Large nodes stay free for pods that need many GPUs.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

MODEL = "example.com/gpu-model"
GPU = "example.com/gpu"
MAX_SCORE = 10


def filter_nodes(question: dict[str, Any]) -> dict[str, Any]:
    """Answer ExtenderArgs with an ExtenderFilterResult: nodes of the pod's model pass.

    Preemption cannot help on others.
    """
    wanted = (question["Pod"]["metadata"].get("annotations") or {}).get(MODEL)
    left, failed = [], {}
    for node in question["Nodes"]["items"]:
        if wanted is None or model_of(node) == wanted:
            left.append(node)
        else:
            failed[node["metadata"]["name"]] = f"node(s) had no GPU of model {wanted}"
    return {"Nodes": {"items": left}, "FailedAndUnresolvableNodes": failed}


def prioritize_nodes(question: dict[str, Any]) -> list[dict[str, Any]]:
    """Answer ExtenderArgs with a HostPriorityList: from 10 for nodes without GPUs to 0 for the one with most."""
    gpus = {node["metadata"]["name"]: gpus_of(node) for node in question["Nodes"]["items"]}
    most = max(gpus.values(), default=0) or 1
    return [{"Host": name, "Score": MAX_SCORE - MAX_SCORE * count // most} for name, count in gpus.items()]


def model_of(node: dict[str, Any]) -> str | None:
    found: str | None = (node["metadata"].get("labels") or {}).get(MODEL)
    return found


def gpus_of(node: dict[str, Any]) -> int:
    return int(node["status"].get("allocatable", {}).get(GPU, "0"))


VERBS: dict[str, Callable[[dict[str, Any]], Any]] = {"/filter": filter_nodes, "/prioritize": prioritize_nodes}


class Handler(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        verb = VERBS.get(self.path)
        if verb is None:
            self.send_error(404)
            return
        question = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        answer = json.dumps(verb(question)).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *parts: Any) -> None:
        """Log nothing: kscheduler has metrics of its requests."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, default=8888)
    server = ThreadingHTTPServer(("127.0.0.1", parser.parse_args().port), Handler)
    print(f"listening on port {server.server_port}", flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main()
