"""Configurations given to the real kube-scheduler: the same refusals in the same words, the same plugins in use.

Of wrong types of values and of YAML itself only that both refuse: kube-scheduler speaks of Go structs, and this program
of paths. Left out are repeated YAML keys, where kube-scheduler answers over several lines.
"""

from __future__ import annotations

import json
import random
import re
import subprocess
import textwrap
from pathlib import Path
from typing import Any

import pytest
import yaml

from kscheduler.config.dump import to_v1
from kscheduler.config.extension_points import ExtensionPoint, PointMap
from kscheduler.config.load import default_config, parse_config
from kscheduler.config.profiles import effective_plugins
from kscheduler.config.releases import Release, release_of
from kscheduler.config.types import PLUGIN_ARGS
from kscheduler.errors import ConfigError
from kscheduler.testing.controlplane import ensure
from tests.config.documents import HEAD
from tests.config.faulty_documents import ARGS, FIT, GENERAL

pytestmark = [pytest.mark.controlplane, pytest.mark.slow]

KUBECONFIG = """
apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: "https://127.0.0.1:1"}}]
users: [{name: u, user: {token: none}}]
contexts: [{name: c, context: {cluster: c, user: u}}]
current-context: c
"""
LINES = 2_000  # more than it writes before it either refuses or names its plugins
PROFILES = 40  # random profiles; each costs kube-scheduler a fifth of a second
# Behind feature gates that are off by default: kube-scheduler does not know them without.
GATED = frozenset({"GangScheduling", "TopologyPlacementGenerator", "PodGroupPodsCount", "DeferredPodScheduling"})

Lists = dict[str, list[tuple[str, int]]]  # extension point -> (plugin, weight), in order


