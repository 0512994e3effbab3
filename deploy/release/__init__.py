"""Builds what is published: a source distribution, wheels, and the list of what is in them."""
