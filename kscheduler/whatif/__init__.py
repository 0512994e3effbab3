"""Answers what would have been if the cluster or the configuration had been another one.

The pods of a record, or of any other input of `kscheduler simulate`, arrive in virtual time once as they are, and once
with other nodes or another configuration; the answer is the difference. With objectives it finds the fewest nodes that
meet them.
"""
