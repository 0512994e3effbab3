"""Does placing by real load beat placing by requests? One workload, the same pods, several configurations, simulated.

`python -m perf.real_load` prints a table and writes a page with plots. What pods request says little about what they
use here; see `workload.yaml`.
"""
