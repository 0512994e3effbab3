"""Gangs: pods of which at least a minimum is placed together, or none."""
