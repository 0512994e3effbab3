"""Makes the compiled CEL expressions by which classes and requests select devices."""

from __future__ import annotations

from kscheduler.cel.environment import KUBERNETES_1_36, KUBERNETES_1_37
from kscheduler.cel.selectors import Selectors
from kscheduler.config.releases import Release


def make_selectors(release: Release) -> Selectors:
    """Return a store of compiled expressions, with the types and functions that the release has."""
    return Selectors(KUBERNETES_1_37 if release.has_newer_cel else KUBERNETES_1_36)
