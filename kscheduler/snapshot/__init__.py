"""The cluster as arrays: a row for each node and a column for each property.

Pods are compiled to integers for kernels.
"""
