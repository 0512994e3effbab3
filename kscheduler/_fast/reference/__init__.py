"""The kernels in plain Python: the specification that tests hold the compiled ones to; it runs where none were built.

`rows` has what filtering.pyx, scoring.pyx and selection.pyx have; `tables` the classes of columns.pyx, verdicts.pyx and
scoring.pyx; `placement` also those of classes.pyx; `spread_affinity` also those of tallies.pyx. The other modules have
the names of the compiled ones. batches, row_ranking and worker_threads only make kernels fast: they have no reference.
"""
