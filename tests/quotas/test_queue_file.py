"""Queues may stand in a file that the plugin's arguments name; what is wrong with the file is reported at the start."""

from __future__ import annotations

from pathlib import Path

import pytest

from kscheduler.assembly import check_supported
from kscheduler.config.load import parse_config
from kscheduler.config.types import SchedulerConfig
from kscheduler.errors import ConfigError
from kscheduler.quotas.queue_file import share_queues

CONFIG = """\
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- plugins: {preFilter: {enabled: [{name: Queues}]}}
  pluginConfig:
  - name: Queues
    args: {file: "%s", saturationMultiplier: 1.5, maxConsolidationVictims: 2}
"""
OURS = (
    "---\n{apiVersion: kscheduler.io/v1alpha1, kind: Queue, metadata: {name: a}, "
    "spec: {resources: {cpu: {deserved: %s}}}}\n"
)
KAIS = "---\n{apiVersion: scheduling.run.ai/v2, kind: Queue, metadata: {name: %s}, spec: {parentQueue: gone}}\n"


def config(folder: Path, text: str) -> SchedulerConfig:
    path = folder / "queues.yaml"
    path.write_text(text)
    return parse_config(CONFIG % path)


def test_queues_of_both_kinds_are_read_and_a_parent_may_come_later(tmp_path: Path) -> None:
    read = config(tmp_path, OURS % "2" + KAIS % "b")
    check_supported(read)
    queues = share_queues(read)
    assert queues.tree.queues["a"].shares["cpu"].deserved == 2000
    assert "which does not exist" in queues.why_unusable("b")
    assert float(queues.saturation_multiplier) == 1.5
    assert queues.moves.most == 2


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (
            "---\n{apiVersion: v1, kind: Pod, metadata: {name: p}, spec: {containers: []}}",
            "expected objects of kind Queue",
        ),
        (OURS % "lots", r'queue a: spec.resources\[cpu\].deserved: expected .*, got "lots"'),
        (OURS % "1" + KAIS % "a", "queue a: expected one queue of this name, got two"),
        ("{", "expected"),
    ],
)
def test_a_file_that_is_wrong_is_refused_with_its_name(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(ConfigError, match=rf"queues\.yaml: .*{words}"):
        check_supported(config(tmp_path, text))


def test_a_file_that_is_not_there_is_refused() -> None:
    with pytest.raises(ConfigError, match="no/such/file: expected a readable file"):
        check_supported(parse_config(CONFIG % "no/such/file"))
