# Nothing here is for Python: see standings.pxd.
