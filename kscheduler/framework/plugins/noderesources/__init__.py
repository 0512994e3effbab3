"""Plugins that compare the requests of pods with the allocatable resources of nodes."""
