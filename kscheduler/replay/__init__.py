"""Records everything that a scheduler's decisions depend on while it runs, and decides again from such a record.

The scheduler below its client knows no network, no clock and no order of tasks but those in which its parts are called:
by watch events, by its own loop, and by tasks that go on after a request. `recording` writes these calls, in order;
`replayed` makes them again, on the same parts, and compares what they decide.
"""
