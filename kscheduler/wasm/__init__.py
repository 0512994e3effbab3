"""WebAssembly guests: the engines that run them, and the two ABIs that they may use.

A guest is untrusted code of a third party. It has access to its own memory and to the host functions it is given; it
has a deadline for each call and a limit on its memory; every error of it is a GuestFault, never a fault of the
scheduler.
"""
