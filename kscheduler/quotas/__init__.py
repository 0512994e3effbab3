"""Quotas: what tenants use and may use, kept as integers in a tree of accounts."""
