"""Reads JSON, YAML and files that come from outside, and hides the secrets in them from every text."""
