"""Pods that want a node: which one is next, and what wakes the others. No I/O, no clock."""
