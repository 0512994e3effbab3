"""The kernels in plain Python: what the compiled ones must answer, and what runs where those are not built."""
