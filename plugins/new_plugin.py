"""Creates a new plugin in Python: a folder with the plugin, its test, a configuration with it, and a small cluster.

    python plugins/new_plugin.py PreferTeam [FOLDER]

The plugin's folder is created in FOLDER, by default the working directory. The new plugin works as it is.
"""

from __future__ import annotations

import keyword
import re
import shlex
import sys
from importlib.metadata import packages_distributions
from pathlib import Path

from kscheduler.framework.out_of_tree import RESERVED

PLUGIN = '''"""Filters and scores nodes by a label: start here."""

from __future__ import annotations

from kscheduler.framework import CycleState, Handle, NodeInfo, PodInfo, Status, unschedulable


class {name}:
    """Reject nodes without the label, and prefer those where it equals the pod's."""

    name = "{name}"  # in statuses, metrics and logs

    def __init__(self, args: dict[str, object], handle: Handle) -> None:
        """`args` are the plugin's `pluginConfig`."""
        self._label = str(args.get("label", "team"))

    def filter(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status | None:
        """None if the node has the label."""
        return None if self._label in node.labels else unschedulable(f"node(s) had no label {{self._label}}")

    def score(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> tuple[int, Status | None]:
        """100 where node and pod have the same value of the label, else 0."""
        wanted = (pod.pod.metadata.labels or {{}}).get(self._label)
        return (100 if wanted and node.labels.get(self._label) == wanted else 0), None
'''

TEST = '''"""{name} on a few nodes. Run with: python -m pytest"""

from __future__ import annotations

from kscheduler.testing import PluginHarness, make_node, make_pod

from {module} import {name}

NODES = [make_node("ours").label(team="a"), make_node("theirs").label(team="b"), make_node("bare")]


def test_nodes_without_the_label_are_rejected() -> None:
    statuses = PluginHarness({name}, nodes=NODES).filter(make_pod("p"))
    assert [node for node, status in statuses.items() if status is not None] == ["bare"]


def test_a_pod_prefers_the_nodes_of_its_team() -> None:
    scores = PluginHarness({name}, nodes=NODES[:2]).score(make_pod("p").label(team="a"))
    assert scores == {{"ours": 100, "theirs": 0}}
'''

NODES = """# Nodes of two teams, and one of no team, for `kscheduler simulate`.
apiVersion: v1
kind: List
items:
- apiVersion: v1
  kind: Node
  metadata: {{name: ours, labels: {{team: a}}}}
  status: {{allocatable: {{cpu: "8", memory: 32Gi, pods: "110"}}}}
- apiVersion: v1
  kind: Node
  metadata: {{name: theirs, labels: {{team: b}}}}
  status: {{allocatable: {{cpu: "8", memory: 32Gi, pods: "110"}}}}
- apiVersion: v1
  kind: Node
  metadata: {{name: bare}}
  status: {{allocatable: {{cpu: "8", memory: 32Gi, pods: "110"}}}}
"""

PODS = """# Pods of both teams.
apiVersion: v1
kind: List
items:
- apiVersion: v1
  kind: Pod
  metadata: {{name: of-a, namespace: default, labels: {{team: a}}}}
  spec: {{containers: [{{name: c, resources: {{requests: {{cpu: "1", memory: 1Gi}}}}}}]}}
- apiVersion: v1
  kind: Pod
  metadata: {{name: of-b, namespace: default, labels: {{team: b}}}}
  spec: {{containers: [{{name: c, resources: {{requests: {{cpu: "1", memory: 1Gi}}}}}}]}}
"""

CONFIGURATION = """# kscheduler config validate scheduler.yaml, with this folder on PYTHONPATH
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: default-scheduler
  plugins:
    multiPoint:
      enabled:
      - name: {module}:{name}
        weight: 5
  pluginConfig:
  - name: {module}:{name}
    args:
      label: team
"""


def main(arguments: list[str]) -> int:
    """Create a plugin; return exit code 2 for unusable arguments."""
    if not 1 <= len(arguments) <= 2:
        print("new-plugin: expected a class name such as PreferTeam, and perhaps a folder", file=sys.stderr)
        return 2
    name, folder = arguments[0], Path(arguments[1] if len(arguments) == 2 else ".")
    if not re.fullmatch("[A-Z][A-Za-z0-9]*", name) or keyword.iskeyword(name):
        print(f"new-plugin: expected a class name such as PreferTeam, got {name!r}", file=sys.stderr)
        return 2
    if name in RESERVED:
        print(f"new-plugin: expected a name that no plugin has yet, got {name!r}", file=sys.stderr)
        return 2
    module = re.sub("(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()
    if keyword.iskeyword(module) or _is_taken(module):
        what = f"{module} is {'a keyword' if keyword.iskeyword(module) else 'the name of another module'}"
        print(f"new-plugin: expected a class name such as PreferTeam, got {name!r}: {what}", file=sys.stderr)
        return 2
    made = folder / module
    try:
        made.mkdir(parents=True)
    except OSError as error:
        print(f"new-plugin: {made}: {error.strerror}", file=sys.stderr)
        return 2
    files = {
        f"{module}.py": PLUGIN,
        f"test_{module}.py": TEST,
        "scheduler.yaml": CONFIGURATION,
        "nodes.yaml": NODES,
        "pods.yaml": PODS,
    }
    for path, text in files.items():
        (made / path).write_text(text.format(name=name, module=module), encoding="utf-8")
    print(f"{made}: {', '.join(files)}")
    print(_trial(made))
    return 0


def _trial(made: Path) -> str:
    """Return the commands that test the plugin and simulate with it, by the programs of this Python."""
    folder, programs = shlex.quote(str(made.resolve())), shlex.quote(str(Path(sys.executable).parent))
    options = "--config scheduler.yaml --nodes nodes.yaml --pods pods.yaml --placements placements.csv"
    return (
        f"try:\n  cd {folder}; export PATH={programs}:$PATH PYTHONPATH=.\n"
        f"  python -m pytest\n  kscheduler simulate {options}; cat placements.csv"
    )


def _is_taken(module: str) -> bool:
    """Return whether on PYTHONPATH the module would hide another, of Python or of an installed package."""
    return module in sys.stdlib_module_names or module in packages_distributions()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
