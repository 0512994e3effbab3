"""A cluster in memory, the workloads that meet it, virtual time, and the report of what the scheduler did with them."""
