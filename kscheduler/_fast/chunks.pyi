# Nothing here is for Python: see chunks.pxd.
