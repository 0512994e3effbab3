"""The cluster as arrays: nodes as rows of columns, and pods compiled to the integers that kernels take."""
