"""Which releases of Kubernetes the tests compare with, and how much with each.

The default release is tested wholly. With each other one `make test` decides a part of the cases, always the same; a
hunt, and a run with KSCHEDULER_KUBERNETES set, decide all of them.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence
from typing import TypeVar

import pytest

from kscheduler.testing.controlplane.binaries import DEFAULT_RELEASE, RELEASES
from tests.support.seeds import HUNTED

CHOSEN = "KSCHEDULER_KUBERNETES"  # the environment variable that names the one release to be tested, such as "1.37"
SHARE_OF_OTHERS = 3  # with a release that is not the default one, one case of so many

T = TypeVar("T")


def releases_to_test() -> tuple[str, ...]:
    """The releases, the default one first, or the one that the environment names. ValueError for an unknown one."""
    chosen = os.environ.get(CHOSEN)
    if not chosen:
        return (DEFAULT_RELEASE, *(release for release in RELEASES if release != DEFAULT_RELEASE))
    if chosen not in RELEASES:
        raise ValueError(f"{CHOSEN}: expected one of {', '.join(RELEASES)}, got {chosen!r}")
    return (chosen,)


def is_tested_wholly(release: str) -> bool:
    """Does this run decide all cases with the release?"""
    return release == DEFAULT_RELEASE or release == os.environ.get(CHOSEN) or HUNTED in os.environ


def cases_with(release: str, cases: Sequence[T]) -> Sequence[T]:
    """Those of the cases that this run decides with the release."""
    return cases if is_tested_wholly(release) else cases[::SHARE_OF_OTHERS]


class SharedByReleases:
    """Hooks of pytest, to be registered as a plugin.

    Of a test that has the marker `shared_by_releases` and the fixture `release`, it leaves out the cases that this run
    does not decide with a release.
    """

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        """Leave out cases before anything else selects or sorts, so that always the same remain."""
        seen: Counter[tuple[str, str]] = Counter()  # (test, release) -> cases
        left_out = []
        for item in items:
            release = _release_of(item)
            if release is None or is_tested_wholly(release):
                continue
            test = item.nodeid.partition("[")[0], release
            if seen[test] % SHARE_OF_OTHERS:
                left_out.append(item)
            seen[test] += 1
        if left_out:
            dropped = set(left_out)
            items[:] = [item for item in items if item not in dropped]
            config.hook.pytest_deselected(items=left_out)


def _release_of(item: pytest.Item) -> str | None:
    """The release that a case with the marker is for."""
    if item.get_closest_marker("shared_by_releases") is None or not isinstance(item, pytest.Function):
        return None
    return str(item.callspec.params["release"])
