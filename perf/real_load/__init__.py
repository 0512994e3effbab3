"""Simulates one workload with several configurations: is placing by real load better than placing by requests?

`python -m perf.real_load` prints a table and writes a page with plots. In this workload, what pods request says little
about what they use; see `workload.yaml`.
"""
