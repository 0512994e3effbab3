"""Loading of guests: read from a file or a server, checked, compiled once, and replaced when the source changes."""
