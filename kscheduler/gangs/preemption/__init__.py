"""Preemption by whole gangs: evictions that make room for all members that a gang needs, or for none."""
