"""The page that shows reports of simulations: its files, a self-contained copy of it, and a server for it."""
