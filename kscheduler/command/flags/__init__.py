"""Parses the flags of each command into typed options. Starts nothing and reads no file.

`run` accepts all flags of kube-scheduler, so that its manifest works with only the command name changed. Those that
have no meaning here are accepted with a warning; unknown flags are errors.
"""
