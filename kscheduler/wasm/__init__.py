"""Runs plugins that are compiled to WebAssembly ("guests"): the engines that execute them, and their two ABIs.

A guest is untrusted third-party code. It can access only its own memory and the host functions it is given. Each call
has a deadline, and its memory has a limit. Every error of a guest is a GuestFault, never an error of the scheduler.
"""
