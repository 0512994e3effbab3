"""Helpers for tests, also of plugin authors: builders of pods and nodes, a harness for one plugin, a control plane.

The names below are imported when first used, so that `kscheduler.testing.controlplane` works without the compiled
kernels.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kscheduler.testing.plugin_harness import PluginHarness
    from kscheduler.testing.wrappers import NodeBuilder, PodBuilder, make_node, make_pod

__all__ = ["NodeBuilder", "PluginHarness", "PodBuilder", "make_node", "make_pod"]


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    if name == "PluginHarness":
        from kscheduler.testing import plugin_harness as module
    else:
        from kscheduler.testing import wrappers as module  # type: ignore[no-redef]
    return getattr(module, name)
