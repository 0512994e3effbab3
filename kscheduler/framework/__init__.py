"""The scheduling framework: extension points, and the plugins that answer them. No I/O of its own, no clock."""
