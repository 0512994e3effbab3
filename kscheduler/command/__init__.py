"""The command line: `cli` and `flags` parse it, and one module per command builds the parts it needs and runs them."""