class KubeScheduler:
    """The real one, started with a configuration until it says what it makes of it; it never connects to a cluster."""

    def __init__(self, release: str, folder: Path) -> None:
        self.release = release
        self._binary = ensure(("kube-scheduler",), release).path("kube-scheduler")
        self._folder = folder
        (folder / "kubeconfig").write_text(KUBECONFIG)

    def complete(self, body: str) -> str:
        """`body` with what kube-scheduler needs to start and this program ignores."""
        text = HEAD + textwrap.dedent(body)
        if "clientConnection" not in text:
            text += f"\nclientConnection: {{kubeconfig: {self._folder / 'kubeconfig'}}}\n"
        return text if "leaderElection" in text else text + "\nleaderElection: {leaderElect: false}\n"

    def answer(self, text: str) -> str | Lists:
        """Its refusal, or the plugins it runs."""
        config = self._folder / "config.yaml"
        config.write_text(text)
        command = [str(self._binary), "--config", str(config), "--secure-port=0", "-v=2"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
            try:
                assert process.stdout is not None
                for _, line in zip(range(LINES), process.stdout, strict=False):
                    if '"command failed" err="' in line:
                        return _refusal(line)
                    if "starts to work with those plugins" in line:
                        return _lists(json.loads(line.split("Plugins=", 1)[1]))
                raise AssertionError("kube-scheduler neither refused the configuration nor started")
            finally:
                process.kill()


def _refusal(line: str) -> str:
    found = re.search(r'err="(.*)"$', line.strip())
    assert found is not None
    text: str = json.loads(f'"{found.group(1)}"')
    return text


def _lists(plugins: dict[str, Any]) -> Lists:
    return {
        key[0].lower() + key[1:]: [(entry["Name"], entry["Weight"]) for entry in value["Enabled"] or ()]
        for key, value in plugins.items()
        if key != "MultiPoint"
    }


def ours(text: str, release: str) -> str | Lists:
    """What this program answers, in the same form; it has weights everywhere, kube-scheduler where they count."""
    try:
        config = parse_config(text, "f", release=release_of(release))
    except ConfigError as error:
        return str(error).removeprefix("f: ")
    lists = effective_plugins(config.profiles[0], config.release.points, config.release)
    scores = (ExtensionPoint.SCORE, ExtensionPoint.PLACEMENT_SCORE)
    return {
        point.value: [(name, weight if point in scores else 0) for name, weight in entries]
        for point, entries in lists.items()
    }


@pytest.fixture(scope="module")
def kube_scheduler(release: str, tmp_path_factory: pytest.TempPathFactory) -> KubeScheduler:
    return KubeScheduler(release, tmp_path_factory.mktemp("kube-scheduler"))


def args_body(plugin: str, args: str) -> str:
    return f"profiles: [{{pluginConfig: [{{name: {plugin}, args: {args}}}]}}]"


BODIES: dict[str, str] = {
    **{f"general: {case}": body for case, (body, _) in GENERAL.items()},
    **{f"args: {case}": args_body(plugin, args) for case, (plugin, args, _) in ARGS.items()},
    **{f"fit: {case}": args_body("NodeResourcesFit", args) for case, (args, _) in FIT.items()},
    "unknown fields": "foo: 1\nprofiles: [{pluginConfig: [{name: NodeAffinity, args: {bar: 1}}], baz: 1}]",
    "other args": args_body("NodeAffinity", "{apiVersion: kubescheduler.config.k8s.io/v1, kind: VolumeBindingArgs}"),
    "unknown plugin": "profiles: [{plugins: {score: {enabled: [{name: Nope}]}}}]",
    "unknown plugin everywhere": "profiles: [{plugins: {multiPoint: {enabled: [{name: Nope}]}}}]",
    "wrong point": "profiles: [{plugins: {score: {enabled: [{name: NodeName}]}}}]",
    "no binder": 'profiles: [{plugins: {bind: {disabled: [{name: "*"}]}}}]',
    "no queue sort": 'profiles: [{plugins: {queueSort: {disabled: [{name: "*"}]}}}]',
    "negative weight": "profiles: [{plugins: {score: {enabled: [{name: NodeAffinity, weight: -1}]}}}]",
    "zero backoff": "podInitialBackoffSeconds: -5\npodMaxBackoffSeconds: -6",
    "names": "extenders: [{managedResources: [{name: ''}, {name: a//b}, {name: -a/b}, {name: requests.a/b}]}]",
    "empty": "",
    "no profiles": "profiles: []",
    "extender": "extenders: [{urlPrefix: x, filterVerb: f}]",
}


@pytest.mark.shared_by_releases
@pytest.mark.parametrize("case", BODIES)
def test_kube_scheduler_gives_equal_answers(kube_scheduler: KubeScheduler, case: str) -> None:
    text = kube_scheduler.complete(BODIES[case])
    assert ours(text, kube_scheduler.release) == kube_scheduler.answer(text)


IN_OTHER_WORDS = {
    "a text for a number": "percentageOfNodesToScore: '50'",
    "half a node": "percentageOfNodesToScore: 50.5",
    "a share that is too large": "percentageOfNodesToScore: 99999999999",
    "a per cent sign": "percentageOfNodesToScore: 50%",
    "true for a number": "percentageOfNodesToScore: true",
    "a number for true": "enableProfiling: 1",
    "a number for a name": "profiles: [{schedulerName: 5}]",
    "true for a name": "profiles: [{schedulerName: yes}]",
    "a mapping for a list": "profiles: {schedulerName: a}",
    "a list for a mapping": "profiles: [{plugins: [NodeAffinity]}]",
    "a name for a plugin": "profiles: [{plugins: {score: {enabled: [NodeAffinity]}}}]",
    "a weight in quotes": "profiles: [{plugins: {score: {enabled: [{name: NodeAffinity, weight: '3'}]}}}]",
    "a name for a strategy": args_body("NodeResourcesFit", "{scoringStrategy: MostAllocated}"),
    "a list for arguments": args_body("NodeAffinity", "[]"),
    "arguments of an old version": args_body(
        "NodeAffinity", "{apiVersion: kubescheduler.config.k8s.io/v1beta3, kind: NodeAffinityArgs}"
    ),
    "seconds without a unit": "leaderElection: {leaderElect: false, leaseDuration: 15}",
    "a day": "leaderElection: {leaderElect: false, leaseDuration: 1d}",
    "a placeholder of a chart": "percentageOfNodesToScore: {{ .Values.share }}",
    "infinity": "percentageOfNodesToScore: .inf",
    "a list that does not end": "profiles: [",
    "a line that is indented by a tab": "profiles:\n- schedulerName: a\n\tplugins: {}",
    "a tab behind a dash": "profiles:\n-\tschedulerName: a",
    "tabs alone in a line": "profiles:\n\t\n- schedulerName: a",
}
ALLOWED = {
    "a whole number with a fraction": "percentageOfNodesToScore: 50.0",
    "an exponent": "percentageOfNodesToScore: 1e1",
    "hexadecimal": "percentageOfNodesToScore: 0x10",
    "no for false": "enableProfiling: no",
    "arguments that are null": args_body("NodeAffinity", "null"),
    "a tab behind a colon": "percentageOfNodesToScore:\t50",
    "a tab before a colon": "percentageOfNodesToScore\t: 50",
    "a tab before a comment": "percentageOfNodesToScore: 50\t# half",
    "tabs in a list": "profiles: [\n\t{\tschedulerName:\ta}\n\t]",
    "a separator at the end": "percentageOfNodesToScore: 50\n---\n# nothing\n",
}


@pytest.mark.shared_by_releases
@pytest.mark.parametrize("case", IN_OTHER_WORDS)
def test_kube_scheduler_refuses_it_too(kube_scheduler: KubeScheduler, case: str) -> None:
    body = IN_OTHER_WORDS[case]  # it comes last, since some end in the middle of something
    text = kube_scheduler.complete(body) if "leaderElection" in body else kube_scheduler.complete("") + body
    assert isinstance(ours(text, kube_scheduler.release), str)
    assert isinstance(kube_scheduler.answer(text), str)


@pytest.mark.shared_by_releases
@pytest.mark.parametrize("case", ALLOWED)
def test_kube_scheduler_takes_it_too(kube_scheduler: KubeScheduler, case: str) -> None:
    text = kube_scheduler.complete("") + ALLOWED[case]
    answer = ours(text, kube_scheduler.release)
    assert isinstance(answer, dict)
    assert kube_scheduler.answer(text) == answer


def random_set(rng: random.Random, point: str, known: PointMap) -> dict[str, Any]:
    """A plugin set of names that mostly fit the point."""
    fitting = [name for name, points in known.items() if point == "multiPoint" or point in points]
    names = [name for name in fitting if name not in GATED] or ["NodeName"]
    if rng.random() < 0.03:
        names = ["NodeName", "ImageLocality", "DefaultBinder"]
    enabled: list[dict[str, Any]] = [
        {"name": name, "weight": rng.randrange(10)} for name in rng.sample(names, min(len(names), rng.randrange(4)))
    ]
    if enabled and rng.random() < 0.05:
        enabled.append(enabled[0])
    disabled = [{"name": name} for name in rng.sample(names, min(len(names), rng.randrange(3)))]
    if rng.random() < 0.15:
        disabled.append({"name": "*"})
    return {"enabled": enabled, "disabled": disabled}


def random_profile(rng: random.Random, release: Release) -> dict[str, Any]:
    points = [
        point.value for point in release.extension_points if point.value not in ("queueSort", "placementGenerate")
    ]
    plugins = {
        point: random_set(rng, point, release.points) for point in rng.sample([*points, "multiPoint"], rng.randrange(6))
    }
    everywhere = plugins.get("multiPoint", {"enabled": [], "disabled": []})
    if {"name": "*"} in everywhere["disabled"] and rng.random() < 0.8:
        present = {entry["name"] for entry in everywhere["enabled"]}
        everywhere["enabled"] += [{"name": name} for name in ("PrioritySort", "DefaultBinder") if name not in present]
    return {"plugins": plugins}


@pytest.mark.shared_by_releases
@pytest.mark.parametrize("seed", range(PROFILES))
def test_kube_scheduler_runs_the_same_plugins_of_a_random_profile(kube_scheduler: KubeScheduler, seed: int) -> None:
    body = yaml.safe_dump({"profiles": [random_profile(random.Random(seed), release_of(kube_scheduler.release))]})
    text = kube_scheduler.complete(body)
    assert ours(text, kube_scheduler.release) == kube_scheduler.answer(text)


def test_kube_scheduler_takes_what_this_program_writes(kube_scheduler: KubeScheduler) -> None:
    document = to_v1(default_config(release_of(kube_scheduler.release)))
    document["clientConnection"]["kubeconfig"] = str(kube_scheduler._folder / "kubeconfig")
    text = yaml.safe_dump(document)
    assert {entry["name"] for entry in document["profiles"][0]["pluginConfig"]} == PLUGIN_ARGS.keys()
    assert kube_scheduler.answer(text) == ours(text, kube_scheduler.release)
