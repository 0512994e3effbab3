"""Helpers for tests, also of plugin authors: builders of pods and nodes, and a harness that runs one plugin."""

from kscheduler.testing.plugin_harness import PluginHarness
from kscheduler.testing.wrappers import NodeBuilder, PodBuilder, make_node, make_pod

__all__ = ["NodeBuilder", "PluginHarness", "PodBuilder", "make_node", "make_pod"]
