"""Compares two runs: which pods landed elsewhere, the first plugin that says why, and their figures side by side.

A side of a comparison is a record, a report of a simulation, or a configuration that is simulated on an input common
to both sides (`sides`). `comparing` compares two sides. It is imported only by the commands that compare.
"""
