# Nothing here is for Python: see batches.pxd.
