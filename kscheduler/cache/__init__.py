"""The cache of nodes and pods: what the watches reported, plus assumed pods that no watch has confirmed yet."""
