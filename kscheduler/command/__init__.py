"""The command line: parses flags; one module a command, which builds the parts it needs and runs them."""
