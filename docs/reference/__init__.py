"""Pages that are made from the code at every build: each function `page` returns one as Markdown."""
