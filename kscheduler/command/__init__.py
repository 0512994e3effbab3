"""The command line: parses flags, builds a scheduler from them, and runs it until a signal comes."""
