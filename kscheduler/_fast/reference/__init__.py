"""The kernels in plain Python: the specification of the compiled modules of the same names.

`checks` checks arguments for the others, as checks.pxd does for the compiled modules. These modules run where nothing
was compiled; the product imports them from `kscheduler._fast` only.
"""
