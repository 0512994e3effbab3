"""Apiserver and scheduler are killed between two bindings of a gang; `make gang-restarts` plays many such runs."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from kscheduler.testing.controlplane import ControlPlane
from tests.controlplane.gang_restarts import FIT, SIZE, install, play

pytestmark = pytest.mark.slow


def test_all_gangs_that_fit_are_whole_after_both_were_killed_and_of_the_others_no_pod_has_a_node(
    fresh_control_plane: Callable[..., ControlPlane],
) -> None:
    control_plane = fresh_control_plane()
    install(control_plane)
    run = play(control_plane, 1)
    assert not run.fault
    assert run.kills_scheduler
    assert run.killed_at < FIT * SIZE, "all were bound before the apiserver was killed: the test showed nothing"
