"""Loads guests: reads them from a file or a server, checks and compiles them, and replaces them when the source
changes.
"""
