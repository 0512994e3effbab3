"""For tests, ours and plugin authors': pods and nodes in a few words, and one plugin run among them."""

from kscheduler.testing.plugin_harness import PluginHarness
from kscheduler.testing.wrappers import NodeBuilder, PodBuilder, make_node, make_pod

__all__ = ["NodeBuilder", "PluginHarness", "PodBuilder", "make_node", "make_pod"]
