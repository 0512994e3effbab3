# Nothing here is for Python: see totals.pxd.
