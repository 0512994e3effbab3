"""Plugins that look at what nodes have and what pods ask for."""
