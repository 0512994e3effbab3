"""How a guest gets into the program: from a file or a server, checked, compiled once, and replaced when it changes."""
