"""`python -m kscheduler`."""

import sys

# `-m` looks for modules in the current directory first, which is the user's: a json.py there is none of this program's.
# What PYTHONPATH names stays, the current directory too. Python 3.11 can be told not to begin with it (`-P`).
if not getattr(sys.flags, "safe_path", False):
    del sys.path[0]

from kscheduler.command.start import main

sys.exit(main())
