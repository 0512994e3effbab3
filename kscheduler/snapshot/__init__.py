"""The cluster as arrays: rows of nodes, and pods compiled to the integers that kernels take."""
