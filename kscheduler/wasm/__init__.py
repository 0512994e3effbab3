"""WebAssembly guests: the engine that runs them, and the two binary interfaces they may speak.

A guest is a policy that somebody else wrote. It sees its own memory and the host functions it is given; it has a
deadline for each call and a cap on its memory; whatever it does wrong is a GuestFault, never a fault of the scheduler.
"""
