"""Allocates devices to claims, as the `incubating` allocator of kube-scheduler's dynamic resource allocation.

`allocator.Allocator` decides for one node whether a pod's claims can be satisfied, and with which devices. This package
is the definition; faster forms have to agree with it.
"""
