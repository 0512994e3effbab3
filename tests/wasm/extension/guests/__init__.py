"""Guests in real languages, built with what compiles them."""
