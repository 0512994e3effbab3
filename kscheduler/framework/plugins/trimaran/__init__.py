"""Trimaran's plugins, by their names, arguments and formulas, over the metrics that this program asks for itself.

They go by utilisations in percent of a node. One that is older than five minutes is not known, where Trimaran would go
by the last one for ever: a node of which nothing is known has the lowest score.
"""
