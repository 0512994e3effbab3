"""Pods that wait for a node: which pod is next, and which events requeue rejected ones. No I/O, no clock."""
