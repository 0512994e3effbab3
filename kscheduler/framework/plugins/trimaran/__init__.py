"""Trimaran's plugins, with their names, arguments and formulas, over the metrics that this program polls.

They use utilisations in percent of a node. A value older than five minutes counts as unknown, where Trimaran would use
it forever; a node without known values gets the lowest score.
"""
