"""kube-scheduler's own program refuses the same feature gates as ours, in the same words."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterable
from pathlib import Path

import pytest

from kscheduler.config.feature_gates import GA
from kscheduler.config.gate_dependencies import DEPENDENCIES
from kscheduler.config.gate_settings import with_settings
from kscheduler.config.known_gates import known_gates
from kscheduler.config.releases import release_of
from kscheduler.errors import ConfigError
from kscheduler.testing.controlplane import ensure
from tests.support.releases import releases_to_test

pytestmark = pytest.mark.slow

REFUSAL = re.compile(r"(\w+ is enabled, but depends on features that are disabled: \[[\w ]+\])")


@pytest.fixture(scope="module")
def no_kubeconfig(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file that is not there: whatever gates are accepted, kube-scheduler ends."""
    return tmp_path_factory.mktemp("gates") / "kubeconfig"


@pytest.mark.parametrize("release", releases_to_test())
def test_both_refuse_gates_without_those_on_which_they_depend(release: str, no_kubeconfig: Path) -> None:
    program = ensure(("kube-scheduler",), release).path("kube-scheduler")
    refused = 0
    for settings in (*_each_gate_on(release), *_each_gate_alone(release)):
        flag = ",".join(f"{name}={str(value).lower()}" for name, value in settings.items())
        ended = subprocess.run(
            [program, f"--feature-gates={flag}", f"--kubeconfig={no_kubeconfig}"],
            capture_output=True,
            text=True,
            check=False,
        )
        assert ended.returncode != 0
        theirs = sorted(REFUSAL.findall(ended.stderr))
        assert _refusals(release, settings) == theirs, flag
        refused += bool(theirs)
    assert refused >= 15


def _each_gate_on(release: str) -> Iterable[dict[str, bool]]:
    """Each gate with dependencies that can be switched on, all else as by default."""
    known = known_gates(release)
    for name in DEPENDENCIES.keys() & known.keys():
        if not known[name].is_locked:
            yield {name: True}


def _each_gate_alone(release: str) -> Iterable[dict[str, bool]]:
    """Each gate with dependencies, without those of them that can be switched off."""
    known = known_gates(release)
    for name, needed in DEPENDENCIES.items():
        if name not in known or known[name].is_locked:
            continue
        off = [each for each in needed if each in known and not known[each].is_locked and known[each].stage != GA]
        if off:
            yield {name: True, **dict.fromkeys(off, False)}


def _refusals(release: str, settings: dict[str, bool]) -> list[str]:
    """What ours says, in order."""
    try:
        with_settings(release_of(release), settings)
    except ConfigError as error:
        return sorted(REFUSAL.findall(str(error)))
    return []
