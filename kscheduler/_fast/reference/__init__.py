"""The kernels in plain Python: the specification of the compiled modules of the same names.

`checks` serves the others, as checks.pxd does there. They run where nothing was compiled; the product takes them from
`kscheduler._fast` only.
"""
