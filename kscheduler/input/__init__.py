"""Reads JSON, YAML and files from outside, and hides the secrets in them from every text."""
