"""Plugins for the requests of pods and the allocatable resources of nodes."""
