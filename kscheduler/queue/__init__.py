"""Pods that wait for a node: which one is next, and which events wake the others. No I/O, no clock."""
