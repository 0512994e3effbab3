"""For tests, ours and plugin authors': pods and nodes in a few words."""

from kscheduler.testing.wrappers import NodeBuilder, PodBuilder, make_node, make_pod

__all__ = ["NodeBuilder", "PodBuilder", "make_node", "make_pod"]
