"""Fixtures for tests on a real control plane; each test of this folder carries the marker `controlplane`.

Without Go the tests are skipped and say why; in CI they fail instead (tests/support/skips.py).
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kscheduler.testing.controlplane import ApiserverOptions, Binaries, ControlPlane, ensure
from kscheduler.testing.controlplane.workspace import Workspace

FOLDER = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark every test below this folder, so that `-m 'not controlplane'` leaves them all out."""
    below = f"{FOLDER}{os.sep}"
    for item in items:
        if str(item.path).startswith(below):
            item.add_marker(pytest.mark.controlplane)


@pytest.fixture(scope="session")
def binaries(request: pytest.FixtureRequest) -> Binaries:
    """The built control plane. The first build takes minutes, and says so on the terminal."""
    capture = request.config.pluginmanager.getplugin("capturemanager")
    with capture.global_and_fixture_disabled() if capture else contextlib.nullcontext():
        return ensure()


@pytest.fixture(scope="session")
def control_plane(binaries: Binaries) -> Iterator[ControlPlane]:
    """One control plane shared by the tests of a run; take `workspace` to leave it as it was."""
    with ControlPlane(binaries=binaries) as shared:
        yield shared


@pytest.fixture
def fresh_control_plane(binaries: Binaries) -> Iterator[Callable[..., ControlPlane]]:
    """Starts control planes of the test's own: `fresh_control_plane(audit=True)`, with fields of ApiserverOptions."""
    with contextlib.ExitStack() as ends:

        def start(**options: object) -> ControlPlane:
            return ends.enter_context(ControlPlane(ApiserverOptions(**options), binaries))  # type: ignore[arg-type]

        yield start


@pytest.fixture
def workspace(control_plane: ControlPlane) -> Iterator[Workspace]:
    """A namespace on the shared control plane, which starts without nodes and is cleaned up after the test."""
    own = Workspace(control_plane)
    try:
        yield own
    finally:
        own.clean()
