"""Simulates a cluster in virtual time: pods arrive, a real scheduler places them, and a report shows the outcome."""
