"""Loads guests: reads them from a file or server, checks and compiles them, and replaces them after changes."""
